"""vLLM's own KV events for the chunks in larderd's memory, so that routers with these events see
this tier too.

Chunks that this engine stored or hit are announced once the chunks are in the index, and then
checked in turn; a lost chunk is reported removed. All checks read shared memory and never wait. An
idle engine sends no events, so events are late by the idle time. The number of tracked chunks is
bounded: a chunk forgotten for room is reported removed. Owned by the scheduler's thread, which asks
at each step."""

import time
from collections import OrderedDict, deque
from typing import NamedTuple

from larder.vllm.keys import stride_of

OWNERSHIP = "larder"  # the name of this tier in an event, beside the medium
MOST_PENDING = 4096
MOST_ANNOUNCED = 16384
LOOKED_AT = 256  # chunks checked at one time
EVERY_S = 0.05
PENDING_S = 5.0  # a chunk that is not there by then was not stored


class Announced(NamedTuple):
    space: int  # the client's number of the namespace
    key: bytes  # in the form of keys.chunk_hashes
    block_hashes: list  # of the chunk's blocks, in the form of events


class Pending(NamedTuple):
    chunk: Announced
    stored: object  # the event
    since: float


class TierEvents:
    def __init__(self, setup, client, clock=time.monotonic):
        self._setup = setup
        self._client = client
        self._clock = clock
        self._pending: deque[Pending] = deque()
        # the longest unchecked first
        self._announced: OrderedDict[tuple, Announced] = OrderedDict()
        self._out = []
        self._due = 0.0

    def note(self, request, space, first, keys):
        """The request's chunks from number `first` on, with these keys, are in larderd's memory, or
        will be soon."""
        now, stride = self._clock(), stride_of(request) if keys else 1
        for i in range(len(keys) // stride):
            # Further chunks stay unannounced. A router then misses a hit, and sends no request
            # astray.
            if len(self._pending) >= MOST_PENDING:
                return
            key = keys[i * stride : (i + 1) * stride]
            if (space.number, key) not in self._announced:
                self._pending.append(self._pending_of(request, space, first + i, key, now))

    def take(self):
        """The events since the last call."""
        now = self._clock()
        if now >= self._due and (self._pending or self._announced):
            self._due = now + EVERY_S
            self._look_at_pending(now)
            self._look_at_announced()
        out, self._out = self._out, []
        return out

    def _pending_of(self, request, space, chunk, key, now):
        tokens, step, adapter = (
            self._setup.chunk_tokens,
            self._setup.hashes_per_chunk,
            request.lora_request,
        )
        hashes = request.block_hashes[chunk * step : (chunk + 1) * step]
        parent = request.block_hashes[chunk * step - 1] if chunk else None
        shown = [_shown(one) for one in hashes]
        stored = _event(
            "BlockStored",
            block_hashes=shown,
            parent_block_hash=None if parent is None else _shown(parent),
            token_ids=list(request.all_token_ids[chunk * tokens : (chunk + 1) * tokens]),
            block_size=tokens // step,
            lora_id=adapter.adapter_id if adapter else None,
            lora_name=adapter.name if adapter else None,
        )
        return Pending(Announced(space.number, key, shown), stored, now)

    def _look_at_pending(self, now):
        for _ in range(min(LOOKED_AT, len(self._pending))):
            pending = self._pending.popleft()
            chunk = pending.chunk
            if (chunk.space, chunk.key) in self._announced:
                continue
            if self._client.lookup(chunk.key, len(chunk.key), chunk.space):
                self._out.append(pending.stored)
                self._announced[chunk.space, chunk.key] = chunk
            # The store runs beside the step, so the chunk may come a few steps later.
            elif now - pending.since < PENDING_S:
                self._pending.append(pending)
        while len(self._announced) > MOST_ANNOUNCED:
            # Reported removed although larderd may still have the chunk: routers must not trust a
            # chunk without checks.
            self._removed(self._announced.popitem(last=False)[1])

    def _look_at_announced(self):
        """Checks announced chunks in turn. One call of the client covers a run of present
        chunks."""
        turn = [
            self._announced.popitem(last=False)[1]
            for _ in range(min(LOOKED_AT, len(self._announced)))
        ]
        while turn:
            run = [chunk for chunk in turn if chunk.space == turn[0].space]
            there = self._client.lookup(
                b"".join(chunk.key for chunk in run), len(run[0].key), run[0].space
            )
            for chunk in run[:there]:
                self._announced[chunk.space, chunk.key] = chunk
            if there < len(run):
                self._removed(run[there])
            # The first missing chunk ends the run. The rest of the run is looked up again, without
            # that chunk.
            seen = set(map(id, run[: there + 1]))
            turn = [chunk for chunk in turn if id(chunk) not in seen]

    def _removed(self, chunk):
        self._out.append(_event("BlockRemoved", block_hashes=chunk.block_hashes))


def _event(kind, **fields):
    """An event of vLLM, with the fields that name this tier if this vLLM has the fields."""
    from vllm.distributed import kv_events

    # Newer vLLM has more fields in the events; an unknown field would be an error.
    made = getattr(kv_events, kind)
    fields.update(medium=kv_events.MEDIUM_CPU, locality="LOCAL", ownership=OWNERSHIP)
    return made(**{name: value for name, value in fields.items() if name in made.__struct_fields__})


def _shown(block_hash):
    from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash

    return maybe_convert_block_hash(block_hash)


def wanted(vllm_config):
    """Whether this engine publishes KV events at all."""
    config = getattr(vllm_config, "kv_events_config", None)
    return bool(config is not None and config.enable_kv_cache_events)
