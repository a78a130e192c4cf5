"""make bench-ttft-remote: time to first token on a node with an empty memory, from a Redis filled
by another node, also over a slow or stopped network.

The demo's model. Node 1 computes three prompts of 4,096 tokens (48 MiB each) and forty-two of 1,024
(12 MiB), which its larderd writes to Redis. Then the engine of node 1 ends, so one engine at a time
has the machine. Node 2's larderd has 256 MiB. The prompts are asked in turn, so no prompt is in
memory when it comes again, and every warm answer comes from Redis. Answers count by the rules of
make bench-ttft-disk. They are right token for token; warm ones count only if nearly all chunks were
fetched, as vLLM's log tells. Answers from memory are those of one prompt, asked again at once.

Then node 2's larderd starts again behind a slow network to Redis (harness/slow_link.py, a TCP
proxy), down to a stop. At each speed the bench makes three probes, which are not judged. Then
`rounds` requests with Larder and as many without (the same engine, the request opted out) take
turns. After each speed the network is fast again, and the bench measures the time until Redis is
used. Environment: that of the demo; TTFT_REMOTE_SPEEDS.
"""

from __future__ import annotations

import os
import statistics
import time

from demo.model import demo_model
from harness import goals
from harness.bench import run as run_bench
from harness.larderd import Larderd
from harness.redis import RedisServer
from harness.slow_link import SlowLink
from harness.vllm_server import REST_S, VllmServer, engine_env
from larder.completions import stream_completion
from ttft_rounds import token_ids
from ttft_disk_bench import (
    BUILD,
    LONG,
    NAME,
    OFF,
    SHORT,
    WARM_CYCLES,
    Bench,
    Prompts,
    at_speed,
    judge,
    recover,
    row_of,
)

FOLDER = BUILD / "ttft-remote"
MEMORY_ROUNDS = 5
# MB a second. The engine computes 12 KiB of KV a token: a few MB a second here. 0: no byte comes.
SPEEDS = [0, 1, 4, 16, 64]


def node(number: int, url: str, size: str) -> Larderd:
    extra = f"backend:\n  url: {url}\n  prefix: bench\n"
    return Larderd(
        os.environ["LARDERD"],
        FOLDER / f"node{number}",
        f"larder-bench-{os.getpid()}-{number}",
        size,
        extra,
    )


def engine(number: int, larderd: Larderd, model: str) -> VllmServer:
    env = engine_env(larderd.socket, os.environ["LARDER_LIBRARY"], VLLM_CPU_KVCACHE_SPACE="1")
    arguments = [
        "--max-model-len",
        "4608",
        "--num-gpu-blocks-override",
        "40",
        "--enable-prompt-tokens-details",
    ]
    return VllmServer(
        f"vLLM of node {number}",
        model,
        NAME,
        env,
        FOLDER / f"vllm{number}.log",
        arguments=arguments,
    )


def start(server: VllmServer) -> None:
    server.wait_ready(progress=print)
    for _ in range(2):
        stream_completion(server.url, NAME, token_ids(1, 40), 2)


def ready(larderd: Larderd) -> Larderd:
    larderd.wait_ready()
    larderd.wait_touched(progress=print)
    return larderd


def fill(redis: RedisServer, model: str, sets: list[Prompts]) -> list[list[float]]:
    """The cold TTFTs of node 1, once all chunks are in Redis."""
    with node(1, redis.url, "1GiB") as larderd:
        with engine(1, ready(larderd), model) as server:
            start(server)
            bench = Bench(server, larderd)
            cold = [bench.cold(prompts) for prompts in sets]
        redis.wait_settled(sum(sum(prompts.chunks) for prompts in sets))
    return cold


def from_memory(bench: Bench, prompts: Prompts) -> list[float]:
    """Of one prompt, which is brought up first."""
    bench.ask(prompts, 0, "from memory")
    return [bench.ask(prompts, 0, "from memory") for _ in range(MEMORY_ROUNDS)]


def throttled(
    bench: Bench, redis: RedisServer, prompts: Prompts, speeds: list[float]
) -> list[dict]:
    """Rows; node 2's larderd is started anew, and its engine attaches again by itself."""
    with SlowLink(redis.port) as link, node(2, link.url, "256MiB") as larderd:
        bench.larderd = ready(larderd)
        print(
            "  over the link, as fast as it is, used after "
            f"{recover(bench, prompts, 'the link'):.0f} s",
            flush=True,
        )
        return [at_speed(bench, prompts, link, speed) for speed in speeds]


def run(redis: RedisServer, model: str, speeds: list[float]) -> tuple[list[dict], list[dict]]:
    long, short = Prompts(LONG, 1), Prompts(SHORT, 1000)
    cold = dict(zip(("4096", "1024"), fill(redis, model, [long, short])))
    with node(2, redis.url, "256MiB") as larderd, engine(2, ready(larderd), model) as server:
        start(server)
        time.sleep(REST_S)
        bench = Bench(server, larderd, "Redis")
        none = [bench.ask(long, i, "no cache", **OFF) for i in range(len(LONG))]
        warm = dict(zip(("4096", "1024"), bench.warm([long, short], WARM_CYCLES)))
        memory = from_memory(bench, long)
        bench.compare_partial(short)
        rows = [
            row_of("4096 tokens, cold on node 1", cold["4096"]),
            row_of("4096 tokens, opted out", none),
            row_of("4096 tokens, from Redis", warm["4096"]),
            row_of("4096 tokens, from memory", memory),
            row_of("1024 tokens, cold on node 1", cold["1024"]),
            row_of("1024 tokens, from Redis", warm["1024"]),
        ]
        larderd.stop()
        slow = throttled(bench, redis, short, speeds) if speeds else []
    found = judge(cold["4096"], warm["4096"], slow, "ttft-remote", 50)
    found.append(
        goals.figure(
            "ttft-remote.memory_speedup",
            statistics.median(cold["4096"]) / statistics.median(memory),
        )
    )
    return rows + slow, found


def main() -> int:
    started = time.monotonic()
    model = os.environ.get("MODEL") or str(demo_model(print))
    given = os.environ.get("TTFT_REMOTE_SPEEDS")
    speeds = SPEEDS if given is None else [float(speed) for speed in given.split(",") if speed]
    with RedisServer(FOLDER) as redis:
        rows, verdict = run(redis, model, speeds)
    goals.conclude(BUILD / "ttft-remote.json", "ttft-remote", rows, verdict, started)
    return 0


if __name__ == "__main__":
    run_bench("bench-ttft-remote", main)
