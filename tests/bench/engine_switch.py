"""Takes the connector away from a running engine, or puts an empty one in its place, and gives the
connector back, between two steps.

Two engines differ by a few percent for their whole lives, by the place of their memory. The
machine's speed drifts from one second to the next. The cost of a connector is therefore visible
only if one engine works with and without the connector by turns, every few steps. Without the
connector the engine runs as vLLM without one: no hook, no metadata, no aggregation. vLLM's
processes import this module, the product never does."""

from __future__ import annotations

import mmap
import pathlib
import time

from engine_steps import EMPTY, LARDER, NONE, StepLog

WITHOUT, WITH, ALTERNATE, ALTERNATE_SWAPPED = range(4)
BLOCK_TOKENS = 4  # the progress of a request before a change
CYCLES = {
    WITHOUT: (NONE,),
    WITH: (LARDER,),
    ALTERNATE: (LARDER, NONE, EMPTY, NONE),
    ALTERNATE_SWAPPED: (NONE, LARDER, NONE, EMPTY),
}


class Mode:
    """One word in a file: written by the bench while the engine rests, read by the engine's
    scheduler."""

    def __init__(self, folder: str | pathlib.Path, create: bool = False):
        path = pathlib.Path(folder) / "mode"
        if create:
            path.write_bytes(WITH.to_bytes(8, "little"))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self._words = memoryview(self._map).cast("Q")

    def set(self, mode: int) -> None:
        self._words[0] = mode

    def connector(self, computed_tokens: int) -> int:
        """The connector of a step; computed_tokens: of the request that runs longest."""
        cycle = CYCLES[self._words[0]]
        return cycle[computed_tokens // BLOCK_TOKENS % len(cycle)]


def _used(metadata) -> int:
    """The connector whose metadata a step carries."""
    return NONE if metadata is None else getattr(metadata, "connector", LARDER)


def switch_scheduler(connectors: dict, folder: str) -> None:
    """`connectors` by number; call this from the connector's constructor. A step is timed from the
    begin of schedule() to the end of update_from_output()."""
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor

    mode, log = Mode(folder), StepLog(folder)
    schedule, update, execute = (
        Scheduler.schedule,
        Scheduler.update_from_output,
        MultiprocExecutor.execute_model,
    )
    began = aggregator = None

    def timed_schedule(self, *args, **kwargs):
        nonlocal began
        began = time.perf_counter_ns()
        self.connector = connectors[
            mode.connector(self.running[0].num_computed_tokens if self.running else 0)
        ]
        return schedule(self, *args, **kwargs)

    def switched_execute(self, scheduler_output, *args, **kwargs):
        nonlocal aggregator
        aggregator = aggregator or self.kv_output_aggregator
        self.kv_output_aggregator = (
            None if scheduler_output.kv_connector_metadata is None else aggregator
        )
        return execute(self, scheduler_output, *args, **kwargs)

    def timed_update(self, scheduler_output, *args, **kwargs):
        output = update(self, scheduler_output, *args, **kwargs)
        log.add(
            _used(scheduler_output.kv_connector_metadata),
            scheduler_output.total_num_scheduled_tokens,
            time.perf_counter_ns() - began,
        )
        return output

    Scheduler.schedule, Scheduler.update_from_output = timed_schedule, timed_update
    MultiprocExecutor.execute_model = switched_execute


def switch_worker(connectors: dict) -> None:
    """Call this from the connector's constructor: the worker follows the scheduler's choice."""
    from vllm.distributed.kv_transfer import kv_transfer_state
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    execute = GPUModelRunner.execute_model

    def switched_execute(self, scheduler_output, *args, **kwargs):
        kv_transfer_state._KV_CONNECTOR_AGENT = connectors[
            _used(scheduler_output.kv_connector_metadata)
        ]
        return execute(self, scheduler_output, *args, **kwargs)

    GPUModelRunner.execute_model = switched_execute
