"""A container that runs out of memory, as after a leak: a process in its control group takes more
and more, and the kernel kills."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time

from harness import containers
from harness.cluster import Namespace

_MOST_S = 60
_MOST_MIB = 8192  # a bound for containers without a limit, to protect the machine
_TAKER = f"input(); held = [b'x' * (1 << 20) for _ in range({_MOST_MIB})]; input()"


def exhaust(ns: Namespace, pod: str, container: str) -> None:
    """Returns once the kernel has killed a process of the container for memory; then all taken
    memory is given back.

    REQUIRES: the pod is not of QoS Guaranteed. The process that takes memory is the node's, outside
    of the container's namespaces, and small for the kernel against a process of such a pod. The
    kernel kills the container's largest one. A leak would end with its process; this process is
    ended at once afterwards. Until then the kernel, asked again, may kill the next largest too."""
    group = containers.control_group(ns.get("pod", pod), container)
    before, deadline = _kills(group), time.monotonic() + _MOST_S
    taker = subprocess.Popen([sys.executable, "-c", _TAKER], stdin=subprocess.PIPE, text=True)
    try:
        (group / "cgroup.procs").write_text(str(taker.pid))
        taker.stdin.write("take\n")
        taker.stdin.flush()
        while _kills(group) == before:  # no pause, since milliseconds count
            if time.monotonic() > deadline:
                raise LookupError(
                    f"{container} of {pod} was given {_MOST_S} s to take {_MOST_MIB} MiB and no "
                    "process was killed: the container has no limit"
                )
    finally:
        taker.kill()
        taker.communicate()


def _kills(group: pathlib.Path) -> int:
    """The number of kills by the kernel for this group's limit; -1: the group has gone, with its
    container."""
    for name in ("memory.oom_control", "memory.events"):  # cgroup version 1, version 2
        for line in containers.read(group / name).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return -1
