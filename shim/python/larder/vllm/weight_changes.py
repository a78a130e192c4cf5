"""Weights that change in place: who in vLLM can do that, and how the scheduler's half hears of it before.

A client of vLLM changes weights by calls that go to every worker (reload_weights, update_weights, ...; a worker extension adds its own),
and they all pass EngineCore.collective_rpc, on the thread of the scheduler. vLLM tells connectors nothing of them, also not with its
default reset_prefix_cache(). So this wraps that method: any call that is not known to leave the weights alone moves the engine to a
namespace of its own before it is made."""

import functools
import weakref

from larder.vllm.groups import Unsupported
from larder.vllm.guard import logger

# Calls that leave every weight as it is.
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
    """half.weights_change(name) is called, as long as it lives, before a call that may change weights. Unsupported: this vLLM has no such
    place."""
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
    logger.warning("Larder: the call %s may change the weights: this engine shares with no other until it is restarted", name)
