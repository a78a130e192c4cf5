"""A container that runs out of memory, as of a leak: somebody in its control group takes more and more, and the kernel kills."""

from __future__ import annotations

import pathlib
import subprocess
import sys

from harness import containers
from harness.cluster import Namespace

_STEP_MIB = 64
_MOST_MIB = 8192  # a container without a limit is not filled: the machine would be
_TAKER = f"import sys\nheld = []\nfor _ in sys.stdin:\n    held.append(b'x' * ({_STEP_MIB} << 20))\n    print(flush=True)"


def exhaust(ns: Namespace, pod: str, container: str) -> None:
    """Returns once the kernel has killed a process of the container for memory; then all that was taken is given back.

    REQUIRES: the pod is not of QoS Guaranteed. What takes is of the node, outside of the container's namespaces, and nothing to the kernel in
    comparison with a process of such a pod: it kills the container's largest one."""
    group = containers.control_group(ns.get("pod", pod), container)
    before = _kills(group)
    taker = subprocess.Popen([sys.executable, "-c", _TAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        (group / "cgroup.procs").write_text(str(taker.pid))
        for _ in range(_MOST_MIB // _STEP_MIB):
            taker.stdin.write("more\n")
            taker.stdin.flush()
            taker.stdout.readline()
            if _kills(group) != before:
                return
    finally:
        taker.kill()
        taker.communicate()
    raise LookupError(f"{container} of {pod} took {_MOST_MIB} MiB and nobody was killed: it has no limit")


def _kills(group: pathlib.Path) -> int:
    """How often the kernel killed for this group's limit; -1: the group has gone, and its container with it."""
    for name in ("memory.oom_control", "memory.events"):  # of version 1, of version 2
        for line in containers.read(group / name).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return -1
