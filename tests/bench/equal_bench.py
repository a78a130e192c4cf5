"""make bench-equal: time to first token of equal prompts that arrive together, with and without the
wait for the load of another request (larder.vllm.shared_loads).

One vLLM without a server, on the small model in float32, gets COUNT prompts in one step. In the arm
"waits" one prompt loads and the others hit vLLM's own cache. In "each loads" no request may wait,
as before the connector knew of loads under way. The arms take turns in one engine, in a random
order each round; vLLM's own prefix cache is reset before each turn. A figure is the median over the
rounds of the time of one place. The places are the requests served first, in the middle, and last.
The goals are ratios of the two arms, for the middle place, the last place, and the engine's
processor time. Other work on the machine does not change the processor time. The first place has no
goal. After the wait vLLM computes all prompts in one batch, as after hits in its own cache. Without
the wait vLLM computes the first prompt while the other prompts load.

A turn that hit other tokens than the stored ones, or an answer that differs between the arms, ends
the bench with status 1. Environment: as in the demo; EQUAL_ROUNDS (default 15)."""

from __future__ import annotations

import os
import pathlib
import random
import statistics
import time
from dataclasses import dataclass, field

from engine_model import small_model
from harness import goals
from harness.bench import Void
from harness.bench import run as run_bench
from harness.larderd import Larderd
from harness.vllm_server import CONNECTOR, engine_env
from larder import larderd_metrics
from ttft_rounds import CHUNK_TOKENS, token_ids, wait_stored

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
ROUNDS = int(os.environ.get("EQUAL_ROUNDS", 15))
COUNT = 12
STORED = 8 * CHUNK_TOKENS
ANSWER = 4
WAITS, EACH_LOADS = "waits", "each loads"
FIGURES = ("first", "p50", "max", "processor")


def cases() -> dict[str, list[list[int]]]:
    """COUNT prompts each, with equal and stored first STORED tokens."""
    inside, at_end, shared = (token_ids(seed, STORED) for seed in (1, 2, 3))
    return {
        f"{COUNT} x {STORED + 60} tokens": [inside + token_ids(11, 60)] * COUNT,
        f"{COUNT} x {STORED} tokens (whole chunks)": [at_end] * COUNT,
        f"{COUNT} x {STORED} tokens, tails of 60": [
            shared + token_ids(100 + i, 60) for i in range(COUNT)
        ],
    }


def hits_due(prompts: list[list[int]], arm: str) -> int:
    """Tokens that Larder brings. vLLM shares no block that has the last token of a prompt."""
    shared = min(STORED, (len(prompts[0]) - 1) // CHUNK_TOKENS * CHUNK_TOKENS)
    return STORED + (len(prompts) - 1) * (STORED - (shared if arm == WAITS else 0))


@dataclass
class Turn:
    times: list[float]  # to first token, in seconds, sorted
    processor_s: float  # of the engine
    answers: list[list[int]] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        return {
            "first": self.times[0],
            "p50": self.times[len(self.times) // 2],
            "max": self.times[-1],
            "processor": self.processor_s,
        }


def row(what: str, turns: dict[str, list[Turn]], tokens: dict[str, int]) -> dict:
    """turns: of each arm, by round; tokens: that Larder brought in a turn."""
    found: dict = {"what": what, "waits_tokens": tokens[WAITS], "each_tokens": tokens[EACH_LOADS]}
    for name in FIGURES:
        waits, each = (
            statistics.median(turn.figures()[name] for turn in turns[arm])
            for arm in (WAITS, EACH_LOADS)
        )
        found |= {
            f"waits_{name}_ms": 1e3 * waits,
            f"each_{name}_ms": 1e3 * each,
            f"{name}_ratio": waits / each,
        }
    return found


def judge(rows: list[dict]) -> list[dict]:
    worst = {name: max(one[f"{name}_ratio"] for one in rows) for name in FIGURES}
    told = [
        goals.goal(f"equal.{name}_ratio", worst[name], "<=", 1.05)
        for name in FIGURES
        if name != "first"
    ]
    return [*told, goals.figure("equal.first_ratio", worst["first"])]


class Engine:
    """vLLM in this process. Set the environment before."""

    def __init__(self, model: str):
        from vllm import LLM
        from vllm.config import KVTransferConfig

        self._llm = LLM(
            model=model,
            kv_transfer_config=KVTransferConfig(**CONNECTOR),
            enforce_eager=True,
            seed=0,
            dtype="float32",
            max_model_len=4096,
            max_num_batched_tokens=4096,
            disable_log_stats=False,
        )

    def reset(self) -> None:
        deadline = time.monotonic() + 30
        while not self._llm.reset_prefix_cache():
            if time.monotonic() > deadline:
                raise Void("vLLM's prefix cache could not be reset")
            # blocks of the last request may still be stored
            self._llm.llm_engine.engine_core.get_output()
            time.sleep(0.01)

    def ask(self, prompts: list[list[int]]) -> tuple[list[float], list[list[int]]]:
        """Times to first token in seconds, and answers."""
        from vllm import SamplingParams

        sampling = SamplingParams(max_tokens=ANSWER, temperature=0, ignore_eos=True)
        outputs = self._llm.generate(
            [{"prompt_token_ids": one} for one in prompts], sampling, use_tqdm=False
        )
        return [one.metrics.first_token_latency for one in outputs], [
            list(one.outputs[0].token_ids) for one in outputs
        ]


def turn(engine: Engine, larderd: Larderd, what: str, prompts: list[list[int]], arm: str) -> Turn:
    from larder.vllm import shared_loads

    usual = shared_loads.MOST_WAITING
    engine.reset()
    share = larderd_metrics.Share(larderd.metrics)
    shared_loads.MOST_WAITING = usual if arm == WAITS else 0
    begin = time.process_time()
    try:
        times, answers = engine.ask(prompts)
    finally:
        shared_loads.MOST_WAITING = usual
    found = Turn(sorted(times), time.process_time() - begin, answers)
    due = hits_due(prompts, arm)
    share.wait(1, due, 5)
    if share.tokens_hit() != due:
        raise Void(f"{what}, {arm}: {share.tokens_hit()} of {due} tokens hit")
    return found


def measure(
    engine: Engine, larderd: Larderd, what: str, prompts: list[list[int]], source: random.Random
) -> dict:
    turns: dict[str, list[Turn]] = {WAITS: [], EACH_LOADS: []}
    expected = None
    for _ in range(ROUNDS + 1):  # the first is not counted
        for arm in source.sample(list(turns), 2):
            turns[arm].append(turn(engine, larderd, what, prompts, arm))
            expected = expected or turns[arm][-1].answers
            if turns[arm][-1].answers != expected:
                raise Void(f"{what}: an answer differs between the arms")
    found = row(
        what,
        {arm: rounds[1:] for arm, rounds in turns.items()},
        {arm: hits_due(prompts, arm) for arm in turns},
    )
    times = "   ".join(
        f"{name} {found[f'waits_{name}_ms']:7.1f} ms / {found[f'each_{name}_ms']:7.1f} "
        f"({found[f'{name}_ratio']:.2f})"
        for name in FIGURES
    )
    print(
        f"  {what:<34} {times}   tokens loaded {found['waits_tokens']} / {found['each_tokens']}",
        flush=True,
    )
    return found


def run(larderd: Larderd, model: str) -> list[dict]:
    os.environ.update(
        engine_env(
            str(larderd.socket), os.environ["LARDER_LIBRARY"], VLLM_ENABLE_V1_MULTIPROCESSING="0"
        )
    )
    engine, source = Engine(model), random.Random(1)
    asked = cases()
    for number, prompts in enumerate(asked.values(), 1):
        engine.ask(prompts[:1])
        wait_stored(larderd, "equal prompts", number * STORED // CHUNK_TOKENS, timeout_s=60)
    print(f"  {ROUNDS} rounds; with the wait / without (ratio)")
    return [measure(engine, larderd, what, prompts, source) for what, prompts in asked.items()]


def main() -> int:
    started = time.monotonic()
    model = small_model()
    with Larderd(
        os.environ["LARDERD"], BUILD / "equal", f"larder-bench-{os.getpid()}", size="512MiB"
    ) as larderd:
        larderd.wait_ready()
        larderd.wait_touched(progress=print)
        rows = run(larderd, model)
    goals.conclude(BUILD / "equal.json", "equal", rows, judge(rows), started)
    return 0


if __name__ == "__main__":
    run_bench("bench-equal", main)
