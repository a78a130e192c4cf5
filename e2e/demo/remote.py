"""make demo REMOTE=redis or REMOTE=mooncake: two nodes that share through a store, on one machine.

A larderd and a vLLM each; the demo starts the store itself (stores.py). The first node computes a
long prompt. The second node, which never saw the prompt and has an empty memory, loads the KV from
the store, and then from its own memory.
"""

from __future__ import annotations

import contextlib
import os
import pathlib

from demo.steps import BUILD, PROMPT_TOKENS, SMALL_KV, Steps, ask, warm_up
from demo.prompt import prompt_of
from demo.stores import STORES
from harness import goals
from harness.larderd import Larderd
from harness.vllm_server import VllmServer, engine_env
from larder import report
from larder.completions import hit_tokens, reset_prefix_cache

FOLDER = BUILD / "demo" / "remote"


def node(number: int, store, size: str = "1GiB") -> Larderd:
    """Two larderd share by the prefix."""
    extra = store.configuration(number)
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


def compute(first: Larderd, store, model: str, arguments: list[str], prompt: str, step: Steps):
    """The cold answer, once the store has all of the prompt; and how many tokens a chunk has."""
    step("starting vLLM on node 1 (about half a minute)")
    with engine(1, first, model, arguments) as server:
        server.wait_ready(progress=step)
        warm_up(server)
        step("asking a long prompt, cold (5 to 20 s on 2 cores)")
        cold = ask(server, prompt)
    chunk_tokens = first.chunk_tokens()
    step(f"first token after {cold.ttft_s:.3f} s; waiting until {store.name} has the chunks")
    wait_written(first, cold.prompt_tokens // chunk_tokens)
    return cold, chunk_tokens


def wait_written(larderd: Larderd, chunks: int) -> None:
    """Until so many chunks are in the store, and no more are on their way."""

    def written() -> bool:
        backend = larderd.status()["backend"]
        return backend["chunks"] >= chunks and backend["write_queue"] == 0

    larderd.wait_settled()
    larderd.wait_until(written, 60)


def load(second: Larderd, store, model: str, arguments: list[str], prompt: str, step: Steps):
    """(the answer from the store, the one from memory, tokens hit in each)."""
    step("starting vLLM on node 2, with an empty larderd")
    with engine(2, second, model, arguments) as server:
        server.wait_ready(progress=step)
        warm_up(server)
        answers, hits = [], []
        for place in (store.name, "memory"):
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


def text(name, cold, remote, memory, hits: list[int], whole: int, identical: bool) -> str:
    def faster(answer) -> str:
        return f"{answer.ttft_s:.3f} s   {cold.ttft_s / answer.ttft_s:.0f} times faster"

    rows = [
        ("tokens in the prompt", cold.prompt_tokens),
        (f"tokens from {name}", f"{hits[0]} of {whole}"),
        ("TTFT cold, node 1", f"{cold.ttft_s:.3f} s"),
        (f"TTFT {name}, node 2", faster(remote)),
        ("TTFT memory, node 2", faster(memory)),
        (f"{report.CONTINUATION} tokens that follow", verdict_on_tokens(identical, hits[0], whole)),
    ]
    lines = [f"  {label:<22} {value}" for label, value in rows]
    bars = report.bars(
        [("cold", cold.ttft_s), (f"from {name}", remote.ttft_s), ("from memory", memory.ttft_s)]
    )
    return "\n".join(["", *lines, "", bars, ""])


def main(where: str, model: str, own: bool, step: Steps) -> int:
    arguments = [] if own else SMALL_KV
    prompt = prompt_of(model, PROMPT_TOKENS)
    with contextlib.ExitStack() as stack:
        step(f"starting {STORES[where].name} and two larderd with 1 GiB of memory each")
        store = STORES[where](FOLDER)
        stack.callback(store.stop)
        first, second = [stack.enter_context(node(number, store)) for number in (1, 2)]
        for larderd in (first, second):
            larderd.wait_ready()
            larderd.wait_touched(progress=step)
        store.join()
        larderctl = pathlib.Path(os.environ["LARDERD"]).with_name("larderctl")
        step(
            f"watch larderd meanwhile: {os.path.relpath(larderctl)} --socket "
            f"{os.path.relpath(second.admin_socket)} status"
        )
        cold, chunk_tokens = compute(first, store, model, arguments, prompt, step)
        remote, memory, hits = load(second, store, model, arguments, prompt, step)
    identical = (
        cold.token_ids == remote.token_ids == memory.token_ids
        and len(cold.token_ids) == report.CONTINUATION
    )
    whole = cold.prompt_tokens // chunk_tokens * chunk_tokens
    print(text(store.name, cold, remote, memory, hits, whole, identical))
    # Redis came first: its figures have the plain name.
    report_name = "demo-remote" if where == "redis" else f"demo-{where}"
    verdict = [
        goals.goal(f"{report_name}.speedup", cold.ttft_s / remote.ttft_s, ">=", 50),
        goals.goal(f"{report_name}.hit_tokens", hits[0], ">=", whole),
        goals.figure(f"{report_name}.memory_speedup", cold.ttft_s / memory.ttft_s),
        goals.figure(f"{report_name}.prompt_tokens", cold.prompt_tokens),
    ]
    goals.print_goals(verdict)
    row = {
        "cold_s": cold.ttft_s,
        f"{where}_s": remote.ttft_s,
        "memory_s": memory.ttft_s,
        "hit_tokens": hits,
        "identical": identical,
    }
    written = BUILD / f"{report_name}.json"
    goals.write(written, report_name, [row], verdict)
    print(f"\n  written to {os.path.relpath(written)}")
    return 0 if identical and verdict[1]["met"] else 1
