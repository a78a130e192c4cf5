"""A network namespace without any way out, for services that open ports to everybody and have no
password. Also without root: a namespace of users around that of the network."""

from __future__ import annotations

import os
import pathlib
import subprocess

from harness.process import Process


class PrivateNetwork:
    """Has a loopback alone. Not thread-safe. Call stop() after the end of all processes inside."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self._started = folder, 0
        hold = "ip link set lo up && echo up && exec sleep infinity"
        self._holder = Process(
            "namespace",
            ["unshare", "--map-root-user", "--net", "sh", "-c", hold],
            dict(os.environ),
            folder / "namespace.log",
        )
        self._holder.wait_until(lambda: self._holder.tail() == "up", 10)
        pid = str(self._holder.child.pid)
        self.enter = ["nsenter", "--target", pid, "--user", "--preserve-credentials", "--net"]

    def run(self, name: str, command: list[str]) -> Process:
        """Inside the namespace."""
        self._started += 1
        log = self.folder / f"{name}-{self._started}.log"
        return Process(name, [*self.enter, *command], dict(os.environ), log)

    def listens(self, port: int) -> bool:
        found = subprocess.run(
            [*self.enter, "cat", "/proc/net/tcp"], capture_output=True, text=True, check=True
        )
        return f":{port:04X} 00000000:0000 0A" in found.stdout

    def stop(self) -> None:
        self._holder.stop(1)
