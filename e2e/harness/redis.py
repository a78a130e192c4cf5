"""A redis-server of one's own on a free port, empty and without a disk."""

from __future__ import annotations

import os
import pathlib
import socket
import time

from harness.process import Process, ProcessError
from harness.vllm_server import free_port


class Missing(ProcessError):
    """`make deps-servers` has not been run here."""


def program(name: str = "redis-server") -> str:
    """The place of `make deps-servers` (.ci/paths.sh)."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    found = (
        pathlib.Path(os.environ.get("LARDER_CACHE") or pathlib.Path(home) / "larder")
        / "servers"
        / name
    )
    if not found.exists():
        raise Missing(f"no {name} here: make deps-servers")
    return str(found)


class RedisServer(Process):
    """`url` is for larderd's configuration. After restart() the server is empty."""

    def __init__(self, folder: pathlib.Path, log_name: str = "redis.log"):
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._folder, self._log_name = folder, log_name
        self._start()

    def _start(self) -> None:
        command = [
            program(),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            str(self._folder),
        ]
        self._folder.mkdir(parents=True, exist_ok=True)
        super().__init__("redis-server", command, dict(os.environ), self._folder / self._log_name)
        self.wait_until(lambda: self.ask("PING") == "+PONG", 10)

    def restart(self) -> None:
        self.stop()
        self._start()

    def ask(self, line: str) -> str:
        """The first line of the raw answer to an inline command: "+OK", ":7"."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(f"{line}\r\n".encode())
            return connection.makefile("r").readline().rstrip("\r\n")

    def keys(self) -> int:
        return int(self.ask("DBSIZE").removeprefix(":"))

    def wait_settled(self, at_least: int, timeout_s: float = 60, quiet_s: float = 0.5) -> int:
        """Until the given number of keys is there, and no more keys come. Returns the number."""
        deadline, seen, since = time.monotonic() + timeout_s, -1, 0.0
        while True:
            now, there = time.monotonic(), self.keys()
            if there != seen:
                seen, since = there, now
            if there >= at_least and now - since >= quiet_s:
                return there
            if now > deadline:
                raise TimeoutError(
                    f"the backend holds {there} keys, not {at_least}, after {timeout_s:g} s"
                )
            time.sleep(0.05)
