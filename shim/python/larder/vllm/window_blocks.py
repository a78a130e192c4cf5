"""Blocks of sliding windows and of chunked local attention under stores. vLLM gives such a block to
others while its request runs. A step that writes the block has to wait for the copy
(StepWork.rewritten).

Such blocks go to the tail of vLLM's free queue, so steps rarely wait. A block is written at the
earliest in the step that hands the block to a request. Only handed-out blocks matter, wherever a
pass writes. Owned by the scheduler's thread."""

from array import array


class WindowBlocks:
    def __init__(self, groups):
        """groups: of Setup, in any order."""
        self._windows = {number for number, group in enumerate(groups) if group.forgets}
        self._sizes = {group.table: group.block_size for group in groups}
        self._stored = {}  # number of a step: the step's blocks of windows
        self._handed_out = set()  # blocks, since the last step

    def stores(self, number, moves):
        """The step of that number stores for these moves."""
        parts = (part for move in moves for part in move.parts if part.group in self._windows)
        pages = {page for part in parts for page in array("I", part.pages)}
        if pages:
            self._stored[number] = pages

    def ended(self, number):
        self._stored.pop(number, None)

    def allocated(self, blocks, local_tokens):
        """vLLM has given blocks to a request. The blocks behind vLLM's own hit are new, and a load
        of any connector may write these blocks."""
        if self._stored:
            self._hand_out(blocks.get_block_ids(), local_tokens)

    def rewritten(self, scheduler_output):
        """Numbers of steps that stored blocks which this step writes; each is told once."""
        if not self._stored:
            self._handed_out.clear()
            return ()
        for new in scheduler_output.scheduled_new_reqs:
            self._hand_out(new.block_ids, new.num_computed_tokens)  # mutation: window-handed-out
        cached = scheduler_output.scheduled_cached_reqs
        computed_tokens = cached.num_computed_tokens
        for request_id, computed, added in zip(
            cached.req_ids, computed_tokens, cached.new_block_ids
        ):
            if added is not None:
                self._hand_out(added, computed if request_id in cached.resumed_req_ids else 0)
        handed_out, self._handed_out = self._handed_out, set()
        numbers = tuple(
            number for number, pages in self._stored.items() if not pages.isdisjoint(handed_out)
        )
        for number in numbers:
            del self._stored[number]
        return numbers

    def all(self):
        """The answer of rewritten() for a step that writes all stored blocks."""
        numbers = tuple(self._stored)
        self._stored.clear()
        return numbers

    def _hand_out(self, tables, computed_tokens):
        for number, table in enumerate(tables):
            size = self._sizes.get(number)  # mutation: window-tables
            # A table that Larder does not serve has one block for a request, or windows: all blocks
            # may be new.
            self._handed_out.update(table if size is None else table[computed_tokens // size :])
