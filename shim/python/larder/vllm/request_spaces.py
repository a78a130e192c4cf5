"""The namespace of each request: the engine's own, or the namespace of the request's adapter. Owned
by the scheduler's thread."""

from larder.client import LarderError
from larder.vllm import words
from larder.vllm.adapters import Unserved
from larder.vllm.fail_safe import logger
from larder.vllm.spaces import NoSpace

_MOST_TOLD = 1024  # adapters in the log; after so many, the log may name one again


class RequestSpaces:
    def __init__(self, spaces, adapters):
        self._spaces, self._adapters = spaces, adapters
        self._told: set[str] = set()

    def of(self, request):
        """The request's Space. None: the request runs without the cache. NotYet: ask again while
        the request waits."""
        adapter = request.lora_request
        try:
            line = "" if adapter is None else self._adapters.line(adapter)
            return self._spaces.of(request.request_id, line)
        except (Unserved, NoSpace, LarderError) as reason:
            name = f"with the adapter {adapter.lora_name}" if adapter else "after a reset"
            self._tell(name, reason)
            return None

    def adapter_of(self, request):
        """(number, files) for the workers to check; None for a request without an adapter."""
        return None if request.lora_request is None else self._adapters.files(request.lora_request)

    def _tell(self, name, reason):
        if name in self._told:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told.add(name)
        why = words.of_error(reason) if isinstance(reason, LarderError) else reason
        logger.warning("Larder: requests %s run without the cache: %s", name, why)
