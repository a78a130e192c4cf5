"""make bench-ttft: time to first token through vLLM's OpenAI server, cold and from larderd.

The demo's model. One cold and nine warm rounds for each prompt; vLLM's own prefix cache is reset
before every warm round. A warm round counts only if larderd counted every whole chunk of its
prompts as hit. The continuation must also equal, token for token, that of a hit in vLLM's own
prefix cache. Any other result ends the bench with status 1 and one line with the reason.

Warm rounds are not compared with the cold one. The batches after a hit differ from those of the
cold prompt, and in bfloat16 this alone may give other tokens on some processors. For the same
reason no prompt has whole chunks. After its own hit vLLM computes the last block of such a prompt
again, after Larder's hit only the last token. A goal over several rows is that of the worst row.
A model with recurrent states runs beside the demo's, in turns (hybrid_turns).
Environment: that of the demo.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import time

import hybrid_turns
from demo.model import demo_model
from harness import goals
from harness.bench import Void
from harness.bench import run as run_bench
from harness.larderd import Larderd
from harness.vllm_server import VllmServer, engine_env
from larder.completions import reset_prefix_cache, stream_completion
from ttft_rounds import (
    CONTINUATION,
    NAME,
    Warm,
    ask_all,
    own_hit,
    stored_chunks,
    token_ids,
    wait_stored,
    whole_chunks,
    write_all_pages,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
WARM_ROUNDS = 9
LENGTHS = [1024 + 1, 2048 + 1, 4096 + 1, 8192 + 1, 1024 + 127, 1024 + 255]
AT_ONCE = [1, 4, 16]


def measure(
    server: VllmServer, larderd: Larderd, label: str, prompts: list[list[int]], exact: bool
) -> dict:
    """A row: one cold round, then the medians of the warm rounds, over the slowest request of
    each."""
    before = stored_chunks(larderd)
    cold_ttfts, _ = ask_all(server, prompts)
    wait_stored(larderd, label, before + whole_chunks(prompts))
    expected = own_hit(server, label, prompts[0]).token_ids if exact else []
    warm, share_ms = [], []
    for _ in range(WARM_ROUNDS):
        reset_prefix_cache(server.url)
        warm_round = Warm(larderd, label, prompts)
        ttfts, tokens = ask_all(server, prompts)
        if exact and tokens != [expected]:
            raise Void(
                f"{label}: the warm continuation differs from the one of a hit in vLLM's own cache"
            )
        warm.append(max(ttfts))
        share_ms.append(warm_round.check())
    row = {
        "what": label,
        "cold_s": max(cold_ttfts),
        "warm_s": statistics.median(warm),
        "warm_worst_s": max(warm),
        "larder_ms": statistics.median(share_ms) / len(prompts),
    }
    row["speedup"] = row["cold_s"] / row["warm_s"]
    print(
        f"  {label:<24} cold {row['cold_s']:8.3f} s   warm {1e3 * row['warm_s']:8.1f} ms (worst "
        f"{1e3 * row['warm_worst_s']:.1f})   "
        f"{row['speedup']:6.0f}x   Larder {row['larder_ms']:.1f} ms",
        flush=True,
    )
    return row


def floor_ttft(server: VllmServer) -> float:
    """Median TTFT of a prompt of one token: the engine's cost without any prompt."""
    ttfts = []
    for _ in range(WARM_ROUNDS):
        reset_prefix_cache(server.url)
        ttfts.append(stream_completion(server.url, NAME, [7], CONTINUATION).ttft_s)
    return statistics.median(ttfts)


def first_queries(
    larderd: Larderd, model: str, env: dict, prompts: list[list[int]], expected: dict
) -> float:
    """The slowest of a second engine's first queries of each prompt, in seconds."""
    ttfts = []
    with VllmServer("second vLLM", model, NAME, env, BUILD / "vllm2.log") as second:
        second.wait_ready(progress=print)
        for _ in range(2):
            stream_completion(second.url, NAME, token_ids(1, 40), 2)
        for i, prompt in enumerate(prompts):
            first_query = Warm(larderd, "second engine", [prompt])
            answer = stream_completion(second.url, NAME, prompt, CONTINUATION)
            if answer.token_ids != expected[i]:
                raise Void("the second engine's continuation differs from the first's")
            first_query.check()
            ttfts.append(answer.ttft_s)
    print(f"  second engine's first queries: {', '.join(f'{1e3 * t:.1f}' for t in ttfts)} ms")
    return max(ttfts)


def judge(rows: list[dict], floor_s: float, second_s: float, hybrid: list[dict]) -> list[dict]:
    four = next(row for row in rows if row["what"] == "4097 tokens")
    return [
        goals.goal("ttft.speedup_4k", four["speedup"], ">=", 100),
        goals.goal("ttft.larder_ms", max(row["larder_ms"] for row in rows), "<=", 12),
        goals.goal("ttft.second_engine_ms", 1e3 * second_s, "<=", 120),
        goals.goal("ttft.over_one_token_ms", 1e3 * (four["warm_s"] - floor_s), "<=", 30),
        *hybrid,
    ]


def run(larderd: Larderd, model: str, hybrid: str | None) -> tuple[list[dict], list[dict]]:
    env = engine_env(larderd.socket, os.environ["LARDER_LIBRARY"])
    with VllmServer(
        "vLLM", model, NAME, env, BUILD / "vllm.log", arguments=["--enable-prompt-tokens-details"]
    ) as server:
        server.wait_ready(progress=print)
        for _ in range(2):
            stream_completion(server.url, NAME, token_ids(1, 40), 2)
        write_all_pages(server, larderd)
        rows = [
            measure(server, larderd, f"{n} tokens", [token_ids(n, n)], exact=True) for n in LENGTHS
        ]
        # Simultaneous requests are batched by arrival, so the tokens may differ by rounding.
        rows += [
            measure(
                server,
                larderd,
                f"{n} x 513 tokens",
                [token_ids(1000 * n + i, 513) for i in range(n)],
                exact=n == 1,
            )
            for n in AT_ONCE
        ]
        floor_s = floor_ttft(server)
        fours = [token_ids(4097, 4097)]
        stream_completion(server.url, NAME, fours[0], 1)
        expected = {0: own_hit(server, "second engine", fours[0]).token_ids}
        print(f"  a prompt of one token: {1e3 * floor_s:.1f} ms")
        hybrid_rows, of_hybrid = [], []
        if hybrid is not None:
            hybrid_rows, of_hybrid = hybrid_turns.take_turns(
                larderd, server, hybrid, env, BUILD, WARM_ROUNDS
            )
    second_s = first_queries(larderd, model, env, fours, expected)
    return rows + hybrid_rows, judge(rows, floor_s, second_s, of_hybrid)


def main() -> int:
    started = time.monotonic()
    own = os.environ.get("MODEL")  # a model of the user's has no hybrid of its size
    model = own or str(demo_model(print))
    hybrid = None if own else hybrid_turns.hybrid_model(model)
    with Larderd(os.environ["LARDERD"], BUILD / "ttft", f"larder-bench-{os.getpid()}") as larderd:
        larderd.wait_ready()
        larderd.wait_touched(progress=print)
        rows, verdict = run(larderd, model, hybrid)
    goals.conclude(BUILD / "ttft.json", "ttft", rows, verdict, started)
    return 0


if __name__ == "__main__":
    run_bench("bench-ttft", main)
