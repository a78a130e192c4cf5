"""larderd from the build tree, with a configuration, socket and shared memory of its own."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import socket

from harness.process import Process
from larder import larderd_metrics


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str):
        super().__init__("localhost", timeout=5)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Larderd(Process):
    """`folder` holds socket, configuration and log; `name` is unique among running larderd.
    `listen`: HOST:PORT of metrics, if any. `pool`: of peers; by default `name`."""

    def __init__(
        self,
        binary: str | os.PathLike,
        folder: pathlib.Path,
        name: str,
        size: str = "5GiB",
        extra: str = "",
        log_name: str = "larderd.log",
        listen: str = "",
        pool: str = "",
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = str(folder / "larder.sock")
        self.admin_socket = str(folder / "larder.admin")
        self.shm_name = name
        config = folder / "larder.yaml"
        config.write_text(
            f"pool: {pool or name}\nsocket: {self.socket}\n"
            f"memory:\n  size: {size}\n  shm_name: {name}\n"
            # A stopped larderd leaves no file in /dev/shm; a killed one leaves all
            # files, for the next larderd of the name.
            f"  keep_on_exit: false\n"
            f'http:\n  listen: "{listen}"\n  admin_socket: {self.admin_socket}\n{extra}'
        )
        env = {k: v for k, v in os.environ.items() if not k.startswith("LARDER_")}
        super().__init__("larderd", [str(binary), "--config", str(config)], env, folder / log_name)

    def request(self, method: str, path: str) -> tuple[int, str]:
        connection = _UnixConnection(self.admin_socket)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def status(self) -> dict:
        return json.loads(self.request("GET", "/v1/status")[1])

    def metrics(self) -> dict[str, float]:
        """Samples by "name{labels}"."""
        return larderd_metrics.samples(self.request("GET", "/metrics")[1])

    def chunk_tokens(self) -> int:
        """Tokens of a chunk in the only namespace, by the namespace's fingerprint."""
        (space,) = self.status()["namespaces"]
        lines = dict(
            line.split(": ", 1) for line in space["fingerprint"].splitlines() if ": " in line
        )
        return int(lines["chunk_tokens"])

    def wait_ready(self, timeout_s: float = 60, progress=None) -> None:
        self.wait_until(lambda: self.request("GET", "/readyz")[0] == 200, timeout_s, progress)

    def wait_settled(self, timeout_s: float = 60) -> dict:
        """Waits until no grant can still be committed; gives the status. larderd reports the state
        of its last tick: only a later tick has seen all earlier grants."""
        earlier, now = self.status()["uptime_seconds"], {}

        def settled() -> bool:
            now.update(self.status())
            return now["uptime_seconds"] > earlier and now["memory"]["slots"]["granted"] == 0

        self.wait_until(settled, timeout_s)
        return now

    def wait_touched(self, timeout_s: float = 120, progress=None) -> None:
        def touched() -> bool:
            memory = self.status()["memory"]
            return memory["touched_bytes"] >= memory["capacity_bytes"]

        self.wait_until(touched, timeout_s, progress)
