"""Registers LarderConnector with vLLM under its name.

vLLM finds a connector by kv_connector_module_path, or by name. Statistics of a MultiConnector's
children carry the name alone, and vLLM reads the statistics in processes without connectors: the
API server, the logger. `register` is an entry point of vllm.general_plugins, which vLLM calls in
each of its processes. larder.vllm calls `register` too, for engines whose VLLM_PLUGINS leaves the
entry point out. Thread-compatible."""

import logging

NAME = "LarderConnector"
MODULE = "larder.vllm"


def register(name=NAME, module=MODULE):
    """May be called any number of times. Imports no part of the connector. Raises no exception: an
    exception here would end vLLM, also without Larder in use."""
    logger = logging.getLogger("vllm.larder")
    try:
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

        KVConnectorFactory.register_connector(name, module, name)
    except ValueError:  # the name is registered
        pass
    except Exception as error:
        logger.debug("Larder: %s is not registered: %s", name, error, exc_info=True)
