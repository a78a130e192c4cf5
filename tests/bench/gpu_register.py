"""G8: memory of larderd, touched by larderd's method and registered by an engine's method, against
cudaHostAlloc of the same size. With pages of 4 KiB, of 2 MiB, and of 1 GiB (without a goal). All
memory is given back after each time; the arms take turns. The time of registration includes the
pauses that the product makes between slices.

Behind these rounds each size is registered once more beside small launches, of this process and of
another process on the same GPU. A driver registers under locks of the whole node, and the worst
launch shows the cost for neighbours. The report has this launch beside the worst launch without a
registration."""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Iterator

from gpu_arms import Arms, ArmsError
from harness import goals

GOAL = 10
LAUNCHES = ("launch_alone", "launch_here", "launch_neighbour")
SMALL, HUGE, GIGANTIC = 4 << 10, 2 << 20, 1 << 30
SYSTEM = pathlib.Path("/sys/kernel/mm/hugepages")


@dataclass(frozen=True)
class Scale:
    bytes: int = 4 << 30
    rounds: int = 5
    alone_s: float = 2


@contextmanager
def huge_pages(size: int, page: int, system: pathlib.Path = SYSTEM) -> Iterator[str]:
    """So many bytes of free ones for a while, where this machine lets us: else why not."""
    pool, called, count = (
        system / f"hugepages-{page >> 10}kB",
        f"pages of {page >> 20} MiB",
        size // page,
    )
    if size % page:
        yield f"{size >> 20} MiB are no whole {called}"
        return
    try:
        before, free = (
            int((pool / name).read_text()) for name in ("nr_hugepages", "free_hugepages")
        )
        if free < count:
            (pool / "nr_hugepages").write_text(str(before + count - free))
    except OSError as error:
        yield f"no {called} can be had ({error.strerror})"
        return
    try:
        free = int((pool / "free_hugepages").read_text())
        yield "" if free >= count else f"only {free} of {count} {called} are free"
    finally:
        (pool / "nr_hugepages").write_text(str(before))


def measure(arms: Arms, scale: Scale = Scale()) -> list[dict]:
    with ExitStack() as stack:
        missing = {
            page: stack.enter_context(huge_pages(scale.bytes, page)) for page in (HUGE, GIGANTIC)
        }
        rounds: list[dict[int, tuple[float, float]]] = []
        allocs: list[float] = []
        for _ in range(1 + scale.rounds):  # the first one warms up
            allocs.append(arms.host_alloc_s(scale.bytes))
            rounds.append({})
            for page in [SMALL, *(page for page, why in missing.items() if not why)]:
                try:
                    rounds[-1][page] = arms.touch_and_register_s(scale.bytes, page)
                except ArmsError as error:
                    if page == SMALL:
                        raise
                    missing[page] = str(error)
        rows = [
            {**row, **disturbed(arms, scale, row["page_kib"] << 10)}
            for row in rows_of(scale.bytes, allocs[1:], rounds[1:])
        ]
    return rows + [
        {"part": "G8", "page_kib": page >> 10, "bytes": scale.bytes, "not_measured": why}
        for page, why in missing.items()
        if why
    ]


def disturbed(arms: Arms, scale: Scale, page: int) -> dict:
    """The worst launch in microseconds, alone and during a registration, here and in another
    process; or the reason why there is no figure."""
    try:
        with arms.launches() as alone:
            time.sleep(scale.alone_s)
        with neighbour(arms) as others, arms.launches() as here:
            arms.touch_and_register_s(scale.bytes, page)
    except ArmsError as error:
        return {"launches_not_measured": str(error)}
    return {
        "launch_alone_us": alone["worst_us"],
        "launch_here_us": here["worst_us"],
        "launch_neighbour_us": others["worst_us"],
    }


@contextmanager
def neighbour(arms: Arms) -> Iterator[dict[str, float]]:
    """A process that launches meanwhile; the times at the end."""
    command = [sys.executable, str(pathlib.Path(__file__).with_name("gpu_neighbour.py")), arms.path]
    took: dict[str, float] = {}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout.readline() != "ready\n":
            raise ArmsError("no second process with work on this GPU")
        try:
            yield took
        finally:
            told, _ = process.communicate(timeout=60)
    took.update(json.loads(told))


def rows_of(
    size: int, allocs: list[float], rounds: list[dict[int, tuple[float, float]]]
) -> list[dict]:
    """allocs: seconds of cudaHostAlloc in each round; rounds: seconds of touching and of
    registering, by size of page."""
    return [
        {
            "part": "G8",
            "page_kib": page >> 10,
            "bytes": size,
            "alloc_s": statistics.median(allocs),
            "touch_s": statistics.median(one[page][0] for one in rounds),
            "register_s": statistics.median(one[page][1] for one in rounds),
            "times_faster": statistics.median(
                alloc / sum(one[page]) for alloc, one in zip(allocs, rounds)
            ),
        }
        for page in rounds[0]
        if all(page in one for one in rounds)
    ]


def judge(rows: list[dict]) -> list[dict]:
    measured = {
        f"G8.{row['page_kib']}_kib.times_faster": row
        for row in rows
        if row["part"] == "G8" and "times_faster" in row
    }
    verdict = [
        goals.figure(name, row["times_faster"])
        if row["page_kib"] == GIGANTIC >> 10
        else goals.goal(name, row["times_faster"], ">=", GOAL)
        for name, row in measured.items()
    ]
    return verdict + [
        goals.figure(f"G8.{row['page_kib']}_kib.{where}_us", row[f"{where}_us"])
        for row in measured.values()
        for where in LAUNCHES
        if f"{where}_us" in row
    ]


def show(row: dict) -> str:
    launches = (
        f"; the worst launch {row['launch_alone_us']:.0f} us alone, {row['launch_here_us']:.0f} "
        f"here and {row['launch_neighbour_us']:.0f} in a neighbour meanwhile"
        if "launch_here_us" in row
        else f"; launches: not measured: {row.get('launches_not_measured', 'not asked')}"
    )
    return (
        f"{row['bytes'] / (1 << 30):.1f} GiB, pages of {row['page_kib']} KiB: touched in "
        f"{row['touch_s']:.3f} s, registered in {row['register_s']:.3f} s; "
        f"cudaHostAlloc {row['alloc_s']:.3f} s, {row['times_faster']:.1f} times that{launches}"
    )
