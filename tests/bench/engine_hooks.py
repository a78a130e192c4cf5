"""Nanoseconds and calls of each connector hook, counted by the engine's processes in files that the
running bench reads; and the threads of these processes that are Larder's.

One file a process (its role), one writer each; a counter is one aligned 64-bit word. Uses no vLLM,
so the bench reads without vLLM."""

from __future__ import annotations

import mmap
import os
import pathlib

FOLDER_VARIABLE = "LARDER_BENCH_HOOKS"
MOST_HOOKS = 64
_NAME_BYTES = 64
_NAMES_BYTES = MOST_HOOKS * _NAME_BYTES
_FILE_BYTES = _NAMES_BYTES + MOST_HOOKS * 16


class HookCounts:
    """The writer's side. Owned by the thread that runs the hooks."""

    def __init__(self, folder: str, role: str, names: list[str]):
        if len(names) > MOST_HOOKS:
            raise ValueError(f"{len(names)} hooks are more than {MOST_HOOKS}")
        path = pathlib.Path(folder) / f"{role}.hooks"
        table = b"".join(name.encode().ljust(_NAME_BYTES, b"\0") for name in names)
        path.write_bytes(table.ljust(_FILE_BYTES, b"\0"))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FILE_BYTES)
        self._words = memoryview(self._map)[_NAMES_BYTES:].cast("Q")

    def add(self, index: int, nanoseconds: int) -> None:
        self._words[2 * index] += nanoseconds
        self._words[2 * index + 1] += 1


def read(folder: pathlib.Path) -> dict[str, tuple[int, int]]:
    """(nanoseconds, calls) by "role.hook", of every file in the folder."""
    counts = {}
    for path in sorted(folder.glob("*.hooks")):
        data = path.read_bytes()
        words = memoryview(data)[_NAMES_BYTES:].cast("Q")
        for index in range(MOST_HOOKS):
            name = data[index * _NAME_BYTES : (index + 1) * _NAME_BYTES].rstrip(b"\0").decode()
            if name:
                counts[f"{path.stem}.{name}"] = (words[2 * index], words[2 * index + 1])
    return counts


def note_process(folder: str, role: str, log_thread: int) -> None:
    """For larder_threads(). log_thread: the thread of Larder's that the thread's name does not
    show."""
    (pathlib.Path(folder) / f"{role}.process").write_text(f"{os.getpid()} {log_thread}")


def larder_threads(folder: pathlib.Path) -> list[pathlib.Path]:
    """/proc/PID/task/TID of all threads that Larder runs in the noted processes."""
    found = []
    for path in sorted(folder.glob("*.process")):
        pid, log_thread = path.read_text().split()
        found += [
            task
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
            if task.name == log_thread or (task / "comm").read_text().startswith("larder")
        ]
    return found


def processor_ns(threads: list[pathlib.Path]) -> int:
    """Processor time that threads have used."""
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


def difference(after: dict, before: dict) -> dict[str, tuple[int, int]]:
    """The difference between two readings."""
    return {
        name: (ns - before.get(name, (0, 0))[0], calls - before.get(name, (0, 0))[1])
        for name, (ns, calls) in after.items()
    }
