"""Containers as the node sees them: their processes, which a test kills, their connections, which a
test cuts, and their charged memory."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess

from harness.cluster import ClusterError, Namespace, container_status, wait_until

# version 1, version 2
_CGROUPS = (pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup"))
_MIB = 1 << 20


def main_process(ns: Namespace, pod: str, container: str) -> int:
    """The node's number of the container's first process."""
    return processes(ns, pod, container)[0]


def processes(ns: Namespace, pod: str, container: str) -> list[int]:
    """The node's numbers of the processes in the container's cgroup, the oldest first; at least
    one."""
    identity = _identity(ns.get("pod", pod), container)
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit() and identity in read(folder / "cgroup"):
            start = int(read(folder / "stat").rsplit(") ", 1)[1].split()[19])
            found.append((start, int(folder.name)))
    if not found:
        raise ClusterError(f"{pod} has no process of {container}")
    return [number for _, number in sorted(found)]


def kill(ns: Namespace, pod: str, container: str, number: int = signal.SIGKILL) -> int:
    """Kills the container's first process, and with it the container. Returns the number of earlier
    restarts."""
    restarts = restart_count(ns, pod, container)
    os.kill(main_process(ns, pod, container), number)
    return restarts


def restart_count(ns: Namespace, pod: str, container: str) -> int:
    return container_status(ns.get("pod", pod), container)["restartCount"]


def wait_restarted(
    ns: Namespace, pod: str, container: str, before: int, timeout_s: float = 60
) -> None:
    """Until the kubelet has restarted the container, and the container is ready."""

    def back() -> bool:
        status = container_status(ns.get("pod", pod), container)
        return status["restartCount"] > before and status["ready"]

    wait_until(f"{container} of {pod} started anew", back, timeout_s)


def _in_network_of(ns: Namespace, pod: str, container: str) -> list[str]:
    """The prefix of a command that runs in the pod's network."""
    return ["nsenter", "-t", str(main_process(ns, pod, container)), "-n"]


def cut_connections(ns: Namespace, pod: str, container: str, address: str) -> int:
    """The pod's connections to this address and port end at this moment, as when a router forgets
    the connections. Returns their number."""
    command = [*_in_network_of(ns, pod, container), "ss", "-HKtn", "dst", address]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return len(found.splitlines())


@contextlib.contextmanager
def ports_taken(ns: Namespace, pod: str, container: str, *ports: int):
    """Until the end of the `with`, connections to these ports of the pod get no answer. A mesh has
    the same effect by a proxy that refuses clients without a certificate. `container` runs
    meanwhile."""
    enter = _in_network_of(ns, pod, container)
    listed = ",".join(map(str, ports))
    rule = ["INPUT", "-p", "tcp", "-m", "multiport", "--dports", listed, "-j", "DROP"]
    subprocess.run([*enter, "iptables", "-I", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run([*enter, "iptables", "-D", *rule], check=True)


def ended_by(pod: dict, container: str) -> str:
    """The reason for the container's last end, in the kubelet's word: OOMKilled, Error, Completed;
    "" for a container that never ended."""
    status = container_status(pod, container)
    return (status["state"].get("terminated") or status["lastState"].get("terminated") or {}).get(
        "reason", ""
    )


def charged_mib(pod: dict, container: str = "") -> float:
    """Memory charged to the pod as a whole, or to one of its containers alone, without the kernel's
    cache of files on disks."""
    return _without_files(control_group(pod, container)) / _MIB


def control_group(pod: dict, container: str = "") -> pathlib.Path:
    """Of the pod's memory, or of one of its containers'."""
    uid = pod["metadata"]["uid"]
    for root in _CGROUPS:
        for folder in root.glob(f"kubepods*/**/pod{uid}"):
            return folder / _identity(pod, container) if container else folder
    raise LookupError(f"no cgroup of pod {uid}")


def _without_files(folder: pathlib.Path) -> int:
    """Anonymous and shared memory: tmpfs counts, pages of the disk's cache do not."""
    lines = dict(line.split() for line in read(folder / "memory.stat").splitlines())
    if "total_rss" in lines:
        return int(lines["total_rss"]) + int(lines["total_shmem"])
    return int(lines["anon"]) + int(lines["shmem"])


def _identity(pod: dict, container: str) -> str:
    return container_status(pod, container)["containerID"].split("//")[1]


def read(path: pathlib.Path) -> str:
    """Empty if the file has gone, as for a process that has ended meanwhile."""
    try:
        return path.read_text()
    except OSError:
        return ""
