"""Registers LarderConnector with vLLM under its name.

vLLM finds a connector by kv_connector_module_path, or by name. Statistics of a MultiConnector's
children carry the name alone, and vLLM reads the statistics in processes without connectors: the
API server, the logger. `register` is an entry point of vllm.general_plugins, which vLLM calls in
each of its processes. larder.vllm calls `register_as`, for engines whose VLLM_PLUGINS leaves the
entry point out.

The entry point also changes what vLLM does with any connector: see keep_segments_fixed and
larder.client_embeddings. Thread-compatible."""

import logging
import os
import sys
import time

from larder import client_embeddings

NAME = "LarderConnector"
MODULE = "larder.vllm"
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
POOLS = ("enable-sleep-mode", "enable-cumem-allocator")
MOVING, FIXED = "expandable_segments:True", "expandable_segments:False"


_called_at = None  # seconds since the epoch


def register():
    """The entry point. May be called any number of times."""
    global _called_at
    if _called_at is None:
        _called_at = time.time()
    register_as(NAME, MODULE)


def called_at():
    """When vLLM loaded its plug-ins in this process, in seconds since the epoch: before any engine
    of this process read weights. None: vLLM has not called the entry point."""
    return _called_at


def register_as(name, module):
    """Imports no part of the connector. Raises no exception: an exception here would end vLLM, also
    without Larder in use."""
    logger = logging.getLogger("vllm.larder")
    try:
        keep_segments_fixed(logger)
        from vllm.config import VllmConfig

        client_embeddings.leave_to_flag(VllmConfig)
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

        KVConnectorFactory.register_connector(name, module, name)
    except ValueError:  # the name is registered
        pass
    except Exception as error:
        logger.debug("Larder: %s is not registered: %s", name, error, exc_info=True)


def keep_segments_fixed(logger):
    """vLLM refuses to start with any connector and expandable segments. The injector leaves such a
    pod alone, but sees no value of the image or of a Secret. The call comes before vLLM's check.
    LARDER_POOL marks an injected container: other engines keep vLLM's own error. vLLM's memory pool
    (sleep mode) needs no change."""
    value = os.environ.get(ALLOCATOR, "")
    if MOVING not in value or "LARDER_POOL" not in os.environ or has_own_pool():
        return
    os.environ[ALLOCATOR] = value.replace(MOVING, FIXED)
    logger.warning(
        "Larder: %s has %s, with which vLLM takes no connector: set to False for this engine. "
        "Write the value into the pod's env to start without a cache instead",
        ALLOCATOR,
        MOVING,
    )


def has_own_pool():
    """An embedded Python has no sys.argv. With a flag and its opposite (--no-...) the last one
    counts for vLLM; here the opposite does."""
    words = {str(word).split("=")[0].replace("_", "-") for word in getattr(sys, "argv", ())}
    return any(f"--{name}" in words and f"--no-{name}" not in words for name in POOLS)
