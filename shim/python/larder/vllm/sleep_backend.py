"""The sleep backend that vLLM 0.32 and older make in a worker's process at the first sleep
(sleep_mode). The backend is vLLM's own, with calls to the cache.

Runs on the worker's thread, between steps. An exception here is vLLM's answer to /sleep."""

from vllm.device_allocator.sleep_mode_backend import CuMemBackend

from larder.vllm import sleep_mode

_KV = "kv_cache"  # vLLM's tag of the KV memory


class LarderSleepBackend(CuMemBackend):
    def suspend(self, level=1):
        """Raises before any change of memory if KV pages may still be copied."""
        sleep_mode.pages_leave()
        super().suspend(level)

    def resume(self, tags=None):
        super().resume(tags)
        if tags is None or _KV in tags:
            sleep_mode.pages_are_back()

    def discard(self, tags):
        if _KV in tags:
            sleep_mode.pages_leave()
        super().discard(tags)
