"""vLLM's connector. In --kv-transfer-config, or KVTransferConfig(...):

{"kv_connector": "LarderConnector", "kv_connector_module_path": "larder.vllm", "kv_role": "kv_both"}"""

from larder.vllm.connector import LarderConnector

__all__ = ["LarderConnector"]
