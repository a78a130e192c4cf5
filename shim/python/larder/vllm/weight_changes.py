"""Weights that change in place: tells the scheduler's half before a call that may change weights.

A client of vLLM changes weights by calls to every worker: reload_weights, update_weights, or a
method of a worker extension. All such calls pass EngineCore.collective_rpc, on the scheduler's
thread. vLLM does not tell connectors of these calls, and its default reset_prefix_cache() does not
either. A wrapper of collective_rpc therefore moves the engine to a private namespace before each
call that is not on the list of harmless calls."""

import functools
import weakref

from larder.vllm.groups import Unsupported
from larder.vllm.guard import logger

# Calls that change no weight.
_HARMLESS = frozenset(
    {
        "add_lora",
        "check_health",
        "compile_or_warm_up_model",
        "compute_weight_checksums",
        "determine_available_memory",
        "execute_dummy_batch",
        "get_cache_block_size_bytes",
        "get_encoder_timing_stats",
        "get_kv_cache_spec",
        "get_kv_connector_handshake_metadata",
        "get_model_inspection",
        "get_supported_tasks",
        "init_weight_transfer_engine",
        "list_loras",
        "pin_lora",
        "profile",
        "remove_lora",
        "reset_encoder_cache",
        "reset_mm_cache",
        "save_sharded_state",
        "save_tensorized_model",
        "shutdown_weight_transfer_engine",
        "synchronize_device",
        "update_max_model_len",
    }
)
_HALVES = weakref.WeakSet()  # the schedulers' halves of this process


def watch(half):
    """From now on half.weights_change(name) is called before each call that may change weights, as
    long as `half` lives. Unsupported: this vLLM has no EngineCore.collective_rpc."""
    core = _engine_core()
    if not hasattr(core.collective_rpc, "larder_original"):
        core.collective_rpc = _watched(core.collective_rpc)
    _HALVES.add(half)


def _engine_core():
    try:
        from vllm.v1.engine.core import EngineCore

        EngineCore.collective_rpc
    except (ImportError, AttributeError):
        raise Unsupported("this vLLM does not tell when weights change in place (EngineCore.collective_rpc is missing)") from None
    return EngineCore


def _watched(original):
    @functools.wraps(original)
    def collective_rpc(self, method, *args, **kwargs):
        name = method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__)
        if not isinstance(method, str) or name not in _HARMLESS:
            for half in tuple(_HALVES):
                half.weights_change(name)
        return original(self, method, *args, **kwargs)

    collective_rpc.larder_original = original
    return collective_rpc


def tell(name):
    logger.warning("Larder: the call %s may change the weights: this engine uses a private namespace until it is restarted", name)
