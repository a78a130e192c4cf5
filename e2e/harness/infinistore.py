"""An InfiniStore server of one's own: the real server of the wheel, in a network namespace without
any way out. A small library pretends the RDMA device."""

from __future__ import annotations

import pathlib
import subprocess

from harness import plugin_environment
from harness.private_network import PrivateNetwork
from harness.process import Process

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "python" / "plugins"
PORT, MANAGE_PORT = 12345, 18080
PLACE = f"127.0.0.1:{PORT}"  # inside the namespace
URL = f"infinistore://{PLACE}"


class InfiniStore:
    """A namespace and a server with `gib` GiB of memory, which the kernel gives as it is used. Not
    thread-safe. Use as a context manager, or call stop()."""

    def __init__(self, folder: pathlib.Path, gib: int = 1):
        self._bin, self._gib = plugin_environment.programs("infinistore", "python"), gib
        self._library = folder / "verbs" / "libibverbs.so.1"
        self._library.parent.mkdir()
        source = TESTS / "fake_verbs.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self._library, source], check=True)
        self._network = PrivateNetwork(folder)
        self.enter, self.run = self._network.enter, self._network.run
        self.start_server()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start_server(self) -> None:
        """Empty, as a restarted server is."""
        arguments = f"--service-port {PORT} --manage-port {MANAGE_PORT} --link-type IB"
        arguments += f" --dev-name fake0 --prealloc-size {self._gib} --log-level warning"
        path = f"LD_LIBRARY_PATH={self._library.parent}"
        program = [str(self._bin / "python"), str(TESTS / "infinistore_server.py")]
        self.server = self.run("server", ["env", path, *program, *arguments.split()])
        # The port of the management opens last.
        self.server.wait_until(lambda: self.listens(MANAGE_PORT), 30)

    def purge(self) -> None:
        """By the server's own interface: all values go."""
        address = f"http://127.0.0.1:{MANAGE_PORT}/purge"
        subprocess.run([*self.enter, "curl", "-sfX", "POST", address], check=True)

    def plugin(self, *arguments: str) -> list[str]:
        """The command of larder-infinistore, without the namespace."""
        paths = f"PYTHONPATH={ROOT / 'plugins'}:{ROOT / 'plugins' / 'infinistore'}"
        return ["env", paths, "/usr/bin/python3", "-m", "larder_infinistore", *arguments]

    def start_plugin(self, socket: pathlib.Path) -> Process:
        """Inside the namespace. larderd may be outside: a Unix socket knows no namespace."""
        return self.run("plugin", self.plugin("--socket", str(socket)))

    def listens(self, port: int) -> bool:
        return self._network.listens(port)

    def stop(self) -> None:
        if server := getattr(self, "server", None):
            server.stop(1)
        self._network.stop()
