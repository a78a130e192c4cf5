"""G3: loads and stores at once, against large copies of the driver in both directions.

Both sides copy until the slower one has ended a given number of copies. Rates are taken from the
copies that ended while both sides were at work: neither is judged by a time without the other."""

from __future__ import annotations

import bisect
import statistics
from contextlib import ExitStack
from dataclasses import dataclass

from gpu_arms import LOAD, STORE, Arms
from gpu_one_way import callers
from harness import goals
from harness.bench import Void

GOAL = 0.97
LEAST_COPIES = 8  # of a side within the window
PLAIN_CALLERS = 2  # the next large copy is queued while one runs


@dataclass(frozen=True)
class Scale:
    bytes: int = 2 << 30
    chunk_bytes: int = 16 << 20
    rounds: int = 7
    copies: int = 256  # of the slower side


WAYS = (
    ("large copies", "plain", 2 << 20),
    ("auto, 8 SMs", "auto", 2 << 20),
    ("auto, 8 SMs", "auto", 64 << 10),
)


def rates(loads: list[float], stores: list[float], chunk_bytes: int) -> tuple[float, float]:
    """Bytes per second of both sides, by the sorted seconds at which their copies ended."""
    begin, end = max(loads[0], stores[0]), min(loads[-1], stores[-1])
    found = []
    for ends in (loads, stores):
        within = ends[bisect.bisect_left(ends, begin) : bisect.bisect_right(ends, end)]
        if len(within) < LEAST_COPIES:
            raise Void(
                f"both ways: one side ended only {len(within)} copies while the other side was at "
                "work"
            )
        found.append((len(within) - 1) * chunk_bytes / (within[-1] - within[0]))
    return found[LOAD], found[STORE]


def measure(arms: Arms, scale: Scale = Scale()) -> list[dict]:
    with ExitStack() as stack:
        moves = {}
        for name, method, piece_bytes in WAYS:
            field = stack.enter_context(arms.field(scale.bytes, piece_bytes, scale.chunk_bytes))
            moves[name, piece_bytes] = stack.enter_context(
                field.moves(method, 8, scale.chunk_bytes)
            )
        rounds = [
            {
                key: rates(
                    *one.both_ways(PLAIN_CALLERS if key == keys()[0] else callers(), scale.copies),
                    scale.chunk_bytes,
                )
                for key, one in moves.items()
            }
            for _ in range(1 + scale.rounds)
        ]
        for one in moves.values():
            one.verify(callers())
        chosen = {key: one.way() for key, one in moves.items()}
    return [
        {**row, "chosen": chosen[row["way"], row["piece_kib"] << 10]} for row in rows_of(rounds[1:])
    ]


def keys() -> list[tuple[str, int]]:
    return [(name, piece_bytes) for name, _, piece_bytes in WAYS]


def rows_of(rounds: list[dict[tuple[str, int], tuple[float, float]]]) -> list[dict]:
    """rounds: bytes per second of both sides, by way and size of pieces; the first of keys() is the
    ceiling."""
    rows = []
    for key in keys():
        shares = [sum(one[key]) / sum(one[keys()[0]]) for one in rounds]
        rows.append(
            {
                "part": "G3",
                "way": key[0],
                "piece_kib": key[1] >> 10,
                "load_gb_s": statistics.median(one[key][LOAD] for one in rounds) / 1e9,
                "store_gb_s": statistics.median(one[key][STORE] for one in rounds) / 1e9,
                "both_of_large": statistics.median(shares),
            }
        )
    return rows


def judge(rows: list[dict]) -> list[dict]:
    verdict = []
    for row in rows:
        if row["part"] != "G3" or not row.get("way", "").startswith("auto"):
            continue
        if row["piece_kib"] == 2048:
            verdict.append(goals.goal("G3.both_of_large", row["both_of_large"], ">=", GOAL))
        else:
            verdict.append(
                goals.figure(f"G3.{row['piece_kib']}_kib.both_of_large", row["both_of_large"])
            )
    return verdict


def show(row: dict) -> str:
    return (
        f"both ways, pieces of {row['piece_kib']:>4} KiB, {row['way']:<12} loads "
        f"{row['load_gb_s']:6.1f} GB/s beside stores {row['store_gb_s']:6.1f} "
        f"({row['both_of_large']:.3f} of large copies)"
        + (f"; chosen: {row['chosen']}" if row.get("chosen") else "")
    )
