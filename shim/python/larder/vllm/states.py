"""Recurrent states of hybrid models (Mamba and the like), in the scheduler's half.

A state stands for all earlier tokens. vLLM keeps states at few ends of blocks, and hands the states
to connectors (kv_connector_block_state). Such a state is a chunk of a namespace of its own, under
the key of the attention chunk with the same end. A hit is a prefix of attention chunks up to the
last state inside the prefix. Owned by the scheduler's thread."""

from array import array

from larder.next_tokens import chunks_known
from larder.vllm.fail_safe import late
from larder.vllm.keys import chunk_hashes
from larder.vllm.messages import Move, Part
from larder.vllm.offered_states import OfferedStates


class States:
    def __init__(self, setup, client, tracked, items, origins):
        """The arguments of StorePlan."""
        self._setup, self._client = setup, client
        self._tracked, self._items, self._origins = tracked, items, origins
        groups = setup.groups if setup else ()
        self._groups = {number: group.table for number, group in enumerate(groups) if group.state}
        self._tables = set(self._groups.values())
        self._offered = OfferedStates(setup, client)

    def __bool__(self):
        return bool(self._groups)

    def chunks_to_hit(self, request, chunk_tokens):
        """The chunks that a hit may have. Their next tokens are known, and a state cannot be
        stepped back to compute the last token anew."""
        behind = max(self._setup.lookahead if self._setup else 0, bool(self))
        return chunks_known(request.num_tokens, chunk_tokens, behind)

    def reach(self, space, first, hashes, stride, hits):
        """The chunks that a hit may have, of `hits` chunks that attention could hit; `hashes` start
        at chunk `first`."""
        if not self or hits == first:
            return hits
        return first + self._client.last(hashes[: (hits - first) * stride], stride, space.states)

    def ask_boundary(self, request, first, hits):
        """Call this when vLLM is told the request's hit, of `hits` chunks for attention. vLLM sets
        the boundary anew before each question.

        The shared-prefix boundary of vLLM does two things. If attention reaches further than
        states, this request computes the state of the boundary, and later requests hit the state.
        If both end together, vLLM's own cache keeps the loaded state, and requests with the same
        prefix need no load of their own."""
        if self and hits > first:
            boundary = hits * self._setup.chunk_tokens
            request.shared_prefix_boundary = max(
                getattr(request, "shared_prefix_boundary", 0), boundary
            )

    def bind_gpu_block_pool(self, pool):
        """See OfferedStates."""
        self._offered.bind(pool)

    def allocated(self, blocks, local_tokens):
        """vLLM has given blocks to a request; see WindowBlocks."""
        if self:
            self._offered.allocated(blocks, local_tokens)

    def stores(self, scheduler_output):
        """Moves of the states that vLLM hands over in this step, and of earlier, late states. Call
        this in each step."""
        moves = self._offered.again(scheduler_output, self._tracked) if self else []
        if not self or scheduler_output.kv_connector_block_state is None:
            return moves
        for (
            request_id,
            entries,
        ) in scheduler_output.kv_connector_block_state.boundary_state_offloads.items():
            tracked = self._tracked.get(request_id)
            if tracked is not None and not tracked.stale:
                moves += self._of_request(request_id, tracked, entries)
        return moves

    def _of_request(self, request_id, tracked, entries):
        """entries: (block table, block, tokens before the state)."""
        at = {}
        for table, block, tokens in entries:
            if block and table in self._tables and self._may_store(request_id, tracked, tokens):
                at.setdefault(tokens, {})[table] = block
        for tokens, blocks in at.items():
            if len(blocks) < len(self._tables):  # a hit needs the states of all groups
                continue
            key = self._key(tracked, tokens // self._setup.chunk_tokens)
            if not key or self._client.last(key, len(key), tracked.space.states):
                continue
            late.info("Storing the state behind %d tokens for request %s", tokens, request_id)
            parts = [
                Part(number, key, array("I", [blocks[table]]).tobytes())
                for number, table in self._groups.items()
            ]
            move = Move(request_id, parts, tracked.space.line, adapter=tracked.adapter)
            self._offered.given(tracked, move)
            yield move

    def _may_store(self, request_id, tracked, tokens):
        """States inside a loaded prefix are not this engine's work: another engine computed the
        states."""
        foreign = self._origins.first(request_id)
        return (
            tokens % self._setup.chunk_tokens == 0
            and tokens > tracked.loaded_tokens
            and (foreign is None or tokens <= foreign)
        )

    def _key(self, tracked, chunks):
        places = self._items.places_to_store(tracked.request)
        return chunk_hashes(self._setup, tracked.request, chunks - 1, chunks, places)
