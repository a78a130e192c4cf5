"""make bench-serve: users of a small model with too little KV cache: vLLM alone, with Larder, with
LMCache.

Three vLLM servers with 7,168 tokens of KV each, alive side by side, busy one at a time. A part is a
scenario with a number of users (serve_load.py). Each arm gets SERVE_SECONDS of a part (default 120)
in two slices, taking turns; the engine's own cache is emptied before each slice.
SERVE_PARTS=chat-8,... runs some parts and keeps the other rows of the existing report; a run
shorter than 120 s is marked. The whole takes 40 minutes of a machine without other work.

Goals are for 8 users, for whom the KV cache is too small; one user's chat fits into the cache, so
there is no gain. Before the timing, each arm answers one prompt cold and warm, and all answers must
have the same tokens. Environment: that of bench-rivals."""

from __future__ import annotations

import contextlib
import datetime
import os
import statistics
import sys
import time
from dataclasses import dataclass, field

from engine_model import small_model
from harness import goals
from harness.bench import Void
from harness.bench import run as run_bench
from harness.vllm_server import REST_S, VllmServer
from larder.completions import hit_tokens, reset_prefix_cache, stream_completion
from rivals_arms import BUILD, NAME, Arm, both
from rivals_ttft import token_ids
from serve_load import SCENARIOS, Seen, run_users

FULL_SECONDS = 120
SECONDS = float(os.environ.get("SERVE_SECONDS", FULL_SECONDS))
SLICES = 2
USERS = [1, 8]
PARTS = [f"{scenario}-{users}" for scenario in SCENARIOS for users in USERS]
KV_BLOCKS = 56  # of 128 tokens
CHECK_TOKENS = 1024


@dataclass
class Measured:
    """One arm's slices of a part."""

    slices: list[Seen] = field(default_factory=list)
    own_hits: int = 0
    cache_hits: int = 0


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def run_slice(
    server: VllmServer, measured: Measured, scenario: str, users: int, seconds: float, seed: str
) -> None:
    time.sleep(REST_S)
    reset_prefix_cache(server.url)
    own, external = hit_tokens(server.url)
    seen = run_users(server.url, NAME, scenario, users, seconds, seed)
    if seen.broken:
        raise Void(f"{server.name}, {scenario} of {users}: {seen.broken[0]}")
    after = hit_tokens(server.url)
    measured.slices.append(seen)
    measured.own_hits += int(after[0] - own)
    measured.cache_hits += int(after[1] - external)


def run_part(servers: dict[str, VllmServer], part: str, s_per_token: float) -> list[dict]:
    scenario, users = part.rsplit("-", 1)
    measured = {name: Measured() for name in servers}
    order = list(servers)
    for number in range(SLICES):
        for name in order:
            run_slice(
                servers[name],
                measured[name],
                scenario,
                int(users),
                SECONDS / SLICES,
                f"{part} {number}",
            )
        order = order[1:] + order[:1]
    rows = [row_of(part, name, each, s_per_token) for name, each in measured.items()]
    for row in rows:
        print(
            f"  {part:<11} {row['what']:<8} TTFT p50 {row['ttft_p50_s']:7.3f} s, p99 "
            f"{row['ttft_p99_s']:7.3f} s; "
            f"{row['tokens_per_s']:7.1f} tokens/s; {row['requests']:4} requests; hits "
            f"{row['own_hit_tokens']} own, "
            f"{row['cache_hit_tokens']} cache; prefill saved {row['prefill_saved_s']:.1f} s",
            flush=True,
        )
    return rows


def row_of(part: str, name: str, measured: Measured, s_per_token: float) -> dict:
    ttfts = [ttft for seen in measured.slices for ttft in seen.ttfts]
    seconds = sum(seen.seconds for seen in measured.slices)
    return {
        "part": part,
        "what": name,
        "seconds": seconds,
        "full": SECONDS >= FULL_SECONDS,
        "requests": len(ttfts),
        "ttft_p50_s": statistics.median(ttfts),
        "ttft_p99_s": percentile(ttfts, 0.99),
        "tokens_per_s": sum(seen.answer_tokens for seen in measured.slices) / seconds,
        "prompt_tokens": sum(seen.prompt_tokens for seen in measured.slices),
        "own_hit_tokens": measured.own_hits,
        "cache_hit_tokens": measured.cache_hits,
        "prefill_saved_s": measured.cache_hits * s_per_token,
    }


def check_answers(servers: dict[str, VllmServer]) -> float:
    """Cold and warm answers of all arms are the same tokens. Returns vLLM's seconds a prompt token
    without hits."""
    answers = {}
    for name, server in servers.items():
        for seed in (1, 2):
            stream_completion(server.url, NAME, token_ids(seed, 40), 2)
        answers[name, "cold"] = stream_completion(
            server.url, NAME, token_ids(3, CHECK_TOKENS), 16
        ).token_ids
        time.sleep(2)  # stored behind the answer
        reset_prefix_cache(server.url)
        before = hit_tokens(server.url)[1]
        answers[name, "warm"] = stream_completion(
            server.url, NAME, token_ids(3, CHECK_TOKENS), 16
        ).token_ids
        if name != "alone" and hit_tokens(server.url)[1] - before < CHECK_TOKENS / 2:
            raise Void(f"{name}: a prompt that was asked before does not hit")
    for key, answer in answers.items():
        if answer != answers["alone", "cold"]:
            raise Void(f"the {key[1]} answer of the arm {key[0]} differs from vLLM's alone")
    times = [
        stream_completion(servers["alone"].url, NAME, token_ids(seed, CHECK_TOKENS), 1).ttft_s
        for seed in (4, 5, 6)
    ]
    return statistics.median(times) / CHECK_TOKENS


def judge(rows: list[dict]) -> list[dict]:
    parts: dict[str, dict[str, dict]] = {}
    for row in rows:
        parts.setdefault(row["part"], {})[row["what"]] = row
    verdict = []
    if "chat-8" in parts:
        alone, larder = parts["chat-8"]["alone"], parts["chat-8"]["larder"]
        verdict.append(
            goals.goal("serve.ttft_p50_factor", alone["ttft_p50_s"] / larder["ttft_p50_s"], ">=", 3)
        )
        verdict.append(
            goals.goal(
                "serve.tokens_per_s_factor",
                larder["tokens_per_s"] / alone["tokens_per_s"],
                ">=",
                1.5,
            )
        )
    if parts:
        worst = max(
            arms["larder"]["ttft_p99_s"] / arms["lmcache"]["ttft_p99_s"] for arms in parts.values()
        )
        verdict.append(goals.goal("serve.vs_lmcache_ttft_p99", worst, "<=", 1.0))
    for part, arms in parts.items():
        name = f"serve.{part.replace('-', '_')}"
        verdict.append(
            goals.figure(
                f"{name}_ttft_p50_factor",
                arms["alone"]["ttft_p50_s"] / arms["larder"]["ttft_p50_s"],
            )
        )
        verdict.append(
            goals.figure(
                f"{name}_tokens_per_s_factor",
                arms["larder"]["tokens_per_s"] / arms["alone"]["tokens_per_s"],
            )
        )
        verdict.append(
            goals.figure(
                f"{name}_vs_lmcache_ttft_p50",
                arms["larder"]["ttft_p50_s"] / arms["lmcache"]["ttft_p50_s"],
            )
        )
        verdict.append(
            goals.figure(
                f"{name}_vs_lmcache_ttft_p99",
                arms["larder"]["ttft_p99_s"] / arms["lmcache"]["ttft_p99_s"],
            )
        )
    return verdict


def measure(parts: list[str], model: str) -> None:
    report = BUILD / "serve.json"
    arguments = ["--num-gpu-blocks-override", str(KV_BLOCKS), "--max-model-len", "4096"]
    with both("serve") as arms, contextlib.ExitStack() as stack:
        arms = {"alone": Arm("alone", None, None), **arms}
        servers = {
            name: stack.enter_context(arm.engine(model, "serve", arguments))
            for name, arm in arms.items()
        }
        for server in servers.values():
            server.wait_ready(progress=print)
        s_per_token = check_answers(servers)
        print(
            f"  vLLM alone computes {1 / s_per_token:.0f} prompt tokens a second; "
            f"{SECONDS:g} s an arm, in {SLICES} slices"
            + (
                ""
                if SECONDS >= FULL_SECONDS
                else f": a short run, the goals are meant for {FULL_SECONDS} s"
            ),
            flush=True,
        )
        for part in parts:
            measured = run_part(servers, part, s_per_token)
            now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            rows = goals.kept_rows(report, {part}) + [{**row, "date": now} for row in measured]
            goals.write(report, "serve", rows, judge(rows))


def main() -> int:
    started = time.monotonic()
    parts = [part for part in os.environ.get("SERVE_PARTS", ",".join(PARTS)).split(",") if part]
    unknown = set(parts) - set(PARTS)
    if unknown:
        print(
            f"bench-serve: unknown part {sorted(unknown)[0]}; known: {', '.join(PARTS)}",
            file=sys.stderr,
        )
        return 1
    measure(parts, small_model())
    rows = goals.kept_rows(BUILD / "serve.json", set())
    goals.print_goals(judge(rows))
    if not all(row["full"] for row in rows):
        print(f"  some rows are of short runs (less than {FULL_SECONDS} s an arm)")
    print(
        f"  {time.monotonic() - started:.0f} s; written to {os.path.relpath(BUILD / 'serve.json')}"
    )
    return 0


if __name__ == "__main__":
    run_bench("bench-serve", main)
