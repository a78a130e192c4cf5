"""make bench-ttft: time to first token through vLLM's OpenAI server, cold and from larderd.

The demo's model. One cold and nine warm rounds a prompt; vLLM's own prefix cache is reset before every warm round. A warm round counts
only if its continuation equals the cold one's, token for token; a difference ends the bench with status 1.
Environment: as the demo's.
"""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import random
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
from demo.model import demo_model
from harness import goals
from harness.larderd import Larderd
from harness.vllm_server import VllmServer, engine_env
from larder import larderd_metrics
from larder.completions import reset_prefix_cache, stream_completion

BUILD = ROOT / "build" / "bench"
NAME = "demo"
WARM_ROUNDS = 9
CONTINUATION = 8
VOCABULARY = 32000
LENGTHS = [1024, 2048, 4096, 8192, 1024 + 1, 1024 + 127, 1024 + 255]
AT_ONCE = [1, 4, 16]


class WrongTokens(RuntimeError):
    """A warm continuation differed from the cold one."""


def token_ids(seed: int, count: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(3, VOCABULARY) for _ in range(count)]


def ask_all(server: VllmServer, prompts: list[list[int]]) -> tuple[list[float], list[list[int]]]:
    """TTFTs in seconds and continuations of requests sent at once."""
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(pool.map(lambda p: stream_completion(server.url, NAME, p, CONTINUATION), prompts))
    return [a.ttft_s for a in answers], [a.token_ids for a in answers]


def measure(server: VllmServer, larderd: Larderd, label: str, prompts: list[list[int]], exact: bool) -> dict:
    """A row: one cold round, then the medians of the warm ones, over the slowest request of each round."""
    cold_ttfts, expected = ask_all(server, prompts)
    warm, share_ms = [], []
    for _ in range(WARM_ROUNDS):
        reset_prefix_cache(server.url)
        share = larderd_metrics.Share(larderd.metrics)
        ttfts, tokens = ask_all(server, prompts)
        if exact and tokens != expected:
            raise WrongTokens(f"{label}: the warm continuation differs from the cold one")
        warm.append(max(ttfts))
        share.wait(loads=len(prompts))
        share_ms.append(sum(share.milliseconds().values()))
    row = {"what": label, "cold_s": max(cold_ttfts), "warm_s": statistics.median(warm), "warm_worst_s": max(warm),
           "larder_ms": statistics.median(share_ms) / len(prompts)}
    row["speedup"] = row["cold_s"] / row["warm_s"]
    print(f"  {label:<24} cold {row['cold_s']:8.3f} s   warm {1e3 * row['warm_s']:8.1f} ms (worst {1e3 * row['warm_worst_s']:.1f})   "
          f"{row['speedup']:6.0f}x   Larder {row['larder_ms']:.1f} ms", flush=True)
    return row


def floor_ttft(server: VllmServer) -> float:
    """Median TTFT of a prompt of one token: what the engine costs without any prompt."""
    ttfts = []
    for _ in range(WARM_ROUNDS):
        reset_prefix_cache(server.url)
        ttfts.append(stream_completion(server.url, NAME, [7], CONTINUATION).ttft_s)
    return statistics.median(ttfts)


def first_queries(larderd: Larderd, model: str, env: dict, prompts: list[list[int]], expected: dict) -> float:
    """The slowest of a second engine's first queries of each prompt, in seconds."""
    ttfts = []
    with VllmServer("second vLLM", model, NAME, env, BUILD / "vllm2.log") as second:
        second.wait_ready(progress=print)
        for _ in range(2):
            stream_completion(second.url, NAME, token_ids(1, 40), 2)
        for i, prompt in enumerate(prompts):
            answer = stream_completion(second.url, NAME, prompt, CONTINUATION)
            if answer.token_ids != expected[i]:
                raise WrongTokens("the second engine's continuation differs from the first's")
            ttfts.append(answer.ttft_s)
    print(f"  second engine's first queries: {', '.join(f'{1e3 * t:.1f}' for t in ttfts)} ms")
    return max(ttfts)


def run(larderd: Larderd, model: str) -> tuple[list[dict], list[dict]]:
    env = engine_env(larderd.socket, os.environ["LARDER_LIBRARY"])
    with VllmServer("vLLM", model, NAME, env, BUILD / "vllm.log") as server:
        server.wait_ready(progress=print)
        for _ in range(2):
            stream_completion(server.url, NAME, token_ids(1, 40), 2)
        rows = [measure(server, larderd, f"{n} tokens", [token_ids(n, n)], exact=True) for n in LENGTHS]
        # Requests at once are batched differently cold and warm, so that their tokens may differ by rounding.
        rows += [measure(server, larderd, f"{n} x 512 tokens", [token_ids(100 * n + i, 512) for i in range(n)], exact=n == 1)
                 for n in AT_ONCE]
        floor_s = floor_ttft(server)
        fours = [token_ids(4096, 4096)]
        expected = {0: stream_completion(server.url, NAME, fours[0], CONTINUATION).token_ids}
        print(f"  a prompt of one token: {1e3 * floor_s:.1f} ms")
    second_s = first_queries(larderd, model, env, fours, expected)
    four = next(row for row in rows if row["what"] == "4096 tokens")
    return rows, [
        goals.goal("ttft.speedup_4k", four["speedup"], ">=", 100),
        goals.goal("ttft.larder_ms", four["larder_ms"], "<=", 12),
        goals.goal("ttft.second_engine_ms", 1e3 * second_s, "<=", 120),
        goals.goal("ttft.over_one_token_ms", 1e3 * (four["warm_s"] - floor_s), "<=", 30),
    ]


def main() -> int:
    started = time.monotonic()
    model = os.environ.get("MODEL") or str(demo_model(print))
    with Larderd(os.environ["LARDERD"], BUILD / "ttft", f"larder-bench-{os.getpid()}") as larderd:
        larderd.wait_ready()
        larderd.wait_touched(progress=print)
        try:
            rows, verdict = run(larderd, model)
        except WrongTokens as error:
            print(f"bench-ttft: WRONG: {error}", file=sys.stderr)
            return 1
    goals.print_goals(verdict)
    goals.write(BUILD / "ttft.json", "ttft", rows, verdict)
    print(f"  {time.monotonic() - started:.0f} s; written to {os.path.relpath(BUILD / 'ttft.json')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
