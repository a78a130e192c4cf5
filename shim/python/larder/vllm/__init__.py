"""vLLM's connector. In --kv-transfer-config, or KVTransferConfig(...):

{"kv_connector": "LarderConnector", "kv_connector_module_path": "larder.vllm", "kv_role": "kv_both"}"""

from larder import vllm_plugin
from larder.vllm.connector import LarderConnector

vllm_plugin.register()

__all__ = ["LarderConnector"]


def __getattr__(name):
    """vLLM's --kv-offloading-size puts its own connector's name beside our module path and asks this module for it: an engine that
    would not start for that gets the connector that it asks for."""
    if not name.startswith("_"):
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

        try:
            return KVConnectorFactory.get_connector_class_by_name(name)
        except ValueError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
