"""States with a possibly late store, which are given to the worker again.

vLLM hands over a state once, and promises the blocks for this step alone. Later a state is stored
only if vLLM's own prefix cache still has the state in these blocks. Each block then has its old
hash, and went to no request meanwhile. Owned by the scheduler's thread."""

import time
from array import array
from dataclasses import dataclass

from larder.vllm.messages import Move
from larder.vllm.store_plan import RETRY_AFTER_S, STORE_RETRIES
from larder.vllm.window_blocks import WindowBlocks

# Stores that may be late. The oldest makes room, and is not offered again.
MOST_STATES = 4096


@dataclass
class GivenState:
    tracked: object
    move: Move
    hashes: dict  # vLLM's hash of each block
    given_at: float
    retries: int = STORE_RETRIES


class OfferedStates:
    def __init__(self, setup, client):
        self._client = client
        self._blocks = WindowBlocks(setup.groups if setup else ())
        # A vLLM that zeroes blocks early may do so before the report of the new owner.
        self._stores_again = setup is not None and not setup.zeroes
        self._pool = None
        self._states: dict[int, GivenState] = {}
        self._last = 0

    def bind(self, pool):
        """pool: vLLM's BlockPool. Without one no state is stored again."""
        self._pool = pool

    def given(self, tracked, move):
        """A worker stores the states of this move."""
        if not self._stores_again or self._pool is None:
            return
        pages = [page for part in move.parts for page in array("I", part.pages)]
        hashes = {page: self._pool.blocks[page].block_hash for page in pages}
        if None not in hashes.values():
            self._last += 1
            self._states[self._last] = GivenState(tracked, move, hashes, time.monotonic())
            self._blocks.stores(self._last, [move])
            if len(self._states) > MOST_STATES:
                self._forget(next(iter(self._states)))

    def allocated(self, blocks, local_tokens):
        """See WindowBlocks."""
        self._blocks.allocated(blocks, local_tokens)

    def again(self, scheduler_output, tracked):
        """Moves to be stored again in this step. Call this in each step. tracked: by request."""
        for number in self._blocks.rewritten(scheduler_output):  # mutation: state-rewritten
            self._states.pop(number, None)
        now, moves = time.monotonic(), []
        for number, state in tuple(self._states.items()):
            lives = (
                tracked.get(state.move.request_id) is state.tracked
                and not state.tracked.stale
                and self._cached(state)
            )
            if lives and now < state.given_at + RETRY_AFTER_S:
                continue
            key = state.move.parts[0].hashes
            if (
                not lives
                or self._client.last(key, len(key), state.tracked.space.states)
                or not state.retries
            ):
                self._forget(number)
                continue
            state.retries, state.given_at = state.retries - 1, now
            moves.append(state.move)
        return moves

    def _forget(self, number):
        self._blocks.ended(number)
        del self._states[number]

    def _cached(self, state):
        return all(
            self._pool.blocks[page].block_hash == known for page, known in state.hashes.items()
        )  # mutation: state-cached
