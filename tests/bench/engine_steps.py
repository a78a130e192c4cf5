"""One record of each step of an engine, written by the engine's scheduler and read by the running
bench; and losses, computed from the records.

Uses no vLLM, so the bench reads without vLLM."""

from __future__ import annotations

import mmap
import pathlib
import statistics
from typing import NamedTuple

NONE, LARDER, EMPTY = range(3)  # which connector a step was done with

_KEPT = 1 << 16
_FILE_BYTES = 8 + _KEPT * 16


class Step(NamedTuple):
    connector: int
    tokens: int
    ns: int


class StepLog:
    """The writer's side: a count, then a ring of (nanoseconds, tokens and connector). Owned by the
    scheduler's thread."""

    def __init__(self, folder: str):
        path = pathlib.Path(folder) / "steps"
        path.write_bytes(bytes(_FILE_BYTES))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FILE_BYTES)
        self._words = memoryview(self._map).cast("Q")

    def add(self, connector: int, tokens: int, ns: int) -> None:
        at = 1 + 2 * (self._words[0] % _KEPT)
        self._words[at], self._words[at + 1] = ns, 4 * tokens + connector
        self._words[0] += 1


def count(folder: pathlib.Path) -> int:
    """Steps written so far; 0 without a writer."""
    path = folder / "steps"
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        return int.from_bytes(file.read(8), "little")


def since(folder: pathlib.Path, before: int) -> list[Step]:
    """The steps written after count() was `before`."""
    if not (folder / "steps").exists():
        return []
    words = memoryview((folder / "steps").read_bytes()).cast("Q")
    places = (1 + 2 * (number % _KEPT) for number in range(before, words[0]))
    return [Step(words[at + 1] & 3, words[at + 1] >> 2, words[at]) for at in places]


def block_losses(steps: list[Step], tokens: int, connector: int, least: int = 3) -> list[float]:
    """The differences between pairs of neighbouring blocks, one with that connector and one
    without: of each block the median of its steps.

    Only steps of `tokens` tokens count, which all do the same work; blocks of fewer than `least`
    such steps are left out."""
    blocks: list[tuple[int, list[int]]] = []
    for step in steps:
        if step.tokens != tokens:
            continue
        if not blocks or blocks[-1][0] != step.connector:
            blocks.append((step.connector, []))
        blocks[-1][1].append(step.ns)
    whole = [(used, statistics.median(ns)) for used, ns in blocks if len(ns) >= least]
    losses = []
    for pair in zip(whole[::2], whole[1::2]):
        ns = dict(pair)
        if ns.keys() == {NONE, connector}:
            losses.append(1 - ns[NONE] / ns[connector])
    return losses


def total_ns(steps: list[Step]) -> int:
    return sum(step.ns for step in steps)
