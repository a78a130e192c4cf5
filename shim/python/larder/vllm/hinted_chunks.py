"""The chunks of ended requests that leave larderd's memory first, or that stay for a time, as the
hints of the requests say.

larderd is told once no copy of the request runs, so that all its chunks are in the index or on the
way. A lost message costs nothing: the chunks leave as all others do. Owned by the scheduler's
thread."""

from larder.client import LarderError
from larder.vllm.keys import chunk_hashes, stride_of


class HintedChunks:
    def __init__(self, setup, client, items):
        """items: Items."""
        self._setup = setup
        self._client = client
        self._items = items
        # {request: (its Space, keys, stride, seconds to keep)}: ended requests, until no copy runs
        self._waiting: dict[str, tuple] = {}

    def note(self, request, tracked, hints):
        """The request ends. tracked: its Tracked, or None. hints: its Hints."""
        if tracked is None:
            return
        # Other requests share the chunks that a request of low priority has found.
        whole = hints.release or hints.keep_s
        first = 0 if whole else tracked.stored_from if hints.low else None
        if first is None:
            return
        last, places = request.num_tokens // self._setup.chunk_tokens, self._items.places(request)
        keys = chunk_hashes(self._setup, request, first, last, places)
        if keys:
            waiting = tracked.space, keys, stride_of(request), hints.keep_s
            self._waiting[request.request_id] = waiting

    @property
    def waits(self):
        return bool(self._waiting)

    def send(self, request_ids):
        """These requests have ended, and no copy of them runs."""
        for request_id in request_ids:
            space, keys, stride, keep_s = self._waiting.pop(request_id, (None, b"", 0, 0))
            if not keys:
                continue
            for number in (space.number, space.states):
                if number is not None:
                    self._tell(keys, stride, keep_s, number)

    def _tell(self, keys, stride, keep_s, number):
        try:
            if keep_s:
                self._client.pin(keys, stride, wait_ms=0, ns=number, seconds=keep_s)
            else:
                self._client.demote(keys, stride, wait_ms=0, ns=number)
        except LarderError:  # away, older than the verb, or too many calls wait
            pass
