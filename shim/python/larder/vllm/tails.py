"""Tails, in the scheduler's half: the whole blocks of a request behind its last whole chunk.

When a request has ended, the next step stores its tail in pieces (tail_pieces), each under the hash
of its last block. A hit goes on behind its last whole chunk with the pieces that are in memory: up
to the first one that another prompt has parted from. Once the chunk around a tail is stored, the
pieces are the next to leave larderd's memory. Owned by the scheduler's thread."""

from array import array

from larder.client import LarderError
from larder.vllm.fail_safe import late
from larder.vllm.keys import chunk_hashes, stride_of
from larder.vllm.messages import Move, Part

# An aborted request, or one with an error, was not answered: a next turn is unlikely.
_ANSWERED = ("FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED")


class Tails:
    def __init__(self, setup, client, tracked, items, origins):
        """The arguments of StorePlan."""
        self._setup, self._client = setup, client
        self._pieces = setup.pieces if setup else None
        self._groups = [one for one in enumerate(setup.groups) if one[1].tail] if setup else []
        self._tracked, self._items, self._origins = tracked, items, origins
        self._ended: list[Move] = []  # of requests that ended since the last step
        # by request: the end of the hit, of vLLM's own or Larder's, inside a chunk
        self._hit_ends: dict[str, int] = {}

    def reach(self, request, space, chunks, local_tokens):
        """The token behind the last piece of a hit of so many whole chunks."""
        end = chunks * self._setup.chunk_tokens
        if space.tails is None or not self._may_have_one(request):
            return end
        first = self.first_piece(chunks, local_tokens)
        last = min(
            (chunks + 1) * self._pieces.per_chunk - 1,
            request.num_tokens // self._pieces.chunk_tokens,
        )
        keys = self.keys(request, first, last)
        found = self._client.lookup(keys, stride_of(request), space.tails) if keys else 0
        return (first + found) * self._pieces.chunk_tokens if found else end

    def first_piece(self, chunks, local_tokens):
        """The first piece that a hit of so many whole chunks loads; vLLM has `local_tokens`."""
        return max(chunks * self._pieces.per_chunk, local_tokens // self._pieces.chunk_tokens)

    def keys(self, request, first, last):
        """The keys of pieces first..last-1."""
        if first >= last:
            return b""
        return chunk_hashes(self._pieces, request, first, last, self._items.places(request))

    def admitted(self, request_id, tokens):
        """vLLM or Larder has the first `tokens` of the request."""
        if self._pieces is not None and tokens % self._setup.chunk_tokens:
            self._hit_ends[request_id] = tokens

    def superseded(self, moves):
        """Demotes the pieces inside chunks that these moves of a step store."""
        for move in moves if self._hit_ends else ():
            tracked, end = self._tracked.get(move.request_id), self._hit_ends.get(move.request_id)
            if tracked is None or end is None:
                continue
            chunk = end // self._setup.chunk_tokens
            if tracked.asked_chunks <= chunk or tracked.space.tails is None:
                continue
            del self._hit_ends[move.request_id]
            first = chunk * self._pieces.per_chunk
            keys = self.keys(tracked.request, first, end // self._pieces.chunk_tokens)
            try:
                if keys:
                    stride = stride_of(tracked.request)
                    self._client.demote(keys, stride, wait_ms=0, ns=tracked.space.tails)
            except LarderError:  # the pieces leave memory as other chunks do
                pass

    def ended(self, request, tables):
        """The request ends with these block tables. Whether the next step stores its tail."""
        tracked = self._tracked.get(request.request_id)
        if tracked is None or tracked.stale or tracked.space.tails is None:
            return False
        if request.status.name not in _ANSWERED or not self._may_have_one(request):
            return False
        if self._items.places_to_store(request) is None:
            return False
        move = self._move(request, tracked, tables)
        if move is not None:
            self._ended.append(move)
        return move is not None

    def take(self, spaces):
        """The moves for this step. A Space may have closed since the end of its request."""
        moves, self._ended = self._ended, []
        return [move for move in moves if spaces.is_open(move.line)]

    def forget(self, request_id):
        """The request ended."""
        self._hit_ends.pop(request_id, None)

    def reset(self):
        """The engine moves to another namespace."""
        self._ended.clear()
        self._hit_ends.clear()

    def _may_have_one(self, request):
        """A hit ends inside no item whose tokens attend to each other (Items.hit_of)."""
        return not (request.mm_features and self._setup.items_whole)

    def _move(self, request, tracked, tables):
        """All pieces that are not in memory yet, or None."""
        # the last token was sampled, and never computed
        end = min(request.num_computed_tokens, request.num_tokens - 1)  # mutation: tail-computed
        foreign = self._origins.first(request.request_id)
        if foreign is not None:  # mutation: tail-foreign
            end = min(end, foreign)
        first = end // self._setup.chunk_tokens * self._pieces.per_chunk
        keys = self.keys(request, first, end // self._pieces.chunk_tokens)
        if not keys:
            return None
        stride = stride_of(request)
        there = self._client.lookup(keys, stride, tracked.space.tails)
        absent = range(first + there, first + len(keys) // stride)
        pages = {
            number: array(
                "I", (page for one in absent for page in group.pages(tables[group.table], one))
            )
            for number, group in self._groups
        }
        if not absent or any(
            len(pages[number]) < len(absent) * group.blocks or 0 in pages[number]
            for number, group in self._groups
        ):
            return None
        late.info("Storing a tail of %d blocks for request %s", len(absent), request.request_id)
        parents = (bytes(stride) + keys[:-stride])[there * stride :]
        parts = [
            Part(number, keys[there * stride :], kept.tobytes(), parents)
            for number, kept in pages.items()
        ]
        return Move(request.request_id, parts, tracked.space.line, adapter=tracked.adapter)
