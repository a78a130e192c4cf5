"""vLLM's connector. In --kv-transfer-config, or KVTransferConfig(...):

{"kv_connector": "LarderConnector", "kv_connector_module_path": "larder.vllm", "kv_role":
"kv_both"}"""

from larder import vllm_plugin
from larder.vllm.connector import LarderConnector

vllm_plugin.register_as(vllm_plugin.NAME, vllm_plugin.MODULE)

__all__ = ["LarderConnector"]


def __getattr__(name):
    """vLLM's --kv-offloading-size puts the name of vLLM's own connector beside our module path, and
    looks this name up in this module. Such an engine gets the connector by that name, and can
    start."""
    if not name.startswith("_"):
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

        try:
            return KVConnectorFactory.get_connector_class_by_name(name)
        except ValueError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
