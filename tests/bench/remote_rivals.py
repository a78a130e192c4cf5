"""The arms of bench-remote in Python: redis-py, and LMCache's resp adapter. Started by
remote_bench: remote_rivals.py PORT.

The answer to a line "ARM set|get BYTES COUNT FIRST" is "SECONDS CPU_SECONDS", or an error text. A
chunk is one value. redis-py: one connection, set() and get() one after the other, with the default
parser (hiredis is not installed). resp8, resp1: LMCache's L2 adapter "resp", made by its factory,
with 8 workers (the default) and with 1. `lmcache bench l2` gives the pattern: batches of 64 MiB
submitted two at a time, and a wait for the adapter's event descriptor. Python's own sources of
bytes are as random as the C++ arms'; the returned bytes are compared outside of the timed part."""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
os.environ.setdefault("LMCACHE_DISABLE_BANNER", "1")
os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")
ANSWERS = os.fdopen(os.dup(1), "w")  # the output of libraries goes elsewhere
os.dup2(2, 1)

import numpy
import redis
import torch
from lmcache.cli.commands.bench.l2_adapter_bench import data as bench_data
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.resp_l2_adapter import RESPL2AdapterConfig

SUBMIT_BYTES = 64 << 20
IN_FLIGHT = 2
PATIENCE_S = 30
LOOK_AGAIN_S = 0.05


class Watch:
    """Wall clock and processor time of this process, with all threads, of the parts within
    `with`."""

    def __init__(self):
        self.seconds = self.cpu = 0.0

    def __enter__(self):
        self._from = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        self.seconds += time.perf_counter() - self._from[0]
        self.cpu += time.process_time() - self._from[1]


class Memory:
    """Sources, and targets for the returned bytes: made anew after a change of size or number."""

    def __init__(self):
        self._shape = None
        self.source = self.target = None

    def of(self, size: int, count: int):
        if self._shape != (size, count):
            self._shape = size, count
            self.source = torch.randint(-1 << 62, 1 << 62, (count, size // 8)).view(torch.uint8)
            self.target = torch.zeros_like(self.source)
        return self


class RedisPy:
    def __init__(self, port: int, memory: Memory):
        self._client, self._memory = redis.Redis(host="127.0.0.1", port=port), memory

    def set(self, size: int, count: int, first: int) -> Watch:
        sources = [row.numpy().tobytes() for row in self._memory.of(size, count).source]
        with Watch() as watch:
            for number, source in enumerate(sources):
                self._client.set(f"redis-py:{first + number}", source)
        return watch

    def get(self, size: int, count: int, first: int) -> Watch:
        sources = [row.numpy() for row in self._memory.of(size, count).source]
        watch = Watch()
        for number, source in enumerate(sources):
            with watch:
                value = self._client.get(f"redis-py:{first + number}")
            if value is None or not numpy.array_equal(numpy.frombuffer(value, numpy.uint8), source):
                raise ValueError("wrong bytes")
        return watch


class Resp:
    def __init__(self, port: int, memory: Memory, **settings):
        self._adapter = create_l2_adapter(
            RESPL2AdapterConfig(host="127.0.0.1", port=port, **settings)
        )
        self._memory = memory

    def _batches(self, tensor, size: int, count: int, first: int):
        """Keys and objects, so many bytes together."""
        each = max(1, SUBMIT_BYTES // size)
        keys = bench_data.make_object_keys(count, key_offset=first)
        objects = []
        for number in range(count):
            objects += self._object(tensor[number], size)
        return [(keys[at : at + each], objects[at : at + each]) for at in range(0, count, each)]

    @staticmethod
    def _object(row, size: int):
        """Like bench_data.make_memory_objects(), without filling."""
        kept = row.clone()
        made = bench_data.make_memory_objects(row, 1, size, 0)
        row.copy_(kept)
        return made

    def _run(self, batches, submit, descriptor: int, done) -> Watch:
        with Watch() as watch:
            running, at, last = set(), 0, time.monotonic()
            while at < len(batches) or running:
                while at < len(batches) and len(running) < IN_FLIGHT:
                    running.add(submit(*batches[at]))
                    at += 1
                # Once no event came within 30 s, on a busy machine: the loop asks for ended tasks
                # all the same.
                told = bench_data.wait_eventfd(descriptor, timeout=LOOK_AGAIN_S)
                ended = done(running)
                running -= ended
                last = time.monotonic() if told or ended else last
                if time.monotonic() - last > PATIENCE_S:
                    raise TimeoutError("the adapter does not answer")
        return watch

    def set(self, size: int, count: int, first: int) -> Watch:
        def done(_):
            ended = self._adapter.pop_completed_store_tasks()
            if not all(result.is_successful() for result in ended.values()):
                raise ValueError("a store failed")
            return set(ended)

        batches = self._batches(self._memory.of(size, count).source, size, count, first)
        return self._run(
            batches, self._adapter.submit_store_task, self._adapter.get_store_event_fd(), done
        )

    def get(self, size: int, count: int, first: int) -> Watch:
        def done(running):
            results = {task: self._adapter.query_load_result(task) for task in running}
            ended = {task: found for task, found in results.items() if found is not None}
            loaded.extend(found.popcount() for found in ended.values())
            return set(ended)

        loaded: list[int] = []
        memory = self._memory.of(size, count)
        memory.target.zero_()
        batches = self._batches(memory.target, size, count, first)
        watch = self._run(
            batches, self._adapter.submit_load_task, self._adapter.get_load_event_fd(), done
        )
        if sum(loaded) != count or not torch.equal(memory.source, memory.target):
            raise ValueError("wrong bytes")
        return watch


def main() -> None:
    port, memory = int(sys.argv[1]), Memory()
    torch.manual_seed(1)
    arms = {
        "redis-py": RedisPy(port, memory),
        "resp8": Resp(port, memory),
        "resp1": Resp(port, memory, num_workers=1),
    }
    print("ready", file=ANSWERS, flush=True)
    for line in sys.stdin:
        arm, operation, *numbers = line.split()
        try:
            watch = getattr(arms[arm], operation)(*map(int, numbers))
            answer = f"{watch.seconds} {watch.cpu}"
        except Exception as error:  # any error of a library: the bench reports the error and ends
            answer = f"{type(error).__name__}: {error}".splitlines()[0]
        print(answer, file=ANSWERS, flush=True)


if __name__ == "__main__":
    main()
