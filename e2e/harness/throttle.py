"""A slow disk for one process, below all code of the process: the kernel's block throttle (cgroup
v1), which needs root.

The program has no sleep: the kernel holds reads back at the place of a slow device."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time

CONTROLLER = pathlib.Path("/sys/fs/cgroup/blkio")
STALLED = 1  # bytes per second, practically no traffic


class Unavailable(RuntimeError):
    """This machine cannot throttle; the text says why."""


def device_of(path: pathlib.Path) -> str:
    """The numbers "major:minor" of the whole disk that `path` lies on."""
    number = os.stat(path).st_dev
    node = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not node.exists():
        raise Unavailable(f"{path} lies on no block device")
    if (node / "partition").exists():
        return (node.resolve().parent / "dev").read_text().strip()
    return node.name


class Throttle:
    """Holds back the reads of `pid` and its threads from the disk of `path`. Use as a context
    manager: the end restores the former state."""

    def __init__(self, pid: int, path: pathlib.Path):
        self._pid, self._device = pid, device_of(path)
        self._group = CONTROLLER / f"larder-throttle-{pid}"
        try:
            self._group.mkdir()
            (self._group / "cgroup.procs").write_text(str(pid))
            self.reads(0)
        except OSError as error:
            self.close()
            raise Unavailable(f"no block throttle: {error}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def reads(self, bytes_per_s: int) -> None:
        """From now on, also for waiting reads; 0: the disk's full speed."""
        (self._group / "blkio.throttle.read_bps_device").write_text(f"{self._device} {bytes_per_s}")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.reads(0)
        with contextlib.suppress(OSError):  # the process has ended
            (CONTROLLER / "cgroup.procs").write_text(str(self._pid))
        for _ in range(50):  # a group stays busy for a moment after its last process
            try:
                return self._group.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)
