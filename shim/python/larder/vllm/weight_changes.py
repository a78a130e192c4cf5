"""Weights that change in place: tells the scheduler's half before a call that may change weights.

A client of vLLM changes weights by calls to every worker: reload_weights, update_weights, or a
method of a worker extension. All such calls pass EngineCore.collective_rpc, on the scheduler's
thread. vLLM does not tell connectors of these calls, and its default reset_prefix_cache() does not
either. A wrapper of collective_rpc therefore moves the engine to a private namespace before each
call, except calls on the list of harmless calls.

A trainer in the engine's process calls the model's load_weights() itself. A wrapper of load_weights
counts as such a call, unless vLLM builds another model. A wrapper of reset_prefix_cache() tells
when vLLM has emptied its own cache (local_cache).

A process may have several engines. A call to one engine is not told to the others."""

import functools
import sys
import weakref

from larder.vllm.groups import Unsupported
from larder.vllm.fail_safe import logger

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
# The schedulers' halves of this process. Each with the model_config of its engine, one object in
# all of the engine's configurations.
_HALVES = weakref.WeakKeyDictionary()


def watch(half, model_config=None):
    """From now on half.weights_change(name) is called before each call that may change weights, as
    long as `half` lives. Unsupported: this vLLM has no EngineCore.collective_rpc."""
    core = _engine_core()
    if not hasattr(core.collective_rpc, "larder_original"):
        core.collective_rpc = _watched(core.collective_rpc)
    if not hasattr(core.reset_prefix_cache, "larder_original"):
        core.reset_prefix_cache = _emptying(core.reset_prefix_cache)
    _HALVES[half] = model_config


def halves():
    """The schedulers' halves of this process that watch."""
    return tuple(_HALVES)


def watch_model(vllm_config):
    """From here on load_weights() of this model's class counts as such a call, in this process."""
    from vllm.model_executor.model_loader.utils import get_model_cls

    model = get_model_cls(vllm_config.model_config)
    original = getattr(model, "load_weights", None)
    if original is not None and not hasattr(original, "larder_original"):
        model.load_weights = _loading(original)


def came_from_peers():
    """Whether the weights of this engine are the weights of running engines, and possibly not those
    of the files. Elastic expert parallelism adds such an engine."""
    from vllm import envs

    return bool(getattr(envs, "VLLM_ELASTIC_EP_SCALE_UP_LAUNCH", False))


def _engine_core():
    try:
        from vllm.v1.engine.core import EngineCore

        EngineCore.collective_rpc, EngineCore.reset_prefix_cache
    except (ImportError, AttributeError):
        raise Unsupported(
            "this vLLM does not tell when weights change in place (EngineCore.collective_rpc is "
            "missing)"
        ) from None
    return EngineCore


def _watched(original):
    @functools.wraps(original)
    def collective_rpc(self, method, *args, **kwargs):
        name = (
            method
            if isinstance(method, str)
            else getattr(method, "__name__", type(method).__name__)
        )
        if not isinstance(method, str) or name not in _HARMLESS:
            _tell_halves(name, _halves_of(self) or halves())
        return original(self, method, *args, **kwargs)

    collective_rpc.larder_original = original
    return collective_rpc


def _loading(original):
    @functools.wraps(original)
    def load_weights(self, *args, **kwargs):
        if not _model_is_built():
            _tell_halves("load_weights", halves())
        return original(self, *args, **kwargs)

    load_weights.larder_original = original
    return load_weights


def _emptying(original):
    @functools.wraps(original)
    def reset_prefix_cache(self, *args, **kwargs):
        done = original(self, *args, **kwargs)
        if done:
            for half in _halves_of(self):
                half.prefix_cache_emptied()
        return done

    reset_prefix_cache.larder_original = original
    return reset_prefix_cache


def _halves_of(core):
    """The halves of that EngineCore."""
    config = getattr(getattr(core, "vllm_config", None), "model_config", None)
    return tuple(
        half for half, own in tuple(_HALVES.items()) if config is not None and own is config
    )


def _model_is_built():
    """Whether vLLM's loader makes a model, which no engine uses yet: another engine of this process
    starts."""
    try:
        from vllm.model_executor.model_loader.base_loader import BaseModelLoader
    except ImportError:  # an older vLLM
        return False
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "load_model" and isinstance(
            frame.f_locals.get("self"), BaseModelLoader
        ):
            return True
        frame = frame.f_back
    return False


def _tell_halves(name, reported):
    for half in reported:
        half.weights_change(name)


def tell(name):
    logger.warning(
        "Larder: the call %s may change the weights: "
        "this engine uses a private namespace until it is restarted",
        name,
    )
