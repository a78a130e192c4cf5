"""The stores of a step: the full chunks of its requests that are not in the index yet.

Owned by the scheduler's thread."""

import math
import time
from array import array
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from larder.next_tokens import chunks_known
from larder.vllm.adapters import NotYet
from larder.vllm.block_tables import BlockTables
from larder.vllm.fail_safe import late
from larder.vllm.keys import chunk_hashes, stride_of
from larder.vllm.messages import Move, Part

# A chunk that larderd answered too late is given to the worker again, while its request lives.
STORE_RETRIES = 2
RETRY_AFTER_S = 0.05


@dataclass
class Tracked:
    """A request that vLLM has allocated blocks for."""

    request: object
    space: object  # its Space
    adapter: tuple | None = None  # see Move
    # chunks before this one were seen in the index, or are holes
    stored_chunks: int = 0
    # the last chunk before stored_chunks that is in the index or was given to the worker; -1: none
    parent: int = -1
    asked_chunks: int = 0  # chunks before this one were given to the worker, or seen
    stored_from: int | None = None  # the first chunk that the request stored
    retries: int = 0  # the number of times that chunks between the two may be given again
    # with fewer computed tokens the request stores no chunk, unless due_at has come
    due_tokens: float = 0
    due_at: float = math.inf  # chunks may be given again from this time on
    loaded_tokens: int = 0  # the end of the prefix that was loaded
    # the first chunk that a rank's larderd refused; only of an engine over several larderds
    refused_from: int | None = None
    given_again: int = 0  # the number of times that refused chunks were given again
    stale: bool = False  # the pages may be older than their name: the request stores no chunk

    def admitted_anew(self):
        """vLLM has preempted the request, and computes the holes again."""
        self.stored_chunks = self.asked_chunks = 0
        self.parent = -1
        self.due_tokens = 0
        self.refused_from = None


class Chunk(NamedTuple):
    number: int
    key: bytes
    pages: list  # for each group


class StorePlan:
    def __init__(self, setup, client, tracked, items, origins, note=None):
        """tracked: the requests by id, which the scheduler's half adds and takes away. items:
        Items. origins: KvOrigins. note: is told of the chunks for the workers."""
        self._setup = setup
        self._client = client
        self._tracked = tracked
        self._items = items
        self._origins = origins
        self._note = note
        # False: ranks have larderds that this client does not see. Each chunk is given to the
        # workers once, and each worker asks its own index. Refused chunks are given again.
        self.index_tells = True
        # {number of a step: {request: the first chunk that the step stores}}, until the step ends
        self._begun: dict[int, dict[str, int]] = {}
        self._of_step: dict[str, int] = {}  # the entry of the step that is planned now
        self._tables = BlockTables()

    def of_step(self, scheduler_output):
        """The stores of a step. Each step has all running requests, and a chunk fills in few of the
        requests: the others must cost next to no time."""
        scheduled, cached = (
            scheduler_output.num_scheduled_tokens,
            scheduler_output.scheduled_cached_reqs,
        )
        new = scheduler_output.scheduled_new_reqs
        tables_of = self._tables.of_step(scheduler_output)
        self._items.step(scheduler_output, tables_of)
        self._origins.computes(scheduler_output, tables_of)
        stores, now = [], time.monotonic()
        self._of_step = {}
        for request_id, computed in chain(
            ((one.req_id, one.num_computed_tokens) for one in new),
            zip(cached.req_ids, cached.num_computed_tokens),
        ):
            tracked = self._tracked.get(request_id)
            if tracked is None:
                continue
            computed_after = computed + scheduled[request_id]
            if computed_after < tracked.due_tokens and now < tracked.due_at:
                continue
            move = self._of_request(request_id, tracked, computed_after, tables_of)
            if move is not None:
                stores.append(move)
            tracked.due_tokens = self._next_due(request_id, tracked.asked_chunks)
            if not self._waits(tracked):
                tracked.due_at = math.inf
        return stores

    def begun(self, number):
        """The step that was planned last stores chunks, and has this number."""
        if not self.index_tells:
            self._begun[number] = self._of_step

    def refused(self, numbers):
        """Some chunks of these steps are refused by the larderd of a rank. Their requests give the
        chunks again, STORE_RETRIES times at most. A rank with the chunks leaves the chunks out."""
        for number in numbers:
            for request_id, first in self._begun.get(number, {}).items():
                tracked = self._tracked.get(request_id)
                if tracked is None:
                    continue
                tracked.parent = min(tracked.parent, first - 1)  # mutation: refused-parent
                if tracked.given_again >= STORE_RETRIES:  # mutation: refused-bound
                    continue
                before = tracked.refused_from
                tracked.refused_from = first if before is None else min(first, before)
                tracked.due_at = time.monotonic() + RETRY_AFTER_S

    def ended(self, numbers):
        """All workers have reported the ends of these steps."""
        for number in numbers:
            self._begun.pop(number, None)

    def forget(self, request_id):
        """The request ended."""
        self._tables.forget(request_id)

    def begin_anew(self, names):
        """The engine has another fingerprint, and no worker stored under the former one. names:
        RequestSpaces."""
        for request_id, old in tuple(self._tracked.items()):
            try:
                space = names.of(old.request)
            except NotYet:  # the adapter's files are read anew
                space = None
            if space is None:
                del self._tracked[request_id]
            else:
                self._tracked[request_id] = Tracked(
                    old.request, space, old.adapter, stale=old.stale
                )

    def _next_due(self, request_id, asked_chunks):
        foreign, end = (
            self._origins.first(request_id),
            (asked_chunks + 1) * self._setup.chunk_tokens,
        )
        # until the request is admitted anew
        return end if foreign is None or end <= foreign else math.inf

    @staticmethod
    def _waits(tracked):
        """Whether chunks may be given again at due_at."""
        unseen = tracked.asked_chunks > tracked.stored_chunks
        return tracked.refused_from is not None or (tracked.retries and unseen)

    def _of_request(self, request_id, tracked, computed_after, tables_of):
        """The Move of the request's chunks that are due now, or None."""
        if tracked.stale or (places := self._items.places_to_store(tracked.request)) is None:
            return None
        # Hashes cover accepted tokens only: speculative ones, which may be rejected, stay out.
        request = tracked.request
        full = self._full(request, computed_after)
        foreign = self._origins.first(request_id)
        if foreign is not None:
            full = min(full, foreign // self._setup.chunk_tokens)
        if full > tracked.asked_chunks:
            tracked.retries = STORE_RETRIES if self.index_tells else 0
        elif self._gives_again(tracked):
            pass
        elif (
            full > tracked.stored_chunks and tracked.retries and time.monotonic() >= tracked.due_at
        ):
            tracked.retries -= 1
        else:
            return None
        if not self.index_tells:
            self._pass_given(tracked, full)
        begin = tracked.stored_chunks
        hashes = chunk_hashes(self._setup, request, begin, full, places)
        if not hashes:
            return None
        stride = stride_of(request)
        present = (
            self._client.lookup(hashes, stride, tracked.space.number) if self.index_tells else 0
        )
        tracked.asked_chunks = full
        if self.index_tells:
            tracked.due_at = time.monotonic() + RETRY_AFTER_S
        absent = self._absent(request_id, tracked, present, hashes, stride, tables_of)
        if not absent:
            return None
        if self._note is not None:
            self._note(
                request,
                tracked.space,
                absent[0].number,
                hashes[(absent[0].number - begin) * stride :],
            )
        late.info(
            "Storing %d out of %d tokens for request %s",
            *(n * self._setup.chunk_tokens for n in (len(absent), full)),
            request_id,
        )
        self._of_step[request_id] = absent[0].number
        if tracked.stored_from is None:
            tracked.stored_from = absent[0].number
        move = self._move(request_id, tracked, absent, places)
        if not self.index_tells:
            tracked.parent = absent[-1].number
        return move

    def _absent(self, request_id, tracked, present, hashes, stride, tables_of):
        """The chunks to store, without holes. hashes: the keys of chunks from tracked.stored_chunks
        on, of which the first `present` need no store. A passed chunk is not looked up again."""
        first = tracked.stored_chunks + present
        if present:
            tracked.parent = first - 1
        hashes = hashes[present * stride :]
        end = first + len(hashes) // stride
        absent = self._chunks(request_id, first, end, hashes, stride, tables_of) if hashes else []
        if (
            self.index_tells and absent and absent[0].number > first
        ):  # chunks behind a hole may be in the index
            keys = b"".join(chunk.key for chunk in absent)
            seen = self._client.lookup(keys, stride, tracked.space.number)
            if seen:
                tracked.parent = absent[seen - 1].number
            absent = absent[seen:]  # mutation: hole-passed
        tracked.stored_chunks = absent[0].number if absent else end
        return absent

    def _chunks(self, request_id, first, end, hashes, stride, tables_of):
        """Chunks first..end-1, without the holes: chunks that a window has left behind, and chunks
        with other draft KV."""
        groups, tables, found = self._setup.token_groups, tables_of(request_id), []
        for number in range(first, end):
            pages = [array("I", group.pages(tables[group.table], number)) for group in groups]
            if not any(0 in kept for kept in pages) and self._origins.may_store(request_id, number):
                at = (number - first) * stride
                found.append(Chunk(number, hashes[at : at + stride], pages))
        return found

    @staticmethod
    def _gives_again(tracked):
        """Refused chunks are due. A larderd without room has seldom room in the next step."""
        return (
            tracked.refused_from is not None
            and time.monotonic() >= tracked.due_at  # mutation: refused-pace
        )

    def _pass_given(self, tracked, full):
        """Passes the chunks that were loaded, or given to the workers and not refused."""
        loaded = tracked.loaded_tokens // self._setup.chunk_tokens
        given = max(tracked.asked_chunks, loaded)
        tracked.parent = max(tracked.parent, loaded - 1)
        if self._gives_again(tracked):
            given = min(given, tracked.refused_from)
            tracked.parent = min(tracked.parent, given - 1)
            tracked.given_again, tracked.refused_from = tracked.given_again + 1, None
        tracked.stored_chunks = min(given, full)

    def _full(self, request, computed_after):
        """The computed chunks with keys. Several drafting modules write the last positions before
        `lookahead` once more, with the tokens accepted since."""
        setup = self._setup
        full = min(
            computed_after // setup.chunk_tokens,
            len(request.block_hashes) // setup.hashes_per_chunk,
        )
        if not setup.lookahead:
            return full
        computed = chunks_known(
            computed_after, setup.chunk_tokens, setup.lookahead - 1
        )  # mutation: draft-modules
        return min(
            full, computed, chunks_known(request.num_tokens, setup.chunk_tokens, setup.lookahead)
        )

    def _move(self, request_id, tracked, chunks, places):
        """All parts of the chunks. The parent of a chunk is the chunk before it in `chunks`, or
        tracked.parent. Behind a hole or a refused chunk that is an earlier ancestor."""
        hashes, parent = b"".join(chunk.key for chunk in chunks), tracked.parent
        none = bytes(len(chunks[0].key))
        before = none
        if parent >= 0:
            before = chunk_hashes(self._setup, tracked.request, parent, parent + 1, places)
        parents = before + hashes[: -len(none)]
        pages = (
            b"".join(chunk.pages[i].tobytes() for chunk in chunks)
            for i in range(len(self._setup.token_groups))
        )
        parts = [Part(number, hashes, kept, parents) for number, kept in enumerate(pages)]
        return Move(request_id, parts, tracked.space.line, adapter=tracked.adapter)
