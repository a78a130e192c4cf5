"""vLLM's connector: --kv-transfer-config '{"kv_connector": "LarderConnector", "kv_connector_module_path": "larder.vllm", "kv_role": "kv_both"}'."""

from larder.vllm.connector import LarderConnector

__all__ = ["LarderConnector"]
