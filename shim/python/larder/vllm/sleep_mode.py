"""vLLM's sleep mode takes the memory of the KV pages away and brings memory back at the same
addresses. This module decides which engines may sleep with the cache, and tells the worker's half
before the pages go and when they are back.

From vLLM 0.33 on, the worker tells its connector, by unregister_kv_caches() and
restore_kv_caches(). Before, vLLM makes its sleep backend by name, at the first sleep (gpu_worker).
vLLM 0.32 has no option for the name, so the connector sets the name of Larder's backend
(sleep_backend): vLLM's own with two more calls."""

import weakref

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

from larder.vllm.groups import Unsupported

_TOLD = hasattr(KVConnectorBase_V1, "unregister_kv_caches")  # vLLM tells its connectors

_NAME = "larder"
_OF_VLLM = "cumem"
# the workers' halves of this process, which sleep together: vLLM has one allocator for the process
_ON_PAGES = weakref.WeakSet()


def _may_sleep(model_config):
    """enable_cumem_allocator alone suffices for /sleep and release_kv_cache_memory()."""
    return any(
        getattr(model_config, name, False)
        for name in ("enable_sleep_mode", "enable_cumem_allocator")
    )


def check(model_config):
    """Unsupported: vLLM could take memory away during a copy."""
    if not _may_sleep(model_config):
        return
    if not _TOLD and _factory() is None:
        raise Unsupported(
            "sleep mode (enable_sleep_mode, enable_cumem_allocator) is not served by this vLLM "
            "(SleepModeBackendFactory is missing)"
        )
    backend = model_config.sleep_mode_backend
    if backend not in (_OF_VLLM, _NAME):
        raise Unsupported(
            f"sleep mode by the backend {backend} takes KV pages away while they may be copied; "
            f"leave sleep_mode_backend at {_OF_VLLM}"
        )
    # vLLM captures into its pool only where the name is cumem
    if not _TOLD and getattr(model_config, "sleep_mode_offload_cudagraph", False):
        raise Unsupported(
            f"sleep_mode_offload_cudagraph needs the sleep backend {_OF_VLLM} itself, "
            "and is not served yet"
        )


def take_part(model_config):
    """Makes a vLLM that does not tell its connectors use Larder's backend for this configuration.
    REQUIRES: check() has passed, and vLLM has not slept yet."""
    if _TOLD or not _may_sleep(model_config):
        return
    factory = _factory()
    try:
        factory.get_backend_class(_NAME)
    except ValueError:
        factory.register_backend(_NAME, "larder.vllm.sleep_backend", "LarderSleepBackend")
    model_config.sleep_mode_backend = _NAME


def on_pages(half):
    """`half` copies from and to KV pages from here on, until `half` is destroyed."""
    _ON_PAGES.add(half)


def pages_leave():
    """After the return no thread of Larder in this process reads or writes KV pages until
    pages_are_back(). Raises if copies may still run."""
    asleep = []
    try:
        for half in tuple(_ON_PAGES):
            half.pages_leave()
            asleep.append(half)
    except Exception:
        for half in asleep:
            half.pages_are_back()
        raise


def pages_are_back():
    for half in tuple(_ON_PAGES):
        half.pages_are_back()


def _factory():
    try:
        from vllm.device_allocator.sleep_mode_backend import SleepModeBackendFactory
    except ImportError:  # an older vLLM
        return None
    return SleepModeBackendFactory
