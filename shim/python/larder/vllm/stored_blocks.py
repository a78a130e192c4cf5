"""Blocks that a store reads after the first step of the store, and the treatment of these blocks by
vLLM's scheduler.

A block can be written under a copy in three ways, each with a class. The request ends or is
preempted (DeferredFrees), a window leaves the block behind (WindowBlocks), vLLM zeroes the block
early (HeldBlocks). Owned by the scheduler's thread."""

from larder.vllm.fail_safe import logger
from larder.vllm.held_blocks import HeldBlocks
from larder.vllm.deferred_frees import DeferredFrees
from larder.vllm.window_blocks import WindowBlocks

_CANNOT_HOLD = (
    "Larder stores nothing: this vLLM zeroes blocks before the report of preemptions, "
    "and does not give its block pool (bind_gpu_block_pool)"
)


class StoredBlocks:
    def __init__(self, setup):
        """setup: None where the engine is not served."""
        self._zeroes = setup is not None and setup.zeroes
        self._kept = DeferredFrees(setup.shards.stages * setup.shards.ranks if setup else 1)
        self._windows = WindowBlocks(setup.groups if setup else ())
        self._held = HeldBlocks()
        self._told = False

    def bind_gpu_block_pool(self, pool):
        self._held.bind(pool)

    def may_store(self):
        """Whether the blocks of a store can be kept unchanged until the store ends."""
        if not self._zeroes or self._held.can_hold:
            return True
        if not self._told:
            self._told = True
            logger.warning(_CANNOT_HOLD)
        return False

    def allocated(self, blocks, local_tokens):
        """See WindowBlocks."""
        self._windows.allocated(blocks, local_tokens)

    def rewritten(self, scheduler_output):
        """See WindowBlocks. Call this before step()."""
        return self._windows.rewritten(scheduler_output)

    def all_of_windows(self):
        """The answer of rewritten() when the rewritten blocks are unknown."""
        return self._windows.all()

    def hold(self, stores):
        """See HeldBlocks. Call this before step()."""
        if self._zeroes:
            self._held.hold(stores)  # mutation: zeroed-blocks-held

    def step(self, preempted, stores):
        """(number, preempted, kept) of StepWork, for a step that stores these held moves."""
        preempted, kept, number = self._kept.preempted(preempted), self._kept.take_told(), 0
        if stores:
            number = self._kept.stores(move.request_id for move in stores)
            self._windows.stores(number, stores)
            self._held.begun(number)
        return number, preempted, kept

    def ended(self, steps):
        """See DeferredFrees. Returns the steps that all workers have reported by now."""
        done = self._kept.ended(steps)
        for number in done:
            self._windows.ended(number)
            self._held.release(number)
        return done

    def keeps(self, request_id, next_step=False):
        """See DeferredFrees."""
        return self._kept.keeps(request_id, next_step)

    def free(self, request_ids):
        """vLLM was told that no worker reads their blocks."""
        self._kept.free(request_ids)

    @property
    def waits(self):
        """Whether blocks will come free without a preemption."""
        return self._kept.waits or self._held.any_alone

    @property
    def holds(self):
        """Whether vLLM must go on stepping until the workers have reported. Otherwise held blocks
        would stay out of vLLM's pool."""
        return self._held.any
