"""States whose store may have been late, so that they are given to the worker again.

vLLM hands over a state once, and promises its blocks for that step alone. Later a state is stored
only where vLLM's own prefix cache still has it in these blocks: each block has the hash that it had,
and went to no request meanwhile. Owned by the scheduler's thread."""

import time
from array import array
from dataclasses import dataclass

from larder.vllm.messages import Move
from larder.vllm.store_plan import RETRY_AFTER_S, STORE_RETRIES
from larder.vllm.window_blocks import WindowBlocks


@dataclass
class Offer:
    tracked: object
    move: Move
    hashes: dict  # vLLM's hash of each block
    given_at: float
    retries: int = STORE_RETRIES


class OfferedStates:
    def __init__(self, setup, client):
        self._client = client
        self._blocks = WindowBlocks(setup.groups if setup else ())
        # A vLLM that zeroes blocks early may do so before it tells who gets them.
        self._retries = setup is not None and not setup.zeroes
        self._pool = None
        self._offers: dict[int, Offer] = {}
        self._last = 0

    def bind(self, pool):
        """pool: vLLM's BlockPool. Without one no state is stored again."""
        self._pool = pool

    def given(self, tracked, move):
        """A worker stores the states of this move."""
        if not self._retries or self._pool is None:
            return
        pages = [page for part in move.parts for page in array("I", part.pages)]
        hashes = {page: self._pool.blocks[page].block_hash for page in pages}
        if None not in hashes.values():
            self._last += 1
            self._offers[self._last] = Offer(tracked, move, hashes, time.monotonic())
            self._blocks.stores(self._last, [move])

    def allocated(self, blocks, local_tokens):
        """See WindowBlocks."""
        self._blocks.allocated(blocks, local_tokens)

    def again(self, scheduler_output, tracked):
        """Moves to be stored again in this step. Call this in each step. tracked: by request."""
        for number in self._blocks.rewritten(scheduler_output):  # mutation: state-rewritten
            self._offers.pop(number, None)
        now, moves = time.monotonic(), []
        for number, offer in tuple(self._offers.items()):
            lives = tracked.get(offer.move.request_id) is offer.tracked and not offer.tracked.stale and self._cached(offer)
            if lives and now < offer.given_at + RETRY_AFTER_S:
                continue
            key = offer.move.parts[0].hashes
            if not lives or self._client.last(key, len(key), offer.tracked.space.states) or not offer.retries:
                self._blocks.ended(number)
                del self._offers[number]
                continue
            offer.retries, offer.given_at = offer.retries - 1, now
            moves.append(offer.move)
        return moves

    def _cached(self, offer):
        return all(self._pool.blocks[page].block_hash == known for page, known in offer.hashes.items())  # mutation: state-cached
