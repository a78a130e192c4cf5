"""G8: memory of larderd that is touched as larderd does it and registered as an engine does it, against cudaHostAlloc of the same size: pages of
4 KiB and of 2 MiB. All is given back after each time; the arms take turns."""

from __future__ import annotations

import pathlib
import statistics
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Iterator

from gpu_arms import Arms, ArmsError
from harness import goals

GOAL = 10
SMALL, HUGE = 4 << 10, 2 << 20
HUGE_PAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


@dataclass(frozen=True)
class Scale:
    bytes: int = 4 << 30
    rounds: int = 5


@contextmanager
def huge_pages(count: int, pool: pathlib.Path = HUGE_PAGES) -> Iterator[str]:
    """So many free ones for a while, where this machine lets us: else why not."""
    try:
        before, free = (int((pool / name).read_text()) for name in ("nr_hugepages", "free_hugepages"))
        if free < count:
            (pool / "nr_hugepages").write_text(str(before + count - free))
    except OSError as error:
        yield f"no pages of 2 MiB can be had ({error.strerror})"
        return
    try:
        free = int((pool / "free_hugepages").read_text())
        yield "" if free >= count else f"only {free} of {count} pages of 2 MiB are free"
    finally:
        (pool / "nr_hugepages").write_text(str(before))


def measure(arms: Arms, scale: Scale = Scale()) -> list[dict]:
    with huge_pages(-(-scale.bytes // HUGE)) as without_huge:
        sizes = [SMALL] if without_huge else [SMALL, HUGE]
        rounds: list[dict[int, tuple[float, float]]] = []
        allocs: list[float] = []
        for _ in range(1 + scale.rounds):  # the first one warms up
            allocs.append(arms.host_alloc_s(scale.bytes))
            rounds.append({})
            for size in list(sizes):
                try:
                    rounds[-1][size] = arms.touch_and_register_s(scale.bytes, size)
                except ArmsError as error:
                    if size == SMALL:
                        raise
                    without_huge = str(error)
                    sizes.remove(size)
    rows = rows_of(scale.bytes, allocs[1:], rounds[1:])
    if without_huge:
        rows = [row for row in rows if row["page_kib"] != HUGE >> 10]
        rows.append({"part": "G8", "page_kib": HUGE >> 10, "bytes": scale.bytes, "not_measured": without_huge})
    return rows


def rows_of(size: int, allocs: list[float], rounds: list[dict[int, tuple[float, float]]]) -> list[dict]:
    """allocs: seconds of cudaHostAlloc in each round; rounds: those of touching and of registering, by size of page."""
    return [{
        "part": "G8", "page_kib": page >> 10, "bytes": size, "alloc_s": statistics.median(allocs),
        "touch_s": statistics.median(one[page][0] for one in rounds), "register_s": statistics.median(one[page][1] for one in rounds),
        "times_faster": statistics.median(alloc / sum(one[page]) for alloc, one in zip(allocs, rounds)),
    } for page in rounds[0] if all(page in one for one in rounds)]


def judge(rows: list[dict]) -> list[dict]:
    return [goals.goal(f"G8.{row['page_kib']}_kib.times_faster", row["times_faster"], ">=", GOAL)
            for row in rows if row["part"] == "G8" and "times_faster" in row]


def show(row: dict) -> str:
    return (f"{row['bytes'] / (1 << 30):.1f} GiB, pages of {row['page_kib']} KiB: touched in {row['touch_s']:.3f} s, registered in {row['register_s']:.3f} s; "
            f"cudaHostAlloc {row['alloc_s']:.3f} s, {row['times_faster']:.1f} times that")
