"""Requests that wait for another request's load of the same chunks.

vLLM shares the blocks of a load once the load has ended. Equal prompts that arrive meanwhile would
each load a copy of their own into blocks of their own. Such a request waits instead, and then hits
the blocks in vLLM's own prefix cache.

A request waits if a load under way brings all chunks that the request would load. Loads run one
after the other, so the request's own load would not end earlier. A request waits for a fetch only
if its own fetch would end with the same chunk. Chunks in memory, and fewer chunks, would be there
earlier. A request whose prompt goes on behind the shared chunks loads at once: the load would
otherwise begin a step later. A waiter waits for loads alone, never for another waiter, and not
beyond the deadline of the load. A request that waited in vain never waits again. The causes: the
load failed, the request was aborted, preempted or late, or vLLM's cache has lost the blocks.

Equal chunks have equal keys and one namespace: salts, adapters and pictures are in these. Owned by
the scheduler's thread."""

import math
import time
from dataclasses import dataclass

# The library fails a load that has not begun within this time (larder_transfer.start_within_ms). A
# waiter waits as long.
LOAD_BEGINS_WITHIN_S = 5.0
# Further requests load at once. vLLM asks for each waiter again in each step.
MOST_WAITING = 256


@dataclass(eq=False)
class UnderWay:
    """The chunks that one request loads, or has fetched and is about to load."""

    keys: tuple  # (number of the namespace, key) of each
    until: float
    fetched: bool = False  # the chunks are on their way to memory


@dataclass
class Wait:
    of: str  # the request that loads
    load: UnderWay
    local_tokens: int  # vLLM's own hit for the waiter's prompt before


class SharedLoads:
    def __init__(self, setup, clock=time.monotonic):
        self._setup = setup
        self._windows = setup is not None and any(group.forgets for group in setup.groups)
        self._clock = clock
        self._under_way: dict[str, UnderWay] = {}  # by request
        # (the loading request, the place among the keys of that load)
        self._by_key: dict[tuple, tuple] = {}
        self._waits: dict[str, Wait] = {}  # by request that waits
        self._in_vain: set[str] = set()  # requests that wait no more

    # ---- loading requests

    def begin(
        self, request_id, space, hashes, stride, within_s=LOAD_BEGINS_WITHIN_S, fetched=False
    ):
        """The request loads these chunks, or has the chunks fetched."""
        if not self._setup.own_cache:
            return
        keys = tuple((space.number, hashes[i : i + stride]) for i in range(0, len(hashes), stride))
        load = self._under_way.setdefault(request_id, UnderWay((), 0.0))
        self._forget_keys(request_id, load)
        load.keys, load.until, load.fetched = keys, self._clock() + within_s, fetched
        for place, key in enumerate(keys):
            self._by_key.setdefault(key, (request_id, place))

    def came(self, request_id):
        """The fetch has ended with chunks that the request is about to load."""
        if request_id in self._under_way:
            self._under_way[request_id].fetched = False

    def end(self, request_id):
        """The load has ended, or there is no load."""
        load = self._under_way.pop(request_id, None)
        if load is not None:
            self._forget_keys(request_id, load)

    def _forget_keys(self, request_id, load):
        for key in load.keys:
            if self._by_key.get(key, (None,))[0] == request_id:
                del self._by_key[key]

    # ---- waiting requests

    def join(self, request, space, hashes, stride, end_chunk, local_tokens, fetches=False):
        """Whether the request waits from now on. hashes: of the chunks to load, or to fetch with
        `fetches`. end_chunk: the number of the chunk behind the last one. local_tokens: vLLM's own
        hit for the prompt."""
        if (
            not self._by_key
            or request.request_id in self._in_vain
            or len(self._waits) >= MOST_WAITING
        ):
            return False
        other, place = self._by_key.get((space.number, hashes[-stride:]), (request.request_id, 0))
        if other == request.request_id or other in self._waits:
            return False
        load = self._under_way[other]
        ends_with_it = place + 1 == len(load.keys)
        if load.fetched and not (fetches and ends_with_it):
            return False
        # Keys are chained: a load that brings the last chunk brings the chunks before, as far back
        # as the load goes.
        if (
            place + 1 < len(hashes) // stride
            or self._shareable(request, end_chunk, ends_with_it) <= local_tokens
        ):
            return False
        self._waits[request.request_id] = Wait(other, load, local_tokens)
        return True

    def _shareable(self, request, end_chunk, ends_with_it):
        """Tokens. A load brings the window before its own end, and no hit of a model with windows
        can end anywhere else."""
        block = math.lcm(*(group.block_size for group in self._setup.groups))
        end = end_chunk * self._setup.chunk_tokens
        # vLLM's own hit ends before the last token, which vLLM computes, and has whole blocks alone
        # (KVCacheManager.get_computed_blocks). So vLLM never shares the last block of a prompt of
        # whole blocks. A connector gives vLLM tokens, never the number of a block. Each waiter of
        # such a prompt therefore loads that one block into a block of its own.
        most = (request.num_tokens - 1) // block * block
        # For drafters that read ahead, vLLM drops the last block of its hit, too.
        return (
            0
            if self._windows and (self._setup.lookahead or not ends_with_it or end > most)
            else min(end, most)
        )

    def waits(self, request_id, local_tokens):
        """Whether the request waits. local_tokens: vLLM's own hit for the prompt by now."""
        wait = self._waits.get(request_id)
        if wait is None:
            return False
        if self._under_way.get(wait.of) is wait.load and self._clock() < wait.load.until:
            return True
        del self._waits[request_id]
        if local_tokens <= wait.local_tokens:
            self._in_vain.add(request_id)
        return False

    def forget(self, request_id):
        """The request ended."""
        self.end(request_id)
        self._waits.pop(request_id, None)
        self._in_vain.discard(request_id)

    def reset(self):
        """The engine moves to another namespace: no request waits for chunks of the old one."""
        self._under_way.clear()
        self._by_key.clear()
        self._waits.clear()
