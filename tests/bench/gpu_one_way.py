"""G1, G2: all pages by each way, against one large copy. The ways take turns in each round, and a
ratio is the median of the rounds' own.

As many threads copy as a shim has. All kernels of these threads together have the multiprocessors
named by a way. Loads are judged, and stores reported beside the loads. The engine verifies every
load of ours, and every store against the root of the first store. Behind the rounds the pages are
overwritten, loaded once more and compared byte by byte, also for the driver's own copies."""

from __future__ import annotations

import os
import statistics
from contextlib import ExitStack
from dataclasses import dataclass

from gpu_arms import LOAD, STORE, Arms, ArmsError
from harness import goals

LARGE, LOOP, BATCH = "one large copy", "a call a piece", "the driver's batch"  # without digests
EVENTS = "large, by CUDA events"  # nvbandwidth's way of measuring: without the call and the wake-up
BARE = "kernel, 8 SMs, checksum off"  # made for this comparison: the product has no such thing
# of the large copy, by the given number of multiprocessors, for small pieces
SMS_GOALS = {4: 0.85, 8: 0.92}
LARGE_PIECE = 2 << 20
PIECES = (16 << 10, 32 << 10, LARGE_PIECE)


@dataclass(frozen=True)
class Scale:
    # nine ways have pages and memory of their own, which take longer to make than to copy
    bytes: int = 512 << 20
    chunk_bytes: int = 64 << 20
    rounds: int = 7


@dataclass(frozen=True)
class Way:
    name: str
    method: str
    blocks: int = 0
    plain_bytes: int = 0  # of each call, where these are the driver's
    by_events: bool = False


def callers() -> int:
    """The shim's choice of threads (larder.h)."""
    return max(1, min(4, (os.cpu_count() or 1) // 2))


def ways_of(piece_bytes: int, size: int) -> list[Way]:
    return [
        Way(LARGE, "plain", plain_bytes=size),
        Way(EVENTS, "plain", plain_bytes=size, by_events=True),
        Way(LOOP, "plain", plain_bytes=piece_bytes),
        Way(BATCH, "plain"),
        Way("batch", "batch", 8),
        Way("kernel, 4 SMs", "kernel", 4),
        Way("kernel, 8 SMs", "kernel", 8),
        Way(BARE, "bare kernel", 8),
        Way("auto, 8 SMs", "auto", 8),
    ]


def measure(arms: Arms, piece_bytes: int, scale: Scale = Scale()) -> list[dict]:
    rows: list[dict] = []
    with ExitStack() as stack:
        moves = {}
        for way in ways_of(piece_bytes, scale.bytes):
            chunk = scale.bytes if way.plain_bytes else scale.chunk_bytes
            try:
                field = stack.enter_context(arms.field(scale.bytes, piece_bytes, chunk))
                moves[way] = stack.enter_context(
                    field.moves(way.method, way.blocks, way.plain_bytes)
                )
            except ArmsError as error:  # this way alone
                rows.append(
                    {
                        "part": part_of(piece_bytes),
                        "piece_kib": piece_bytes >> 10,
                        "way": way.name,
                        "not_measured": str(error),
                    }
                )
        rounds: list[dict[str, tuple[float, float]]] = []
        for _ in range(1 + scale.rounds):  # the first one warms up
            rounds.append(
                {
                    way.name: tuple(
                        scale.bytes / seconds(way, one, direction) for direction in (LOAD, STORE)
                    )
                    for way, one in moves.items()
                }
            )
        for one in moves.values():
            one.verify(callers())
        chosen = {way.name: one.way() for way, one in moves.items() if way.method == "auto"}
    return with_way(rows_of(piece_bytes, rounds[1:]), chosen) + rows


def with_way(rows: list[dict], chosen: dict[str, str]) -> list[dict]:
    """The choice of `auto` stands in its row."""
    return [{**row, "chosen": chosen[row["way"]]} if row["way"] in chosen else row for row in rows]


def seconds(way: Way, moves, direction: int) -> float:
    """Of all bytes once."""
    return (
        moves.by_events(direction)
        if way.by_events
        else moves.one_way(direction, 1 if way.plain_bytes else callers())
    )


def part_of(piece_bytes: int) -> str:
    return "G1" if piece_bytes >= LARGE_PIECE else "G2"


def rows_of(piece_bytes: int, rounds: list[dict[str, tuple[float, float]]]) -> list[dict]:
    """rounds: bytes per second of loads and of stores, by way. A row for each way of the first
    round."""

    def median(name: str, direction: int) -> float:
        return statistics.median(one[name][direction] for one in rounds)

    def over(name: str, other: str, direction: int) -> float | None:
        if other not in rounds[0]:
            return None
        return statistics.median(one[name][direction] / one[other][direction] for one in rounds)

    return [
        {
            "part": part_of(piece_bytes),
            "piece_kib": piece_bytes >> 10,
            "way": name,
            "judged": "loads",
            "load_gb_s": median(name, LOAD) / 1e9,
            "store_gb_s": median(name, STORE) / 1e9,
            "load_of_large": over(name, LARGE, LOAD),
            "store_of_large": over(name, LARGE, STORE),
            "load_of_loop": over(name, LOOP, LOAD),
            "load_of_batch": over(name, BATCH, LOAD),
            "load_of_bare": over(name, BARE, LOAD),
        }
        for name in rounds[0]
    ]


def judge(rows: list[dict]) -> list[dict]:
    verdict = []
    for row in rows:
        if row["part"] not in ("G1", "G2") or row.get("load_of_large") is None:
            continue
        way, size = row["way"], row["piece_kib"]
        if row["part"] == "G1" and way == EVENTS:
            verdict.append(goals.figure("G1.large_by_events_over_large", row["load_of_large"]))
        if row["part"] == "G1" and way.startswith("auto"):
            verdict.append(goals.goal("G1.load_of_large", row["load_of_large"], ">=", 0.98))
        for sms, bound in SMS_GOALS.items():
            if row["part"] == "G2" and way == f"kernel, {sms} SMs":
                verdict.append(
                    goals.goal(f"G2.{size}_kib.load_{sms}_sms", row["load_of_large"], ">=", bound)
                )
        if row["part"] == "G2" and way == "kernel, 8 SMs":
            if row["load_of_batch"] is not None:
                verdict.append(
                    goals.goal(f"G2.{size}_kib.load_over_batch", row["load_of_batch"], ">=", 1.0)
                )
            if row["load_of_bare"] is not None:
                verdict.append(
                    goals.figure(f"G2.{size}_kib.load_over_checksum_off", row["load_of_bare"])
                )
            if size == 16:
                verdict.append(goals.goal("G2.16_kib.load_over_loop", row["load_of_loop"], ">=", 8))
    return verdict


def show(row: dict) -> str:
    return (
        f"pieces of {row['piece_kib']:>4} KiB, {row['way']:<27} loads {row['load_gb_s']:6.1f} GB/s "
        f"({row['load_of_large']:.3f} of the large copy), "
        f"stores {row['store_gb_s']:6.1f} ({row['store_of_large']:.3f})"
        + (f"; chosen: {row['chosen']}" if "chosen" in row else "")
    )
