"""One record of each step of an engine, written by its scheduler and read by the bench while it runs; and losses, from them.

No vLLM in here: the bench reads without it."""

from __future__ import annotations

import mmap
import pathlib
import statistics
from typing import NamedTuple

_KEPT = 1 << 16
_FILE_BYTES = 8 + _KEPT * 16


class Step(NamedTuple):
    attached: bool  # done with the connector
    tokens: int
    ns: int


class StepLog:
    """The writer's side: a count, then a ring of (nanoseconds, tokens and mode). Owned by the scheduler's thread."""

    def __init__(self, folder: str):
        path = pathlib.Path(folder) / "steps"
        path.write_bytes(bytes(_FILE_BYTES))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FILE_BYTES)
        self._words = memoryview(self._map).cast("Q")

    def add(self, attached: bool, tokens: int, ns: int) -> None:
        at = 1 + 2 * (self._words[0] % _KEPT)
        self._words[at], self._words[at + 1] = ns, 2 * tokens + attached
        self._words[0] += 1


def count(folder: pathlib.Path) -> int:
    """Steps written so far; 0 where nobody writes."""
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
    return [Step(bool(words[at + 1] & 1), words[at + 1] >> 1, words[at]) for at in places]


def block_losses(steps: list[Step], tokens: int, least: int = 3) -> list[float]:
    """What pairs of neighbouring blocks, one with the connector and one without, differ by: of each block the median of its steps.

    Only steps of `tokens` tokens count, which all do the same work; blocks of fewer than `least` of them are left out."""
    blocks: list[tuple[bool, list[int]]] = []
    for step in steps:
        if step.tokens != tokens:
            continue
        if not blocks or blocks[-1][0] != step.attached:
            blocks.append((step.attached, []))
        blocks[-1][1].append(step.ns)
    whole = [(attached, statistics.median(ns)) for attached, ns in blocks if len(ns) >= least]
    losses = []
    for (first_attached, first), (second_attached, second) in zip(whole[::2], whole[1::2]):
        if first_attached != second_attached:
            attached, without = (first, second) if first_attached else (second, first)
            losses.append(1 - without / attached)
    return losses


def total_ns(steps: list[Step]) -> int:
    return sum(step.ns for step in steps)
