"""G4: the slowdown of a loop of matrix products and of a loop of decode steps beside copies at 0.9
of the link, by copy engines and by kernels.

The loops are PyTorch's with cuBLAS's products, which no small kernel of ours would represent. The
loops are a square product in bfloat16, and decode steps of an 8B-shaped model as a CUDA graph. The
copies are the product's, in this process, as in an engine: kernels of two processes would take
turns instead. The copy engines' way has pieces of 2 MiB and the kernels' of 64 KiB, as the product
would choose. Behind the copy engines' copies, loads and stores, a kernel digests the pages. Each
step also copies 4 KiB to the GPU and 4 KiB back, like an engine's block tables and tokens. A copy
engine takes the next ready copy, so these small copies stand behind chunks. Turns alone and beside
copies alternate, in changing order. A loss counts only if the copies did reach the rate."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Callable

import torch

from gpu_arms import LOAD, STORE, Arms, ArmsError, Moves
from gpu_one_way import callers
from harness import goals
from paged_engine.kv_tensors import KvTensors
from paged_engine.model import Model
from paged_engine.shapes import Shape
from paged_engine.weights import random_weights

OF_THE_LINK = 0.9  # at least, or the loss has no meaning
PACE = 0.91  # the requested rate, above the goal so that the goal is reached if possible
BLOCKS = 8
GOALS = {"batch": 0.02, "kernel": 0.04}
PIECES = {"batch": 2 << 20, "kernel": 64 << 10}
DIRECTIONS = {"loads": LOAD, "stores": STORE}
RAMP_S = 0.05  # until copies run at their pace
BLOCK_SIZE = 16
SMALL_BYTES = 4 << 10


@dataclass(frozen=True)
class Scale:
    bytes: int = 1 << 30
    chunk_bytes: int = 32 << 20
    turns: int = 6
    turn_s: float = 0.25
    matrix: int = 8192
    context: int = 2048  # tokens before the one that is decoded


class Loop:
    """Steps of the engine's work, all queued and then waited for."""

    def __init__(self, name: str, step: Callable[[], object], device: str, turn_s: float):
        self.name, self.step = name, step
        # For the loop's own stream alone, not for the copies beside the loop.
        self._wait = (
            torch.cuda.current_stream(device).synchronize
            if torch.device(device).type == "cuda"
            else lambda: None
        )
        self.count = 3
        for _ in range(2):  # work that is slow only once
            self.seconds()
        self.count = max(3, int(self.count * turn_s / self.seconds()))

    def seconds(self) -> float:
        begin = time.perf_counter()
        for _ in range(self.count):
            self.step()
        self._wait()
        return time.perf_counter() - begin


def with_small_copies(step: Callable[[], object], device: str) -> Callable[[], object]:
    """The small copies of an engine beside each step of its model."""
    on_gpu = torch.device(device).type == "cuda"
    to, back = (torch.zeros(SMALL_BYTES, dtype=torch.uint8, pin_memory=on_gpu) for _ in range(2))
    there = torch.zeros(SMALL_BYTES, dtype=torch.uint8, device=device)

    def whole() -> None:
        there.copy_(to, non_blocking=True)
        step()
        back.copy_(there, non_blocking=True)

    return whole


def gemm(device: str, size: int) -> Callable[[], object]:
    one, other = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(one)
    return lambda: torch.mm(one, other, out=out)


def decode(shape: Shape, device: str, context: int) -> Callable[[], object]:
    """One token behind so many, again and again; on a GPU as a graph."""
    blocks = -(-(context + 1) // BLOCK_SIZE)
    kv = KvTensors(shape, blocks + 1, BLOCK_SIZE, device, torch.bfloat16)
    model = Model(shape, random_weights(shape, 0, device, torch.bfloat16), kv)
    token, position = (torch.tensor([number], device=device) for number in (1, context))
    table = torch.arange(1, blocks + 1, device=device)

    def step():
        return model.step(token, position, table, context + 1)

    return captured(step) if torch.device(device).type == "cuda" else step


def captured(step: Callable[[], object]) -> Callable[[], object]:
    """Replays of the loop's work. The replays hold `step`, and so the tensors of the graph, which
    has only addresses."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries allocate their memory before the capture
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        step()

    def replay(held=step) -> None:
        graph.replay()

    return replay


def measure(arms: Arms, loops: list[Loop], scale: Scale = Scale()) -> list[dict]:
    rows: list[dict] = []
    with ExitStack() as stack:
        field = stack.enter_context(arms.field(scale.bytes, scale.bytes, scale.bytes))
        large = stack.enter_context(field.moves("plain", plain_bytes=scale.bytes))
        link = {
            direction: scale.bytes
            / statistics.median(large.one_way(direction, 1) for _ in range(5))
            for direction in DIRECTIONS.values()
        }
        large.verify(1)
        for method, piece_bytes in PIECES.items():
            with ExitStack() as inner:
                try:
                    field = inner.enter_context(
                        arms.field(scale.bytes, piece_bytes, scale.chunk_bytes)
                    )
                    moves = inner.enter_context(field.moves(method, BLOCKS))
                except ArmsError as error:
                    rows.append({"part": "G4", "way": method, "not_measured": str(error)})
                    continue
                for loop in loops:
                    for name, direction in DIRECTIONS.items():
                        rate = PACE * link[direction]
                        pairs, reached = turns_of(loop.seconds, moves, direction, rate, scale.turns)
                        rows.append(
                            row_of(
                                loop.name,
                                method,
                                name,
                                pairs,
                                [one / link[direction] for one in reached],
                            )
                        )
                moves.verify(callers())
    return rows


def turns_of(
    seconds: Callable[[], float], moves: Moves, direction: int, rate: float, turns: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """Seconds of the loop alone and beside copies, and the rates of the copies, in each turn."""
    pairs, reached = [], []

    def beside() -> float:
        moves.pace(direction, rate, callers())
        try:
            time.sleep(RAMP_S)
            return seconds()
        finally:
            reached.append(moves.rest())

    for turn in range(turns):
        if turn % 2 == 0:
            alone, disturbed = seconds(), beside()
        else:
            disturbed, alone = beside(), seconds()
        pairs.append((alone, disturbed))
    return pairs, reached


def row_of(
    loop: str, method: str, direction: str, pairs: list[tuple[float, float]], of_link: list[float]
) -> dict:
    """of_link: the share of the large copy's rate that the copies reached, in each turn."""
    row = {
        "part": "G4",
        "loop": loop,
        "way": method,
        "sms": BLOCKS,
        "direction": direction,
        "of_link": statistics.median(of_link),
        "loss": statistics.median(1 - alone / beside for alone, beside in pairs),
    }
    if row["of_link"] < OF_THE_LINK:
        row["not_judged"] = f"the copies reached only {row['of_link']:.3f} of the link"
    return row


def judge(rows: list[dict]) -> list[dict]:
    return [
        judged(row, f"G4.{row['loop']}.{row['way']}.{row['direction']}.loss", GOALS[row["way"]])
        for row in rows
        if row["part"] == "G4" and "loss" in row
    ]


def judged(row: dict, name: str, bound: float) -> dict:
    if "not_judged" in row:
        return goals.not_measured(name, row["not_judged"], "<=", bound)
    return goals.goal(name, row["loss"], "<=", bound)


def show(row: dict) -> str:
    digests = "digests " if row["way"] == "batch" else ""
    said = f"; not judged: {row['not_judged']}" if "not_judged" in row else ""
    return (
        f"{row['loop']:<6} beside {row['direction']:<6} by {row['way']:<6} ({digests}on "
        f"{row['sms']} SMs) at {row['of_link']:.3f} of the link: "
        f"{100 * row['loss']:.2f}% lost{said}"
    )
