"""make bench-engine: the cost of Larder's connector for an engine without hits.

Three vLLM servers on one small model, alive side by side, busy one at a time, in a random order
each round. "none" without a connector; "idle" on a larderd of its own, where every look-up misses
and no chunk is stored; "stores" on another larderd, which gets every whole chunk. Each turn sends
four new prompts in one request; tokens/s count prompt and answer.

A loss is measured inside one engine, whose connector is removed and restored (engine_switch.py has
the reason). In "idle" the connector is removed every few steps of decode. An empty connector is
removed likewise, which shows vLLM's own cost of a connector. The loss is the median over pairs of
neighbouring blocks of steps. Two costs that a median does not show are added. One is the share of
the hooks that run once a request. The other is the processor time of larderd and of Larder's
threads, as if taken from the engine in full. In "stores" the connector is removed for whole turns.
Losses against "none" are printed too, and include the differences between processes. The time
inside the hooks is measured around the hooks (engine_timed.py), in the processes of scheduler and
worker, over turns with the connector.

Ends with status 1 if answers differ between the arms, or if the idle arm hit or stored a chunk.
Also if chunks of "stores" are missing or give another answer when loaded. Environment: as in the
demo; ENGINE_ROUNDS (default 21)."""

from __future__ import annotations

import json
import os
import pathlib
import random
import statistics
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import engine_hooks
import engine_steps
import engine_switch
from engine_model import small_model
from harness import goals
from harness.bench import Void
from harness.bench import run as run_bench
from harness.larderd import Larderd
from harness.vllm_server import CONNECTOR, REST_S, VllmServer, engine_env
from larder.completions import hit_tokens, reset_prefix_cache, stream_completion
from larder.server import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
NAME = "small"
ROUNDS = int(os.environ.get("ENGINE_ROUNDS", "21"))
VOCABULARY = 32000
CHUNK_TOKENS = 128  # one block of CPU vLLM
# one chunk fills in prefill, the second during decode
PROMPTS, PROMPT_TOKENS, ANSWER_TOKENS = 4, 192, 72
SETS = 5  # of prompts, a round: one for all, four for the idle engine alone


@dataclass
class Arm:
    name: str
    server: VllmServer
    larderd: Larderd | None
    hooks: pathlib.Path
    mode: engine_switch.Mode | None = None
    # one a round, of the whole turn, like the next three
    seconds: list[float] = field(default_factory=list)
    tokens_per_s: list[float] = field(default_factory=list)
    counted: list[dict] = field(default_factory=list)  # engine_hooks.difference()
    # processors kept busy by larderd and by Larder's threads
    background: list[float] = field(default_factory=list)
    # inside the engine: of pairs of blocks of steps, or of turns
    losses: list[float] = field(default_factory=list)
    empty_losses: list[float] = field(default_factory=list)  # the same of the empty connector

    def chunks(self) -> int:
        return sum(space["chunks"] for space in self.larderd.status()["namespaces"])


def token_ids(seed: int, count: int = PROMPT_TOKENS) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(3, VOCABULARY) for _ in range(count)]


def complete_all(server: VllmServer, prompts: list[list[int]]) -> list[list[int]]:
    """Greedy answers to prompts sent in one request, without a stream, so that the client costs no
    time meanwhile."""
    body = {
        "model": NAME,
        "prompt": prompts,
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    with Server(server.url).request("POST", "/v1/completions", body, 300) as response:
        text = response.read()
    return [
        choice["token_ids"]
        for choice in sorted(json.loads(text)["choices"], key=lambda choice: choice["index"])
    ]


class Turn(NamedTuple):
    answers: list[list[int]]
    seconds: float
    counted: dict  # engine_hooks.difference()
    steps: list[engine_steps.Step]


def turn(arm: Arm, prompts: list[list[int]], mode: int = engine_switch.WITH) -> Turn:
    if arm.mode:
        arm.mode.set(mode)
    before, steps_before = engine_hooks.read(arm.hooks), engine_steps.count(arm.hooks)
    begin = time.perf_counter()
    answers = complete_all(arm.server, prompts)
    seconds = time.perf_counter() - begin
    time.sleep(0.05)  # the step that tells the worker of finished requests
    if any(len(answer) != ANSWER_TOKENS for answer in answers):
        raise Void(f"{arm.name}: an answer is shorter than {ANSWER_TOKENS} tokens")
    counted = engine_hooks.difference(engine_hooks.read(arm.hooks), before)
    return Turn(answers, seconds, counted, engine_steps.since(arm.hooks, steps_before))


def whole_turn(arm: Arm, prompts: list[list[int]]) -> Turn:
    """The turn that tokens/s and hooks are of."""
    threads = engine_hooks.larder_threads(arm.hooks)
    if arm.larderd:
        threads += pathlib.Path(f"/proc/{arm.larderd.child.pid}/task").iterdir()
    busy = engine_hooks.processor_ns(threads)
    done = turn(arm, prompts)
    arm.background.append((engine_hooks.processor_ns(threads) - busy) / 1e9 / done.seconds)
    arm.seconds.append(done.seconds)
    arm.tokens_per_s.append(len(prompts) * (PROMPT_TOKENS + ANSWER_TOKENS) / done.seconds)
    arm.counted.append(done.counted)
    return done


def round_of(arm: Arm, prompts: list[list[list[int]]], number: int) -> list[list[int]]:
    """One arm's part of a round. Returns the answers to the first set of prompts, which every arm
    gets."""
    time.sleep(REST_S)
    if arm.name == "none":
        return whole_turn(arm, prompts[0]).answers
    if arm.name == "idle":
        answers = whole_turn(arm, prompts[0]).answers
        for i, asked in enumerate(prompts[1:]):
            steps = turn(
                arm, asked, engine_switch.ALTERNATE_SWAPPED if i % 2 else engine_switch.ALTERNATE
            ).steps
            arm.losses += engine_steps.block_losses(steps, PROMPTS, engine_steps.LARDER)
            arm.empty_losses += engine_steps.block_losses(steps, PROMPTS, engine_steps.EMPTY)
        return answers
    before = turn(arm, prompts[1], engine_switch.WITHOUT) if number % 2 == 0 else None
    done = whole_turn(arm, prompts[0])
    without = before or turn(arm, prompts[1], engine_switch.WITHOUT)
    used = [{step.connector for step in of.steps} for of in (without, done)]
    if used != [{engine_steps.NONE}, {engine_steps.LARDER}]:
        raise Void("the connector was not taken away or not given back")
    arm.losses.append(1 - engine_steps.total_ns(without.steps) / engine_steps.total_ns(done.steps))
    return done.answers


def alone(arm: Arm, prompt: list[int]) -> list[int]:
    reset_prefix_cache(arm.server.url)
    return stream_completion(arm.server.url, NAME, prompt, ANSWER_TOKENS).token_ids


def check_stored(arms: dict[str, Arm], asked: int) -> None:
    """Every whole chunk of the `asked` prompts and answers is in the larderd of "stores", and no
    chunk is in the larderd of "idle"."""
    if arms["idle"].chunks() or hit_tokens(arms["idle"].server.url)[1]:
        raise Void("the idle arm stored or hit something")
    wanted = asked * ((PROMPT_TOKENS + ANSWER_TOKENS - 1) // CHUNK_TOKENS)
    deadline = time.monotonic() + 5
    while (stored := arms["stores"].chunks()) < wanted:
        if time.monotonic() > deadline:
            raise Void(f"larderd holds {stored} chunks, not the {wanted} of {asked} prompts")
        time.sleep(0.1)


def check_before(arms: dict[str, Arm]) -> int:
    """Returns how many prompts were asked."""
    answers = [alone(arm, token_ids(7)) for arm in arms.values()]
    if any(answer != answers[0] for answer in answers):
        raise Void("one prompt alone gets different answers from the arms")
    for arm in arms.values():
        # pays the costs of a first batch
        complete_all(arm.server, [token_ids(100 + i) for i in range(PROMPTS)])
    check_stored(arms, 1 + PROMPTS)
    return 1 + PROMPTS


def check_after(arms: dict[str, Arm], asked: int) -> None:
    check_stored(arms, asked)
    arms["stores"].mode.set(engine_switch.WITH)
    before = hit_tokens(arms["stores"].server.url)[1]
    first = token_ids(1000)
    loaded = alone(arms["stores"], first)
    alone(arms["none"], first)
    # A repeated prompt hits in the engine's own cache, as far as the other prompt loaded: the rest
    # is then computed in the same batches.
    if loaded != stream_completion(arms["none"].server.url, NAME, first, ANSWER_TOKENS).token_ids:
        raise Void("the stored chunks give another answer than a computation")
    if (
        hit_tokens(arms["stores"].server.url)[1] - before
        != PROMPT_TOKENS // CHUNK_TOKENS * CHUNK_TOKENS
    ):
        raise Void("the stored chunks were not loaded")


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """(low, median, high): the median, and the order statistics that hold the median with 95%, or a
    little more with enough rounds."""
    ordered = sorted(values)
    count = len(ordered)
    reach = 0  # the k-th smallest and largest, for the greatest k with tails under 5%
    tail = 0.5**count
    term = tail
    while 2 * tail < 0.05 and reach < (count - 1) // 2:
        reach += 1
        term *= (count - reach + 1) / reach
        tail += term
    low = max(reach - 1, 0)
    return ordered[low], statistics.median(ordered), ordered[count - 1 - low]


def hook_row(arm: Arm) -> dict:
    """Microseconds a step inside the hooks, over the rounds, and of each hook over all rounds
    together."""
    per_round = [
        sum(ns for ns, _ in counts.values()) / 1e3 / counts["scheduler.build_connector_meta"][1]
        for counts in arm.counted
    ]
    steps = sum(counts["scheduler.build_connector_meta"][1] for counts in arm.counted)
    total: dict[str, list[int]] = {}
    for counts in arm.counted:
        for name, (ns, calls) in counts.items():
            entry = total.setdefault(name, [0, 0])
            entry[0] += ns
            entry[1] += calls
    share = [
        sum(ns for ns, _ in counts.values()) / 1e9 / seconds
        for counts, seconds in zip(arm.counted, arm.seconds)
    ]
    by_hook = {
        name: {"us_per_step": ns / 1e3 / steps, "calls_per_step": calls / steps}
        for name, (ns, calls) in total.items()
        if calls
    }
    low, median, high = median_interval(per_round)
    return {
        "hook_us_per_step": median,
        "hook_us_interval": [low, high],
        "hook_share": statistics.median(share),
        "steps": steps,
        "hooks": by_hook,
    }


def rows_of(arms: dict[str, Arm]) -> list[dict]:
    rows = []
    for arm in arms.values():
        low, median, high = median_interval(arm.tokens_per_s)
        row = {
            "what": arm.name,
            "tokens_per_s": median,
            "tokens_per_s_interval": [low, high],
            "rounds": len(arm.tokens_per_s),
        }
        if arm.name != "none":
            hooks = hook_row(arm)
            row |= {**loss_row(arm, arms["none"], hooks), **hooks}
        if arm.empty_losses:
            low, row["empty_loss"], high = median_interval(arm.empty_losses)
            row["empty_loss_interval"] = [low, high]
        rows.append(row)
    return rows


def loss_row(arm: Arm, none: Arm, hooks: dict) -> dict:
    """`hooks`: the arm's hook_row."""
    if len(arm.losses) < len(arm.counted):
        raise Void(f"{arm.name}: too few steps with and without the connector")
    background, beside = statistics.median(arm.background), 0.0
    # for the storing arm: whole turns were compared, and the threads at work in the turns
    if arm.name == "idle":
        rare = sum(
            hook["us_per_step"] for hook in hooks["hooks"].values() if hook["calls_per_step"] < 0.5
        )
        beside = background + rare / hooks["hook_us_per_step"] * hooks["hook_share"]
    low, median, high = (value + beside for value in median_interval(arm.losses))
    against = median_interval(
        [1 - mine / base for mine, base in zip(arm.tokens_per_s, none.tokens_per_s)]
    )
    return {
        "loss": median,
        "loss_interval": [low, high],
        "loss_beside": beside,
        "background": background,
        "pairs": len(arm.losses),
        "loss_against_none": against[1],
        "loss_against_none_interval": [against[0], against[2]],
    }


def print_rows(rows: list[dict]) -> None:
    for row in rows:
        low, high = row["tokens_per_s_interval"]
        print(f"  {row['what']:<8} {row['tokens_per_s']:8.1f} tokens/s  [{low:.1f}, {high:.1f}]")
        if "loss" not in row:
            continue
        low, high = row["loss_interval"]
        print(
            f"    loss in one engine {100 * row['loss']:+.2f}%  [{100 * low:+.2f}, "
            f"{100 * high:+.2f}], {row['pairs']} pairs; "
            f"larderd and Larder's threads {100 * row['background']:.2f}% of a processor"
        )
        if "empty_loss" in row:
            low, high = row["empty_loss_interval"]
            print(
                f"    with an empty connector {100 * row['empty_loss']:+.2f}%  [{100 * low:+.2f}, "
                f"{100 * high:+.2f}]"
            )
        low, high = row["loss_against_none_interval"]
        print(
            f"    against the other engine {100 * row['loss_against_none']:+.2f}%  "
            f"[{100 * low:+.2f}, {100 * high:+.2f}]"
        )
        low, high = row["hook_us_interval"]
        print(
            f"    hooks {row['hook_us_per_step']:.0f} us a step  [{low:.0f}, {high:.0f}], "
            f"{100 * row['hook_share']:.2f}% of time"
        )
    for row in rows:
        for name, hook in sorted(
            row.get("hooks", {}).items(), key=lambda item: -item[1]["us_per_step"]
        )[:10]:
            print(
                f"    {row['what']:<8} {name:<40} {hook['us_per_step']:8.1f} us a step, "
                f"{hook['calls_per_step']:6.2f} calls"
            )


def judge(rows: list[dict]) -> list[dict]:
    by_name = {row["what"]: row for row in rows}
    return [
        goals.goal(
            "engine.hook_us_per_step",
            max(by_name[name]["hook_us_per_step"] for name in ("idle", "stores")),
            "<=",
            150,
        ),
        goals.goal("engine.idle_loss", by_name["idle"]["loss"], "<=", 0.01),
        goals.figure("engine.empty_connector_loss", by_name["idle"]["empty_loss"]),
        goals.figure("engine.idle_loss_against_none", by_name["idle"]["loss_against_none"]),
        goals.figure("engine.store_loss", by_name["stores"]["loss"]),
        goals.figure("engine.idle_hook_us_per_step", by_name["idle"]["hook_us_per_step"]),
    ]


def start(name: str, role: str | None, model: str, stack: list) -> Arm:
    """An arm with its larderd; started processes go onto `stack`, which the caller ends."""
    folder = BUILD / f"engine-{name}"
    hooks = folder / "hooks"
    hooks.mkdir(parents=True, exist_ok=True)
    for old in hooks.iterdir():
        old.unlink()
    larderd = None
    if role:
        engine_switch.Mode(hooks, create=True)
        larderd = Larderd(
            os.environ["LARDERD"], folder, f"larder-bench-{os.getpid()}-{name}", size="2GiB"
        )
        stack.append(larderd)
        larderd.wait_ready()
        larderd.wait_touched(progress=print)
    env = engine_env(
        larderd.socket if larderd else "",
        os.environ["LARDER_LIBRARY"],
        VLLM_CPU_KVCACHE_SPACE="1",
        **{engine_hooks.FOLDER_VARIABLE: str(hooks)},
    )
    env["PYTHONPATH"] += os.pathsep + str(pathlib.Path(__file__).parent)
    connector = {
        **CONNECTOR,
        "kv_connector": "TimedConnector",
        "kv_connector_module_path": "engine_timed",
        "kv_role": role,
    }
    server = VllmServer(
        f"vLLM ({name})", model, NAME, env, folder / "vllm.log", connector if role else None
    )
    stack.append(server)
    return Arm(name, server, larderd, hooks, engine_switch.Mode(hooks) if role else None)


def measure(arms: dict[str, Arm]) -> list[dict]:
    asked = check_before(arms)
    differing = 0
    order = list(arms.values())
    source = random.Random(1)
    for number in range(ROUNDS):
        first = 1000 + number * SETS * PROMPTS
        sets = [[token_ids(first + i * PROMPTS + k) for k in range(PROMPTS)] for i in range(SETS)]
        source.shuffle(order)
        answers = {arm.name: round_of(arm, sets, number) for arm in order}
        differing += sum(
            len({tuple(answers[name][i]) for name in arms}) > 1 for i in range(PROMPTS)
        )
        each = ", ".join(f"{arm.name} {arm.tokens_per_s[-1]:.0f}" for arm in arms.values())
        steady = statistics.median(arms["idle"].losses or [0])
        print(
            f"  round {number + 1}: {each} tokens/s; loss in the idle engine's steps so far "
            f"{100 * steady:+.2f}%",
            flush=True,
        )
    check_after(arms, asked + ROUNDS * PROMPTS)
    print(
        f"  {differing} of {ROUNDS * PROMPTS} answers differ between the arms by rounding: "
        "prompts are batched by arrival"
    )
    return rows_of(arms)


def main() -> int:
    started = time.monotonic()
    model = small_model()
    stack: list = []
    try:
        roles = {"none": None, "idle": "kv_consumer", "stores": "kv_both"}
        arms = {name: start(name, role, model, stack) for name, role in roles.items()}
        for arm in arms.values():
            arm.server.wait_ready(progress=print)
        rows = measure(arms)
    finally:
        for process in reversed(stack):
            process.stop()
    print_rows(rows)
    verdict = judge(rows)
    goals.conclude(BUILD / "engine.json", "engine", rows, verdict, started)
    return 0


if __name__ == "__main__":
    run_bench("bench-engine", main)
