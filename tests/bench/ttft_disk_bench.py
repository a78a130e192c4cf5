"""make bench-ttft-disk: time to first token where the memory is too small, and the disk slow, or
stopped.

The demo's model over a larderd of 256 MiB with a disk tier. Three prompts of 4,096 tokens (48 MiB
each) and forty-two of 1,024 (12 MiB) are asked in turn, so no prompt is in memory when it comes
again. Every warm answer comes from the disk; the chunks went there ahead of eviction (`write:
back`, the default). A warm answer counts only if nearly all of its chunks were fetched, as vLLM's
log tells.

Then the disk is throttled (the kernel's block throttle on larderd's reads: root and cgroup v1),
down to a stop. At each speed the bench makes three probes, which are not judged. Then `ROUNDS`
requests with Larder and as many without (the same engine, the request opted out) take turns. After
each speed the throttle goes, and the bench measures the time until the disk is used again.

Tokens show that no wrong byte was used. In bfloat16, a prefill with another begin may give other
tokens by itself. So an answer without loaded chunks must equal the cold one. An answer with all
chunks must equal that of a hit in vLLM's own prefix cache, which is asked for right after the cold
one. An answer with k of n chunks, as of a slow disk, must equal a reference with the same split.
For the reference, the throttle is gone and memory is filled with other prompts; the first k chunks
are read again at full speed, as vLLM's log tells, into vLLM's own prefix cache. The prompt is then
asked without Larder. The records are those that gave right whole answers. After an answer with a
part of the chunks, the rest of the prompt is stored again with another split. The prompt is not
asked again. Environment: that of the demo; TTFT_DISK_SPEEDS.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import statistics
import time
from dataclasses import dataclass

from demo.model import demo_model
from harness import goals
from harness.bench import Void
from harness.bench import run as run_bench
from harness.larderd import Larderd
from harness.slow_link import SlowLink
from harness.throttle import STALLED, Throttle, Unavailable
from harness.vllm_server import VllmServer, engine_env
from larder.completions import Completion, reset_prefix_cache, stream_completion
from ttft_rounds import CHUNK_TOKENS, CONTINUATION, token_ids

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
NAME = "demo"
LONG, SHORT = [4096 + 5] * 3, [1024 + 5] * 42
WARM_CYCLES = 3
PROBES, ROUNDS = 3, 3
# MB a second. The engine computes 12 KiB of KV a token: a few MB a second here. 0: no byte comes.
SPEEDS = [0, 1, 4, 16, 64]
RECOVERY_S = 60
LOG_LATE_S = 0.7
COUNTED = 0.95  # of warm chunks; a machine that does something else for a moment costs one prompt's
OFF = {"kv_transfer_params": {"larder": "off"}}
FETCHED = re.compile(r"Fetched (\d+) of \d+ chunks")


class Prompts:
    """Asked in turn. `expected` has the right answers of each prompt by the number of loaded
    chunks: 0, or all."""

    def __init__(self, lengths: list[int], seed: int):
        self.prompts = [token_ids(seed + i, n) for i, n in enumerate(lengths)]
        self.chunks = [n // CHUNK_TOKENS for n in lengths]
        self.expected: list[dict[int, list[int]]] = []
        # with all chunks from the cold answer; the next one first
        self.left = list(range(len(lengths)))

    def next(self) -> int:
        if not self.left:
            raise Void("no prompt is left that was never loaded in part")
        self.left.append(self.left.pop(0))
        return self.left[-1]


@dataclass
class Partial:
    """An answer of which the first chunks were loaded and the others computed."""

    label: str
    prompts: Prompts
    number: int
    chunks: int
    token_ids: list[int]


class Bench:
    """`place`: where warm answers come from."""

    def __init__(self, server: VllmServer, larderd: Larderd, place: str = "the disk"):
        self.server, self.larderd, self.place = server, larderd, place
        self.partial: list[Partial] = []  # not compared yet

    def cold(self, prompts: Prompts) -> list[float]:
        """TTFTs in seconds."""
        ttfts = []
        for prompt, chunks in zip(prompts.prompts, prompts.chunks):
            cold = self.stream(prompt, CONTINUATION)
            hit = self.stream(prompt, CONTINUATION, **OFF)
            if (cold.cached_tokens, hit.cached_tokens) != (0, chunks * CHUNK_TOKENS):
                raise Void(
                    f"cold: {cold.cached_tokens} tokens were there before, "
                    f"and {hit.cached_tokens} of "
                    f"{chunks * CHUNK_TOKENS} in vLLM's own cache after it"
                )
            prompts.expected.append({0: cold.token_ids, chunks: hit.token_ids})
            ttfts.append(cold.ttft_s)
        return ttfts

    def stream(self, prompt: list[int], tokens: int, **fields) -> Completion:
        return stream_completion(self.server.url, NAME, prompt, tokens, **fields)

    def ask(self, prompts: Prompts, i: int, label: str, **fields) -> float:
        reset_prefix_cache(self.server.url)
        answer = self.stream(prompts.prompts[i], CONTINUATION, **fields)
        chunks = answer.cached_tokens // CHUNK_TOKENS
        expected = prompts.expected[i].get(chunks)
        if expected is None:
            prompts.left.remove(i)
            self.partial.append(Partial(label, prompts, i, chunks, answer.token_ids))
        elif answer.token_ids != expected:
            raise Void(
                f"{label}: not the continuation that it must be with {chunks} of "
                f"{prompts.chunks[i]} chunks loaded"
            )
        return answer.ttft_s

    def compare_partial(self, prompts: Prompts) -> list[int]:
        """The numbers of chunks of all answers not compared yet. REQUIRES: the disk has its full
        speed."""
        compared = []
        while self.partial:
            waiting, self.partial = self.partial, []
            self.cycles([prompts], 1)  # fills memory with others
            for partial in waiting:
                if self.reference(partial) != partial.token_ids:
                    raise Void(
                        f"{partial.label}: the continuation with {partial.chunks} chunks loaded "
                        "differs from the one with the same chunks read at full speed"
                    )
            compared += [partial.chunks for partial in waiting]
        return compared

    def reference(self, partial: Partial) -> list[int]:
        """The answer to the same prompt with the same chunks in vLLM's own cache, read anew, and a
        computed rest."""
        prompt, tokens = partial.prompts.prompts[partial.number], partial.chunks * CHUNK_TOKENS
        time.sleep(LOG_LATE_S)
        before = self.fetched_chunks()
        reset_prefix_cache(self.server.url)
        brought = self.stream(prompt, 1).cached_tokens // CHUNK_TOKENS
        time.sleep(LOG_LATE_S)
        if brought < partial.chunks or self.fetched_chunks() - before != brought:
            raise Void(
                f"{partial.label}: {partial.chunks} chunks to compare with were not all read "
                f"again, {brought} loaded"
            )
        reset_prefix_cache(self.server.url)
        first = self.stream(prompt[: tokens + 1], 1)
        answer = self.stream(prompt, CONTINUATION, **OFF)
        if (first.cached_tokens, answer.cached_tokens) != (tokens, tokens):
            raise Void(
                f"{partial.label}: to compare with, {first.cached_tokens} tokens were loaded and "
                f"{answer.cached_tokens} used, not {tokens}"
            )
        return answer.token_ids

    def fetched_chunks(self) -> int:
        """The results of all ended fetches, by vLLM's log, which is written half a second late."""
        return sum(map(int, FETCHED.findall(self.server.log.read_text(errors="replace"))))

    def cycles(self, sets: list[Prompts], count: int) -> list[list[float]]:
        """TTFTs of each set's prompts, all asked in turn."""
        ttfts: list[list[float]] = [[] for _ in sets]
        for _ in range(count):
            for prompts, found in zip(sets, ttfts):
                found += [self.ask(prompts, prompts.next(), "warm") for _ in list(prompts.left)]
        return ttfts

    def warm(self, sets: list[Prompts], count: int) -> list[list[float]]:
        """The same. Raises Void if less than COUNTED of all chunks came from the expected place."""
        time.sleep(LOG_LATE_S)  # earlier fetches are reported
        before, wanted = self.fetched_chunks(), count * sum(sum(prompts.chunks) for prompts in sets)
        ttfts = self.cycles(sets, count)
        time.sleep(LOG_LATE_S)
        brought = self.fetched_chunks() - before
        if brought != wanted:
            print(
                f"  {wanted - brought} of {wanted} chunks did not come from {self.place}",
                flush=True,
            )
        if not COUNTED * wanted <= brought <= wanted:
            raise Void(
                f"warm: {wanted - brought} of {wanted} chunks did not come from {self.place}"
            )
        return ttfts


def wait_on_disk(larderd: Larderd, chunks: int, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while (held := larderd.status()["disk"]["chunks"]) < chunks:
        if time.monotonic() > deadline:
            raise Void(f"the disk tier holds {held} of {chunks} chunks after {timeout_s:g} s")
        time.sleep(0.1)


def at_speed(
    bench: Bench, prompts: Prompts, throttle: Throttle | SlowLink, megabytes: float
) -> dict:
    """A row: the probes, then requests with Larder and without, in turn."""
    label = f"{megabytes:g} MB/s" if megabytes else "stalled"
    throttle.reads(int(megabytes * 1e6) or STALLED)
    probes = [bench.ask(prompts, prompts.next(), label) for _ in range(PROBES)]
    with_larder, without = [], []
    for _ in range(ROUNDS):
        i = prompts.next()
        with_larder.append(bench.ask(prompts, i, label))
        without.append(bench.ask(prompts, i, label, **OFF))
    throttle.reads(0)
    none_s = statistics.median(without)
    row = {
        "what": label,
        "part": "throttled",
        "probe_s": probes,
        "larder_s": with_larder,
        "none_s": without,
        "worst_probe_vs_none": max(probes) / none_s,
        "vs_none": statistics.median(with_larder) / none_s,
        "recovered_s": recover(bench, prompts, label),
        "partial_chunks": bench.compare_partial(prompts),
    }
    print(
        f"  {label:<10} probes {', '.join(f'{t:.3f}' for t in probes)} s   with "
        f"{statistics.median(with_larder):.3f} s   without "
        f"{none_s:.3f} s   {row['vs_none']:.3f} of it   used again after {row['recovered_s']:.0f} "
        f"s   right with so many chunks loaded: {row['partial_chunks']}",
        flush=True,
    )
    return row


def recover(bench: Bench, prompts: Prompts, label: str) -> float:
    """Seconds from the end of the throttle until a request is served from there in whole."""
    began = time.monotonic()
    time.sleep(LOG_LATE_S)
    while time.monotonic() - began < RECOVERY_S:
        asked_at, before, i = time.monotonic(), bench.fetched_chunks(), prompts.next()
        bench.ask(prompts, i, label)
        time.sleep(LOG_LATE_S)
        if bench.fetched_chunks() - before == prompts.chunks[i]:
            return asked_at - began
    raise Void(
        f"{label}: {bench.place} was not used again within {RECOVERY_S} s of the end of the "
        "throttle"
    )


def judge(
    cold: list[float],
    warm: list[float],
    throttled: list[dict],
    name: str = "ttft-disk",
    speedup: float = 10,
) -> list[dict]:
    found = [
        goals.goal(
            f"{name}.speedup", statistics.median(cold) / statistics.median(warm), ">=", speedup
        )
    ]
    if throttled:
        found.append(
            goals.goal(
                f"{name}.worst_vs_none", max(row["vs_none"] for row in throttled), "<=", 1.05
            )
        )
        found.append(
            goals.figure(
                f"{name}.worst_probe_vs_none", max(row["worst_probe_vs_none"] for row in throttled)
            )
        )
        found.append(
            goals.figure(f"{name}.slowest_recovery_s", max(row["recovered_s"] for row in throttled))
        )
    return found


def row_of(label: str, ttfts: list[float]) -> dict:
    row = {
        "what": label,
        "part": "plain",
        "median_s": statistics.median(ttfts),
        "worst_s": max(ttfts),
        "count": len(ttfts),
    }
    print(
        f"  {label:<32} {1e3 * row['median_s']:9.1f} ms   worst {1e3 * row['worst_s']:9.1f}   of "
        f"{len(ttfts)}",
        flush=True,
    )
    return row


def run(
    bench: Bench, larderd: Larderd, folder: pathlib.Path, speeds: list[float]
) -> tuple[list[dict], list[dict]]:
    long, short = Prompts(LONG, 1), Prompts(SHORT, 1000)
    cold = {name: bench.cold(prompts) for name, prompts in (("4096", long), ("1024", short))}
    none = [bench.ask(long, i, "no cache", **OFF) for i in range(len(LONG))]
    # at least the chunks evicted from memory
    wait_on_disk(larderd, sum(n // CHUNK_TOKENS for n in LONG))
    bench.cycles([long, short], 1)  # of the cold round something may be in memory yet: not counted
    if bench.partial:
        raise Void("disk-warm: at full speed only a part of a prompt came from the disk")
    warm = dict(zip(("4096", "1024"), bench.warm([long, short], WARM_CYCLES)))
    rows = [
        row_of("4096 tokens, cold", cold["4096"]),
        row_of("4096 tokens, opted out", none),
        row_of("4096 tokens, from the disk", warm["4096"]),
        row_of("1024 tokens, cold", cold["1024"]),
        row_of("1024 tokens, from the disk", warm["1024"]),
    ]
    throttled = []
    try:
        with Throttle(larderd.child.pid, folder) as throttle:
            throttled = [at_speed(bench, short, throttle, speed) for speed in speeds]
    except Unavailable as why:
        print(f"  not throttled: {why}")
    return rows + throttled, judge(cold["4096"], warm["4096"], throttled)


def main() -> int:
    started = time.monotonic()
    model = os.environ.get("MODEL") or str(demo_model(print))
    speeds = (
        [float(speed) for speed in os.environ["TTFT_DISK_SPEEDS"].split(",")]
        if "TTFT_DISK_SPEEDS" in os.environ
        else SPEEDS
    )
    folder = BUILD / "ttft-disk" / "disk"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    extra = f"disk:\n  path: {folder}\n  size: 2GiB\n"
    try:
        with Larderd(
            os.environ["LARDERD"],
            BUILD / "ttft-disk",
            f"larder-bench-{os.getpid()}",
            "256MiB",
            extra,
        ) as larderd:
            larderd.wait_ready()
            larderd.wait_touched(progress=print)
            env = engine_env(
                larderd.socket, os.environ["LARDER_LIBRARY"], VLLM_CPU_KVCACHE_SPACE="1"
            )
            arguments = [
                "--max-model-len",
                "4608",
                "--num-gpu-blocks-override",
                "40",
                "--enable-prompt-tokens-details",
            ]
            with VllmServer(
                "vLLM", model, NAME, env, BUILD / "vllm-disk.log", arguments=arguments
            ) as server:
                server.wait_ready(progress=print)
                for _ in range(2):
                    stream_completion(server.url, NAME, token_ids(1, 40), 2)
                rows, verdict = run(Bench(server, larderd), larderd, folder, speeds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    goals.conclude(BUILD / "ttft-disk.json", "ttft-disk", rows, verdict, started)
    return 0


if __name__ == "__main__":
    run_bench("bench-ttft-disk", main)
