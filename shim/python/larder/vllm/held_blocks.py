"""References to blocks of vLLM's pool: a block under a store goes to no other request, even after
the end of its own request.

vLLM's second runner zeroes the new blocks of a step before the runner tells the connector of
preemptions. If blocks are zeroed at all (Setup.zeroes), stored blocks are held here. The hold lasts
from the step of the store until every worker has reported the step. Owned by the scheduler's
thread, which owns the pool too."""

from array import array


class HeldBlocks:
    def __init__(self):
        self._pool = None
        self._touched = []  # blocks of a step that has no number yet
        self._held = {}  # number of a step: its blocks

    def bind(self, pool):
        """pool: vLLM's BlockPool, which outlives this."""
        self._pool = pool

    @property
    def can_hold(self):
        return self._pool is not None

    def hold(self, moves):
        """Holds the blocks of the moves that a step stores. REQUIRES: can_hold; requests own the
        blocks now. Raises the exceptions of vLLM's pool."""
        pages = {page for move in moves for part in move.parts for page in array("I", part.pages)}
        blocks = [self._pool.blocks[page] for page in sorted(pages)]
        self._pool.touch(blocks)
        self._touched = blocks

    def begun(self, number):
        """The blocks held since the last call belong to the step of this number."""
        if self._touched:
            self._held[number], self._touched = self._touched, []

    def release(self, number):
        """No worker reads blocks of the step any more."""
        blocks = self._held.pop(number, ())
        if blocks:
            self._pool.free_blocks(reversed(blocks))

    @property
    def any(self):
        return bool(self._held)

    @property
    def any_alone(self):
        """Whether blocks come free when stores end."""
        return any(block.ref_cnt == 1 for blocks in self._held.values() for block in blocks)
