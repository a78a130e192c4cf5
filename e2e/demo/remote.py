"""make demo REMOTE=redis: two nodes that share through one Redis, on one machine.

A larderd and a vLLM each; the demo starts Redis itself. The first node computes a long prompt. The
second node, which never saw the prompt and has an empty memory, loads the KV from Redis, and then
from its own memory."""

from __future__ import annotations

import contextlib
import os
import pathlib

from demo.steps import BUILD, PROMPT_TOKENS, SMALL_KV, Steps, ask, warm_up
from demo.prompt import prompt_of
from harness import goals
from harness.larderd import Larderd
from harness.redis import RedisServer
from harness.vllm_server import VllmServer, engine_env
from larder import report
from larder.completions import hit_tokens, reset_prefix_cache

FOLDER = BUILD / "demo" / "remote"


def node(number: int, redis: RedisServer, size: str = "1GiB") -> Larderd:
    """Two larderd share by the prefix."""
    extra = f"backend:\n  url: {redis.url}\n  prefix: demo\n"
    return Larderd(
        os.environ["LARDERD"],
        FOLDER / f"node{number}",
        f"larder-demo-{os.getpid()}-{number}",
        size,
        extra,
    )


def engine(number: int, larderd: Larderd, model: str, arguments: list[str]) -> VllmServer:
    env = engine_env(larderd.socket, os.environ["LARDER_LIBRARY"], VLLM_CPU_KVCACHE_SPACE="1")
    return VllmServer(
        f"vLLM of node {number}",
        model,
        "demo",
        env,
        FOLDER / f"vllm{number}.log",
        arguments=arguments,
    )


def compute(
    first: Larderd, redis: RedisServer, model: str, arguments: list[str], prompt: str, step: Steps
):
    """The cold answer, once Redis has all of the prompt; and how many tokens a chunk has."""
    step("starting vLLM on node 1 (about half a minute)")
    with engine(1, first, model, arguments) as server:
        server.wait_ready(progress=step)
        warm_up(server)
        step("asking a long prompt, cold (5 to 20 s on 2 cores)")
        cold = ask(server, prompt)
    chunk_tokens = first.chunk_tokens()
    step(f"first token after {cold.ttft_s:.3f} s; waiting until Redis has the chunks")
    redis.wait_settled(cold.prompt_tokens // chunk_tokens)
    return cold, chunk_tokens


def load(second: Larderd, model: str, arguments: list[str], prompt: str, step: Steps):
    """(the answer from Redis, the one from memory, tokens hit in each)."""
    step("starting vLLM on node 2, with an empty larderd")
    with engine(2, second, model, arguments) as server:
        server.wait_ready(progress=step)
        warm_up(server)
        answers, hits = [], []
        for place in ("Redis", "memory"):
            before = hit_tokens(server.url)[1]
            answers.append(ask(server, prompt))
            hits.append(int(hit_tokens(server.url)[1] - before))
            step(f"first token after {answers[-1].ttft_s:.3f} s, from {place}")
            reset_prefix_cache(server.url)
    return *answers, hits


def verdict_on_tokens(identical: bool, hit: int, whole: int) -> str:
    """With a loaded part, the prefill has another split than the cold one, and in bfloat16 the
    split alone may change tokens. No comparison is possible then. Each loaded chunk is verified by
    its checksum all the same."""
    if identical:
        return "identical in all three"
    if hit >= whole:
        return "DIFFERENT"
    return (
        f"not comparable: {whole - hit} tokens came too late and were computed, which rounds "
        "otherwise (bytes loaded are verified)"
    )


def text(cold, remote, memory, hits: list[int], whole: int, identical: bool) -> str:
    def faster(answer) -> str:
        return f"{answer.ttft_s:.3f} s   {cold.ttft_s / answer.ttft_s:.0f} times faster"

    rows = [
        ("tokens in the prompt", cold.prompt_tokens),
        ("tokens from Redis", f"{hits[0]} of {whole}"),
        ("TTFT cold, node 1", f"{cold.ttft_s:.3f} s"),
        ("TTFT Redis, node 2", faster(remote)),
        ("TTFT memory, node 2", faster(memory)),
        (f"{report.CONTINUATION} tokens that follow", verdict_on_tokens(identical, hits[0], whole)),
    ]
    lines = [f"  {label:<22} {value}" for label, value in rows]
    bars = report.bars(
        [("cold", cold.ttft_s), ("from Redis", remote.ttft_s), ("from memory", memory.ttft_s)]
    )
    return "\n".join(["", *lines, "", bars, ""])


def main(model: str, own: bool, step: Steps) -> int:
    arguments = [] if own else SMALL_KV
    prompt = prompt_of(model, PROMPT_TOKENS)
    with contextlib.ExitStack() as stack:
        step("starting Redis and two larderd with 1 GiB of memory each")
        redis = stack.enter_context(RedisServer(FOLDER))
        first, second = [stack.enter_context(node(number, redis)) for number in (1, 2)]
        for larderd in (first, second):
            larderd.wait_ready()
            larderd.wait_touched(progress=step)
        larderctl = pathlib.Path(os.environ["LARDERD"]).with_name("larderctl")
        step(
            f"watch larderd meanwhile: {os.path.relpath(larderctl)} --socket "
            f"{os.path.relpath(second.admin_socket)} status"
        )
        cold, chunk_tokens = compute(first, redis, model, arguments, prompt, step)
        remote, memory, hits = load(second, model, arguments, prompt, step)
    identical = (
        cold.token_ids == remote.token_ids == memory.token_ids
        and len(cold.token_ids) == report.CONTINUATION
    )
    whole = cold.prompt_tokens // chunk_tokens * chunk_tokens
    print(text(cold, remote, memory, hits, whole, identical))
    verdict = [
        goals.goal("demo-remote.speedup", cold.ttft_s / remote.ttft_s, ">=", 50),
        goals.goal("demo-remote.hit_tokens", hits[0], ">=", whole),
        goals.figure("demo-remote.memory_speedup", cold.ttft_s / memory.ttft_s),
        goals.figure("demo-remote.prompt_tokens", cold.prompt_tokens),
    ]
    goals.print_goals(verdict)
    row = {
        "cold_s": cold.ttft_s,
        "redis_s": remote.ttft_s,
        "memory_s": memory.ttft_s,
        "hit_tokens": hits,
        "identical": identical,
    }
    goals.write(BUILD / "demo-remote.json", "demo-remote", [row], verdict)
    print(f"\n  written to {os.path.relpath(BUILD / 'demo-remote.json')}")
    return 0 if identical and verdict[1]["met"] else 1
