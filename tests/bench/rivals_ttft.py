"""Parts "ttft" and "second" of bench-rivals: warm time to first token on one engine an arm, and the
first query of another engine."""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import time

from harness.bench import Void
from harness.vllm_server import REST_S, VllmServer
from larder.completions import hit_tokens, reset_prefix_cache, stream_completion
from rivals_arms import NAME, Arm, both

WARM_ROUNDS = 9
LENGTHS = [512, 2048, 4096]
SECOND_TOKENS = 4096
SECOND_STARTS = int(os.environ.get("RIVALS_STARTS", "2"))
CONTINUATION = 8
VOCABULARY = 32000
LMCACHE_CHUNK = 256


def token_ids(seed: int, count: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(3, VOCABULARY) for _ in range(count)]


class Asked:
    """An engine of an arm, and its answers."""

    def __init__(self, arm: Arm, server: VllmServer):
        self.arm, self.server = arm, server
        self.expected: dict[int, list[int]] = {}

    def warm_up(self) -> None:
        for seed in (1, 2):
            stream_completion(self.server.url, NAME, token_ids(seed, 40), 2)

    def cold(self, length: int) -> float:
        answer = stream_completion(self.server.url, NAME, token_ids(length, length), CONTINUATION)
        self.expected[length] = answer.token_ids
        time.sleep(2)  # both store behind the answer
        return answer.ttft_s

    def warm(self, length: int, expected: list[int]) -> tuple[float, int]:
        """(TTFT, tokens from the arm's cache). Void unless nearly all tokens came from there, and
        the answer equals the cold one."""
        time.sleep(REST_S)
        reset_prefix_cache(self.server.url)
        before = hit_tokens(self.server.url)[1]
        answer = stream_completion(self.server.url, NAME, token_ids(length, length), CONTINUATION)
        hit = int(hit_tokens(self.server.url)[1] - before)
        if hit <= length - LMCACHE_CHUNK:
            raise Void(f"{self.arm.name}: only {hit} of {length} tokens hit")
        if answer.token_ids != expected:
            raise Void(
                f"{self.arm.name}: the warm continuation of {length} tokens differs from the cold "
                "one"
            )
        return answer.ttft_s, hit


@contextlib.contextmanager
def engines(arms: dict[str, Arm], model: str, log_name: str):
    """One engine an arm, ready and warmed up."""
    with contextlib.ExitStack() as stack:
        asked = {
            name: Asked(arm, stack.enter_context(arm.engine(model, log_name)))
            for name, arm in arms.items()
        }
        for one in asked.values():
            one.server.wait_ready(progress=print)
            one.warm_up()
        yield asked


def run_ttft(model: str) -> list[dict]:
    rows = []
    with both("ttft") as arms, engines(arms, model, "ttft") as asked:
        for length in LENGTHS:
            cold = {name: one.cold(length) for name, one in asked.items()}
            warm: dict[str, list[float]] = {name: [] for name in asked}
            hits = {}
            for number in range(WARM_ROUNDS):
                for name in (list(asked), list(asked)[::-1])[number % 2]:
                    ttft, hits[name] = asked[name].warm(length, asked[name].expected[length])
                    warm[name].append(ttft)
            row = {"part": "ttft", "what": f"{length} tokens"}
            for name in asked:
                row |= {
                    f"{name}_cold_s": cold[name],
                    f"{name}_warm_s": statistics.median(warm[name]),
                    f"{name}_warm_worst_s": max(warm[name]),
                    f"{name}_hit_tokens": hits[name],
                }
            row["ratio"] = row["larder_warm_s"] / row["lmcache_warm_s"]
            rows.append(row)
            each = ", ".join(
                f"{name} {1e3 * row[f'{name}_warm_s']:.1f} ms (worst "
                f"{1e3 * row[f'{name}_warm_worst_s']:.1f}, "
                f"cold {row[f'{name}_cold_s']:.2f} s, hit {hits[name]})"
                for name in asked
            )
            print(f"  warm TTFT, {length:5} tokens: {each}, ratio {row['ratio']:.2f}", flush=True)
    return rows


def run_second(model: str) -> list[dict]:
    """Engines of each arm that never saw the prompt, started one after the other; after two short
    prompts, the first long one of each."""
    ttfts: dict[str, list[float]] = {"larder": [], "lmcache": []}
    with both("second") as arms:
        with engines(arms, model, "first") as asked:
            expected = {}
            for name, one in asked.items():
                one.cold(SECOND_TOKENS)
                expected[name] = one.expected[SECOND_TOKENS]
        for _ in range(SECOND_STARTS):
            for name, arm in arms.items():
                with engines({name: arm}, model, "second") as asked:
                    ttft, _ = asked[name].warm(SECOND_TOKENS, expected[name])
                    ttfts[name].append(ttft)
    row = {"part": "second", "what": f"first query of another engine, {SECOND_TOKENS} tokens"}
    row |= {f"{name}_s": statistics.median(values) for name, values in ttfts.items()} | {
        f"{n}_all_s": v for n, v in ttfts.items()
    }
    row["ratio"] = row["larder_s"] / row["lmcache_s"]
    print(
        f"  first query of another engine: Larder {1e3 * row['larder_s']:.1f} ms "
        f"{ttfts['larder']}, "
        f"LMCache {1e3 * row['lmcache_s']:.1f} ms {ttfts['lmcache']}, ratio {row['ratio']:.2f}",
        flush=True,
    )
    return [row]
