"""The loads that a step begins, and the holds on their chunks.

vLLM waits for a load as soon as the request has blocks. Each load therefore goes to the worker. The
worker reports a load without parts as failed. Owned by the scheduler's thread."""

from dataclasses import dataclass, replace

from larder.vllm.block_tables import load_pages
from larder.vllm.keys import chunk_hashes, stride_of
from larder.vllm.messages import Move, Part
from larder.vllm.spaces import Space


@dataclass
class Lookup:
    """The last answer to get_num_new_matched_tokens for a request."""

    space: Space
    local_tokens: int
    hit_chunks: int
    end: int  # the token behind the hit, which a tail may lengthen
    nanoseconds: int


class LoadPlan:
    def __init__(self, setup, client, items, tails):
        """items: Items. tails: Tails."""
        self._setup = setup
        self._client = client
        self._items = items
        self._tails = tails
        self._holds: dict[str, list[int]] = {}  # by request, until the load ends
        self._next: list[Move] = []

    def add(self, move):
        """The next step begins this load."""
        self._next.append(move)

    def take(self):
        loads, self._next = self._next, []
        return loads

    def fill(self, failed, request, blocks, lookup, adapter):
        """(`failed` with its parts, the keys of its chunks). release() ends the holds."""
        setup, stride = self._setup, stride_of(request)
        first = lookup.local_tokens // setup.chunk_tokens
        hashes = chunk_hashes(setup, request, first, lookup.hit_chunks, self._items.places(request))
        piece, tail = self._tail(request, lookup)
        move = replace(failed, parts=[], line=lookup.space.line, adapter=adapter)
        tables = blocks.get_block_ids()
        for number, group in enumerate(setup.groups):
            chunk, keys = (piece, tail) if group.tail else (first, hashes)
            local_blocks = lookup.local_tokens // group.block_size
            part = _part(number, group, tables[group.table], chunk, keys, stride, local_blocks)
            if part.hashes:
                move.parts.append(part)
        if lookup.space.states is not None and not any(
            setup.groups[part.group].state for part in move.parts
        ):
            return failed, hashes  # vLLM has no page for the state
        holds = [self._client.hold(hashes, stride, lookup.space.number)[0]]
        if lookup.space.states is not None:
            holds.append(self._client.hold(hashes[-stride:], stride, lookup.space.states)[0])
        if tail:
            holds.append(self._client.hold(tail, stride, lookup.space.tails)[0])
        self._holds[request.request_id] = [hold for hold in holds if hold]
        return move, hashes

    def _tail(self, request, lookup):
        """(the number of the first piece, the keys of the pieces) of a load."""
        if lookup.end <= lookup.hit_chunks * self._setup.chunk_tokens:
            return 0, b""
        first = self._tails.first_piece(lookup.hit_chunks, lookup.local_tokens)
        last = lookup.end // self._setup.pieces.chunk_tokens
        return first, self._tails.keys(request, first, last)

    def pages_at_stake(self, blocks, lookup):
        """The pages that a load may write, for a vLLM that hears of failures by page. Pages of
        vLLM's own hit are left out, because other requests may share those pages."""
        if not self._setup.fails_by_page:
            return ()
        (table,) = blocks.get_block_ids()
        size = self._setup.groups[0].block_size
        return tuple(table[lookup.local_tokens // size : lookup.end // size])

    def release(self, request_id):
        """The load or the request has ended."""
        for hold in self._holds.pop(request_id, ()):
            self._client.release(hold)


def _part(number, group, table, first, hashes, stride, local_blocks):
    """The chunks of a group that a load writes. hashes: the keys of chunks from `first` on."""
    part, count = Part(number, b"", b""), len(hashes) // stride
    for i in range(count):
        # the last state stands for all tokens before the state
        if group.state and i + 1 < count:
            continue
        pages = load_pages(group, table, first + i, local_blocks)
        if pages is not None:
            part.hashes += hashes[i * stride : (i + 1) * stride]
            part.pages += pages
    return part
