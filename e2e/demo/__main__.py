"""make demo: one long prompt, three times: cold, warm from larderd, and warm in another engine
without the prompt.

Environment: MODEL (a path or name; default: a small Llama made on the spot), REMOTE (redis or
mooncake: two nodes that share, remote.py), LARDER_CACHE, LARDERD and LARDER_LIBRARY (set by make).
Ends all started processes, also on Ctrl-C. Exit status 0 if the continuations were identical and
every whole chunk hit.
"""

from __future__ import annotations

import os
import pathlib
import sys

from demo import remote
from demo.stores import STORES
from demo.model import demo_model
from demo.prompt import prompt_of
from demo.steps import BUILD, PROMPT_TOKENS, SERVED_NAME, SMALL_KV, Steps, ask, warm_up
from harness import goals
from harness.bench import run
from harness.larderd import Larderd
from harness.vllm_server import VllmServer, engine_env
from larder import larderd_metrics, report
from larder.completions import reset_prefix_cache


def measure(larderd: Larderd, model: str, arguments: list[str], step: Steps) -> report.Measured:
    """`arguments`: more arguments for both engines."""
    # two engines fit into 8 GB
    env = engine_env(larderd.socket, os.environ["LARDER_LIBRARY"], VLLM_CPU_KVCACHE_SPACE="1")
    prompt = prompt_of(model, PROMPT_TOKENS)
    step("starting vLLM with the Larder connector (about half a minute)")
    with VllmServer(
        "vLLM", model, SERVED_NAME, env, BUILD / "demo" / "vllm.log", arguments=arguments
    ) as first:
        first.wait_ready(progress=step)
        warm_up(first)
        step("asking a long prompt, cold (5 to 20 s on 2 cores)")
        cold = ask(first, prompt)
        step(
            f"first token after {cold.ttft_s:.3f} s; "
            "now resetting vLLM's own prefix cache and asking again"
        )
        reset_prefix_cache(first.url)
        share = larderd_metrics.Share(larderd.metrics)
        warm = ask(first, prompt)
        share.wait()
        step(f"first token after {warm.ttft_s:.3f} s; starting a second vLLM on the same larderd")
        with VllmServer(
            "second vLLM",
            model,
            SERVED_NAME,
            env,
            BUILD / "demo" / "vllm2.log",
            arguments=arguments,
        ) as second:
            second.wait_ready(progress=step)
            warm_up(second)
            other = ask(second, prompt)
            step(f"first token after {other.ttft_s:.3f} s")
    identical = (
        cold.token_ids == warm.token_ids == other.token_ids
        and len(cold.token_ids) == report.CONTINUATION
    )
    return report.Measured(
        prompt_tokens=cold.prompt_tokens,
        hit_tokens=share.tokens_hit(),
        cold_s=cold.ttft_s,
        warm_s=warm.ttft_s,
        identical=identical,
        share_ms=share.milliseconds(),
        second_engine_s=other.ttft_s,
    )


def judge(m: report.Measured, chunk_tokens: int) -> list[dict]:
    return [
        goals.goal("ttft.speedup_4k", m.cold_s / m.warm_s, ">=", 100),
        goals.goal("ttft.larder_ms", sum(m.share_ms.values()), "<=", 12),
        goals.goal("ttft.second_engine_ms", 1e3 * m.second_engine_s, "<=", 120),
        goals.goal(
            "ttft.hit_tokens", m.hit_tokens, ">=", m.prompt_tokens // chunk_tokens * chunk_tokens
        ),
        goals.figure("ttft.prompt_tokens", m.prompt_tokens),
    ]


def main() -> int:
    step = Steps()
    own = os.environ.get("MODEL")
    where = os.environ.get("REMOTE", "")
    if where and where not in STORES:
        sys.exit(f"demo: REMOTE={where} is not known: {', '.join(STORES)}, or nothing")
    model = own or str(demo_model(step))
    if where:
        return remote.main(where, model, bool(own), step)
    step("starting larderd with 1 GiB of memory")
    with Larderd(
        os.environ["LARDERD"], BUILD / "demo", f"larder-demo-{os.getpid()}", size="1GiB"
    ) as larderd:
        larderd.wait_ready()
        larderd.wait_touched(progress=step)
        larderctl = pathlib.Path(os.environ["LARDERD"]).with_name("larderctl")
        step(
            f"watch larderd meanwhile: {os.path.relpath(larderctl)} --socket "
            f"{os.path.relpath(larderd.admin_socket)} status"
        )
        measured = measure(larderd, model, [] if own else SMALL_KV, step)
        chunk_tokens = larderd.chunk_tokens()
    print(report.text(measured))
    verdict = judge(measured, chunk_tokens)
    goals.print_goals(verdict)
    goals.write(BUILD / "demo.json", "demo", [vars(measured)], verdict)
    print(f"\n  written to {os.path.relpath(BUILD / 'demo.json')}")
    return 0 if measured.identical and verdict[3]["met"] else 1


if __name__ == "__main__":
    run("demo", main)
