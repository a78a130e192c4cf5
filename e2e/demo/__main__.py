"""make demo: one long prompt, three times: cold, warm from larderd, and warm in another engine that never saw it.

Environment: MODEL (a path or name; default: a small Llama made on the spot), LARDER_CACHE, LARDERD and LARDER_LIBRARY (set by
make). Ends all that it started, also on Ctrl-C. Exit status 0 when the continuations were identical and every whole chunk hit.
"""

from __future__ import annotations

import os
import pathlib
import time

from demo.model import demo_model
from demo.prompt import prompt_of
from harness import goals
from harness.bench import run
from harness.larderd import Larderd
from harness.vllm_server import VllmServer, engine_env
from larder import larderd_metrics, report
from larder.completions import reset_prefix_cache, stream_completion

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PROMPT_TOKENS = 4096 + 5
SERVED_NAME = "demo"
# KV for little more than one prompt: an engine in service has written all of its pages. Where one has not, some virtual machines take back
# those that hold nothing but the zeros of their making, and a load into them takes up to five times as long.
SMALL_KV = ["--max-model-len", "4608", "--num-gpu-blocks-override", "40"]


class Steps:
    """Prints numbered steps with the time since the start."""

    def __init__(self):
        self.started = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)


def ask(server: VllmServer, prompt: str):
    return stream_completion(server.url, SERVED_NAME, prompt, report.CONTINUATION)


def warm_up(server: VllmServer) -> None:
    """Another, short prompt: the first request after a start costs 0.2 s more than the next."""
    for _ in range(2):
        stream_completion(server.url, SERVED_NAME, "Larder keeps what was computed.", 2)


def measure(larderd: Larderd, model: str, arguments: list[str], step: Steps) -> report.Measured:
    """`arguments`: more of them for both engines."""
    env = engine_env(larderd.socket, os.environ["LARDER_LIBRARY"], VLLM_CPU_KVCACHE_SPACE="1")  # two engines fit into 8 GB
    prompt = prompt_of(model, PROMPT_TOKENS)
    step("starting vLLM with the Larder connector (about half a minute)")
    with VllmServer("vLLM", model, SERVED_NAME, env, BUILD / "demo" / "vllm.log", arguments=arguments) as first:
        first.wait_ready(progress=step)
        warm_up(first)
        step("asking a long prompt, cold (5 to 20 s on 2 cores)")
        cold = ask(first, prompt)
        step(f"first token after {cold.ttft_s:.3f} s; now resetting vLLM's own prefix cache and asking again")
        reset_prefix_cache(first.url)
        share = larderd_metrics.Share(larderd.metrics)
        warm = ask(first, prompt)
        share.wait()
        step(f"first token after {warm.ttft_s:.3f} s; starting a second vLLM on the same larderd")
        with VllmServer("second vLLM", model, SERVED_NAME, env, BUILD / "demo" / "vllm2.log", arguments=arguments) as second:
            second.wait_ready(progress=step)
            warm_up(second)
            other = ask(second, prompt)
            step(f"first token after {other.ttft_s:.3f} s")
    identical = cold.token_ids == warm.token_ids == other.token_ids and len(cold.token_ids) == report.CONTINUATION
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
        goals.goal("ttft.hit_tokens", m.hit_tokens, ">=", m.prompt_tokens // chunk_tokens * chunk_tokens),
        goals.figure("ttft.prompt_tokens", m.prompt_tokens),
    ]


def main() -> int:
    step = Steps()
    own = os.environ.get("MODEL")
    model = own or str(demo_model(step))
    step("starting larderd with 1 GiB of memory")
    with Larderd(os.environ["LARDERD"], BUILD / "demo", f"larder-demo-{os.getpid()}", size="1GiB") as larderd:
        larderd.wait_ready()
        larderd.wait_touched(progress=step)
        larderctl = pathlib.Path(os.environ["LARDERD"]).with_name("larderctl")
        step(f"watch it meanwhile: {os.path.relpath(larderctl)} --socket {os.path.relpath(larderd.admin_socket)} status")
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
