"""make bench-gpu, T: time to first token of a prompt of 15,104 tokens (59 chunks of 256) on a GPU:
computed, loaded from larderd, and from the engine's own memory.

The engine is tests/engine: the whole shapes of Llama 3.1 8B and Qwen3 32B, with random weights in
bfloat16; one prompt at a time, prefilled in one step. Warm is judged against bytes / rate of one
large copy + one decode step, all three of this run. The cold prefill's share of the GPU's own
matrix rate stands beside, since a slow prefill makes a great factor. The time counts from the
request with its block hashes, which every request needs (`hash_s`), to the token on the host. Then
from larderd's disk and from a Redis, each time over a restarted larderd with an empty memory.
Another prompt from the same place goes before, without judgement, while the memory is registered
with the GPU.

An answer counts only if all of its tokens were loaded into overwritten pages. The loaded KV must be
the stored KV bit for bit. Where an engine's own memory gives the same logits each time, so must the
loaded KV. On an H200 the own memory's logits differed by 0.06 from time to time. Any other answer
is a row with the reason, does not end the other rows, and gives status 1. Missing equipment of this
machine, a Redis or enough memory, is reported too, and is no failure. The report is written behind
each row. Without a GPU the bench reports that there was no measurement. Environment: LARDERD,
LARDER_COMMIT; GPU_TTFT_SHAPES (llama_8b,qwen_32b), GPU_TTFT_PLACES (memory,disk,redis): other rows
stay in the report."""

from __future__ import annotations

import gc
import os
import pathlib
import shutil
import statistics
import sys
import time
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "engine"))

import torch
from gpu_ceilings import copy_bytes_per_s, device_line, matrix_flops
from harness import goals
from harness.bench import Void, line_of
from harness.bench import run as run_bench
from harness.larderd import Larderd
from harness.process import ProcessError
from harness.redis import RedisServer
from larder import LarderError
from paged_engine.engine import Answer, Engine
from paged_engine.shapes import SHAPES, Shape

BUILD = ROOT / "build" / "bench"
CHUNK_TOKENS = 256
TOKENS = 59 * CHUNK_TOKENS
COLD_ROUNDS, WARM_ROUNDS, BELOW_ROUNDS = 3, 9, 3
MEMORY_FOR_FETCHES = 5  # prompts: larderd keeps a quarter of its memory for fetches
UNJUDGED = 2  # warm rounds until larderd's memory is registered with the GPU
STEPS = 9  # of decode
PATIENCE_S = 120
DEVICE = "cuda"
WARM_OVER_CEILING = 1.15
# of issue 10; another GPU, and another engine's prefill
SEED_FIGURE = "(the seed figure to beat: 44.5, on an L4)"

# A larderd with so many bytes of memory and this configuration besides.
Start = Callable[[int, str], AbstractContextManager[Larderd]]


@dataclass
class Ceilings:
    copy_bytes_per_s: float
    matrix_flops: float


class Bench:
    """One shape in one engine."""

    def __init__(self, shape: Shape, device: str, start: Start, tokens: int = TOKENS):
        self.shape, self.start, self.tokens = shape, start, tokens
        self.engine = Engine(shape, device, blocks=2 * tokens // 16 + 8)
        self.prompts = [prompt_of(seed, tokens, shape.vocab) for seed in (7, 8)]
        # Of each prompt: sums of the stored KV; logits from the engine's own memory, if these are
        # equal each time.
        self.stored_kv: dict[int, list[int]] = {}
        self.expected: dict[int, torch.Tensor | None] = {}
        self.bytes = shape.kv_bytes(tokens, self.engine.dtype.itemsize)
        # larderd lets one engine have half of larderd's memory in flight
        self.memory = self.bytes * 5 // 2

    def ask(
        self, number: int = 0, new_tokens: int = 1, larder: bool = False, own: bool = False
    ) -> Answer:
        request = self.engine.request(self.prompts[number])
        link = self.engine.larder if larder else None
        answer = self.engine.run(request, new_tokens, link, own)
        self.table = request.table  # the pages keep the request's KV until the next request
        return answer

    def kv_sums(self) -> list[int]:
        """A sum of each layer's KV of the last prompt, which other bytes or another order change.
        Without the last token, whose KV the engine computes anew."""
        table = torch.tensor(self.table, device=self.engine.device)
        return [
            int(sum_of(part))
            for layer in range(self.shape.layers)
            for part in self.engine.kv.read(layer, table, self.tokens - 1)
        ]

    def hash_s(self) -> float:
        begin = time.perf_counter()
        self.engine.request(self.prompts[0])
        return time.perf_counter() - begin

    def cold(self) -> tuple[float, bool]:
        """Seconds to the first token of a computed prompt, and whether each time gave the same
        bits."""
        self.ask(1)  # work that is slow only once
        answers = [self.ask() for _ in range(COLD_ROUNDS)]
        return statistics.median(answer.ttft_s for answer in answers), all(
            torch.equal(one.logits[0], answers[0].logits[0]) for one in answers
        )

    def own(self, number: int = 0) -> tuple[float, float]:
        """Seconds to the first token from the engine's own memory, and of a decode step behind the
        token."""
        answers = [self.ask(number, STEPS, own=True) for _ in range(WARM_ROUNDS)]
        if any(answer.local_tokens != self.tokens for answer in answers):
            raise Void(
                f"{self.shape.name}: the engine's own memory does not have all of the prompt"
            )
        first = answers[0].logits[0]
        reproducible = all(torch.equal(answer.logits[0], first) for answer in answers)
        self.expected[number] = first if reproducible else None
        return statistics.median(a.ttft_s for a in answers), statistics.median(
            s for a in answers for s in a.step_s
        )

    def attach(self, larderd: Larderd) -> None:
        link = self.engine.attach(larderd.socket, CHUNK_TOKENS)
        if not link.wait_attached(60_000):
            raise Void(f"not attached: {link.log_lines()}")

    def store(self, number: int = 0) -> float:
        """Seconds to the first token of a computed prompt with a store meanwhile. The engine keeps
        the KV of the same pass, since another pass may round otherwise."""
        self.engine.forget()
        self.engine.synchronize()
        answer = self.ask(number, larder=True, own=True)
        self.stored_kv[number] = self.kv_sums()
        if answer.stored_chunks != self.tokens // CHUNK_TOKENS:
            raise Void(
                f"{self.shape.name}: {answer.stored_chunks} chunks of a prompt were stored: "
                f"{self.engine.larder.log_lines()}"
            )
        deadline = time.monotonic() + PATIENCE_S
        while (
            self.engine.larder.hit_tokens(self.engine.request(self.prompts[number])) < self.tokens
        ):
            if time.monotonic() > deadline:
                raise Void(
                    f"not all of the prompt was committed within {PATIENCE_S} s: "
                    f"{self.engine.larder.log_lines()}"
                )
            time.sleep(0.05)
        return answer.ttft_s

    def warm_s(self, number: int = 0) -> float:
        self.engine.forget()
        self.engine.synchronize()
        answer = self.ask(number, larder=True)
        if answer.loaded_tokens != self.tokens:
            link = self.engine.larder
            why = (
                f"{answer.loaded_tokens} were loaded; {link.last_fetch}; {link.last_load}; "
                f"{link.log_lines()}"
            )
            raise Void(f"{self.shape.name}: of {self.tokens} tokens {why}")
        self._check(number, answer)
        return answer.ttft_s

    def _check(self, number: int, answer: Answer) -> None:
        if self.kv_sums() != self.stored_kv[number]:
            raise Void(f"{self.shape.name}: the loaded KV is not the stored KV")
        expected = self.expected[number]
        if expected is not None and not torch.equal(answer.logits[0], expected):
            difference = float((answer.logits[0] - expected).abs().max())
            raise Void(
                f"{self.shape.name}: the logits over loaded KV differ by up to {difference:.3g} "
                "from those over the same KV in the engine's own memory"
            )

    # ---- rows

    def from_memory(self, ceilings: Ceilings) -> dict:
        cold_s, reproducible = self.cold()
        with self.start(self.memory, "") as larderd:
            self.attach(larderd)
            storing_s = self.store()
            own_s, step_s = self.own()
            warm = [self.warm_s() for _ in range(UNJUDGED + WARM_ROUNDS)][UNJUDGED:]
            copy_ns = self.engine.larder.last_load.copy_ns
            self.engine.close()
        row = {
            "shape": self.shape.name,
            "part": "memory",
            "layers": self.shape.layers,
            "tokens": self.tokens,
            "bytes": self.bytes,
            "cold_s": cold_s,
            "cold_reproducible": reproducible,
            "own_reproducible": self.expected[0] is not None,
            "cold_storing_s": storing_s,
            "warm_s": statistics.median(warm),
            "warm_worst_s": max(warm),
            "own_s": own_s,
            "decode_step_s": step_s,
            "load_copy_s": copy_ns / 1e9,
            "hash_s": self.hash_s(),
            "large_copy_gb_s": ceilings.copy_bytes_per_s / 1e9,
            "matrix_tflops": ceilings.matrix_flops / 1e12,
        }
        row["ceiling_s"] = self.bytes / ceilings.copy_bytes_per_s + step_s
        row["warm_over_ceiling"] = row["warm_s"] / row["ceiling_s"]
        row["cold_over_warm"] = cold_s / row["warm_s"]
        row["prefill_of_peak"] = (
            self.shape.prefill_flops(self.tokens) / cold_s / ceilings.matrix_flops
        )
        return row

    def from_below(self, part: str, extra: str, written: Callable[[Larderd], int]) -> dict:
        """From a tier below larderd's memory; `written` is how many chunks are there."""
        memory, warm = MEMORY_FOR_FETCHES * self.bytes, []
        with self.start(memory, extra) as larderd:
            self.attach(larderd)
            for number in (0, 1):
                self.store(number)
                self.own(number)
            larderd.wait_until(
                lambda: written(larderd) >= 2 * self.tokens // CHUNK_TOKENS, PATIENCE_S
            )
            self.engine.close()
        for _ in range(BELOW_ROUNDS):
            with self.start(memory, extra) as larderd:
                self.attach(larderd)
                larderd.wait_until(self._all_reachable, PATIENCE_S)
                self._below_s(1)
                warm.append(self._below_s(0))
                self.engine.close()
        row = {"shape": self.shape.name, "part": part, "tokens": self.tokens, "bytes": self.bytes}
        warm_s = statistics.median(warm)
        return {
            **row,
            "warm_s": warm_s,
            "warm_worst_s": max(warm),
            "gb_s": self.bytes / warm_s / 1e9,
        }

    def _all_reachable(self) -> bool:
        """A new larderd reports its lower tiers a moment after the start."""
        requests = (self.engine.request(prompt) for prompt in self.prompts)
        return all(
            self.engine.larder.reachable_tokens(request) == self.tokens for request in requests
        )

    def _below_s(self, number: int) -> float:
        seconds = self.warm_s(number)
        fetched = self.engine.larder.last_fetch
        if fetched is None or fetched.bytes < self.bytes:
            raise Void(f"{self.shape.name}: not all of a prompt came from below: {fetched}")
        return seconds


def sum_of(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of each 16-bit value times an odd number of its place. 64-bit integers give the same
    sum in whatever order the device adds."""
    values = tensor.contiguous().view(torch.int16).flatten().long()
    return (values * torch.arange(1, 2 * len(values), 2, device=values.device)).sum()


def prompt_of(seed: int, tokens: int, vocabulary: int) -> list[int]:
    return torch.randint(
        vocabulary, (tokens,), generator=torch.Generator().manual_seed(seed)
    ).tolist()


def rows_of(
    shape: Shape,
    device: str,
    places: list[str],
    folder: pathlib.Path,
    ceilings: Ceilings,
    tokens: int,
) -> Iterator[dict]:
    """A row of each place, right after its measurement, by one engine."""
    bench = None

    def made() -> Bench:
        nonlocal bench
        bench = bench or Bench(shape, device, starter(folder), tokens)
        return bench

    for place in places:
        row = tried(lambda: MEASURE[place](made(), folder, ceilings))
        if bench is not None:
            bench.engine.close()  # the place of the failure
        yield {"shape": shape.name, "part": place, **row}


def from_memory(bench: Bench, _: pathlib.Path, ceilings: Ceilings) -> dict:
    return bench.from_memory(ceilings)


def from_disk(bench: Bench, folder: pathlib.Path, _: Ceilings) -> dict:
    disk = folder / "disk"
    shutil.rmtree(disk, ignore_errors=True)
    disk.mkdir(parents=True)
    extra = f"disk:\n  path: {disk}\n  size: {(4 * bench.bytes >> 20) + 256}MiB\n  write: through\n"
    try:
        return bench.from_below("disk", extra, lambda larderd: larderd.status()["disk"]["chunks"])
    finally:
        shutil.rmtree(disk)


def from_redis(bench: Bench, folder: pathlib.Path, _: Ceilings) -> dict:
    with RedisServer(folder / "redis") as redis:
        extra = f"backend:\n  url: {redis.url}\n"
        return bench.from_below(
            "redis", extra, lambda larderd: larderd.status()["backend"]["chunks"]
        )


MEASURE = {"memory": from_memory, "disk": from_disk, "redis": from_redis}


def tried(measure: Callable[[], dict]) -> dict:
    """A place that cannot be measured here, or failed, is reported and does not end the other
    places."""
    try:
        return measure()
    except (ProcessError, torch.OutOfMemoryError) as error:
        return {"not_measured": line_of(error)}
    except (RuntimeError, OSError, LarderError) as error:  # Void and PyTorch's errors are the first
        return {"failed": line_of(error)}


def judge(rows: list[dict]) -> list[dict]:
    verdict = []
    for row in rows:
        name = f"T.{row['shape']}"
        if "warm_over_ceiling" in row:
            verdict += [
                goals.goal(
                    f"{name}.warm_over_ceiling", row["warm_over_ceiling"], "<=", WARM_OVER_CEILING
                ),
                {
                    **goals.figure(f"{name}.cold_over_warm", row["cold_over_warm"]),
                    "beside": SEED_FIGURE,
                },
                goals.figure(f"{name}.prefill_of_peak", row["prefill_of_peak"]),
            ]
        elif "warm_s" in row:
            verdict.append(goals.figure(f"{name}.{row['part']}_s", row["warm_s"]))
    return verdict


def show(row: dict) -> None:
    if "failed" in row:
        print(f"  {row['shape']:<10} from {row['part']}: FAILED: {row['failed']}", flush=True)
    elif "not_measured" in row:
        print(
            f"  {row['shape']:<10} from {row['part']}: not measured: {row['not_measured']}",
            flush=True,
        )
    elif row["part"] == "memory":
        print(
            f"  {row['shape']:<10} {row['layers']} layers, {row['tokens']} tokens, "
            f"{row['bytes'] / 1e9:.2f} GB: cold {row['cold_s']:.3f} s "
            f"({row['prefill_of_peak']:.2f} of the GPU's matrix rate), storing "
            f"{row['cold_storing_s']:.3f} s\n"
            f"  {'':<10} from larderd {1e3 * row['warm_s']:.1f} ms (worst "
            f"{1e3 * row['warm_worst_s']:.1f}), copy {1e3 * row['load_copy_s']:.1f}; "
            f"ceiling {1e3 * row['ceiling_s']:.1f}; own memory {1e3 * row['own_s']:.1f}, a decode "
            f"step {1e3 * row['decode_step_s']:.1f}; hashing {1e3 * row['hash_s']:.1f}",
            flush=True,
        )
    else:
        print(
            f"  {row['shape']:<10} from {row['part']}: {1e3 * row['warm_s']:.1f} ms (worst "
            f"{1e3 * row['warm_worst_s']:.1f}), {row['gb_s']:.2f} GB/s",
            flush=True,
        )


def starter(folder: pathlib.Path) -> Start:
    @contextmanager
    def start(size: int, extra: str) -> Iterator[Larderd]:
        with Larderd(
            os.environ["LARDERD"],
            folder,
            f"larder-bench-{os.getpid()}",
            f"{(size >> 20) + 1}MiB",
            extra,
        ) as larderd:
            larderd.wait_ready()
            larderd.wait_touched(PATIENCE_S)
            yield larderd

    return start


def main() -> int:
    started, path, commit = (
        time.monotonic(),
        BUILD / "gpu_ttft.json",
        os.environ.get("LARDER_COMMIT", ""),
    )
    shapes = os.environ.get("GPU_TTFT_SHAPES", "llama_8b,qwen_32b").split(",")
    places = [
        place
        for place in MEASURE
        if place in os.environ.get("GPU_TTFT_PLACES", "memory,disk,redis").split(",")
    ]
    rows = [
        row
        for row in goals.kept_rows(path, set())
        if row["shape"] not in shapes or row["part"] not in places
    ]
    if not torch.cuda.is_available():
        why = "no CUDA device: torch.cuda.is_available() is false"
        print(f"not measured: T ({why})")
        rows += [
            {"shape": shape, "part": place, "not_measured": why, "commit": commit}
            for shape in shapes
            for place in places
        ]
        goals.write(path, "gpu_ttft", rows, judge(rows))
        return 0
    machine, failed = device_line(DEVICE), False
    ceilings = Ceilings(copy_bytes_per_s(DEVICE), matrix_flops(DEVICE))
    print(
        f"{machine}, commit {commit}\n  one large copy {ceilings.copy_bytes_per_s / 1e9:.1f} GB/s, "
        f"a product of matrices {ceilings.matrix_flops / 1e12:.0f} TFLOP/s",
        flush=True,
    )
    for name in shapes:
        for row in rows_of(SHAPES[name], DEVICE, places, BUILD / "gpu-ttft", ceilings, TOKENS):
            rows.append({**row, "device": machine, "commit": commit})
            show(row)
            # a later row may be the end of this process
            goals.write(path, "gpu_ttft", rows, judge(rows))
            failed = failed or "failed" in row
        gc.collect()
        torch.cuda.empty_cache()
    goals.conclude(path, "gpu_ttft", rows, judge(rows), started)
    return int(failed)


if __name__ == "__main__":
    run_bench("bench-gpu", main)
