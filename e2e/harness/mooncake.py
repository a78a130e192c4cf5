"""A Mooncake pool of one's own: a real master and segment owners in a network namespace without any
way out. Mooncake opens ports to everybody and has no password."""

from __future__ import annotations

import pathlib

from harness import plugin_environment
from harness.private_network import PrivateNetwork
from harness.process import Process

ROOT = pathlib.Path(__file__).resolve().parents[2]
MASTER = "127.0.0.1:50051"  # inside the namespace
URL = f"mooncake://{MASTER}"


def programs() -> pathlib.Path:
    """The folder of Mooncake's programs and their Python."""
    return plugin_environment.programs("mooncake", "mooncake_master")


class MooncakePool:
    """Starts a namespace, a master and two processes that contribute `each_mib` MiB each. Not
    thread-safe. Use as a context manager, or call stop()."""

    def __init__(self, folder: pathlib.Path, each_mib: int = 256):
        self._bin = programs()
        self._network = PrivateNetwork(folder)
        self.enter, self.run = self._network.enter, self._network.run
        self.start_master()
        self.owners = [self.start_owner(each_mib) for _ in range(2)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start_master(self) -> None:
        """Empty, as a restarted master is."""
        host, _, port = MASTER.rpartition(":")
        # The program itself, not the wheel's wrapper: a signal reaches the master.
        master = next(self._bin.parent.glob("lib/python3*/site-packages/mooncake/mooncake_master"))
        self.master = self.run("master", [str(master), "--rpc_address", host, "--rpc_port", port])
        self.master.wait_until(lambda: self.listens(int(port)), 20)

    def start_owner(self, mib: int) -> Process:
        owner = self.run(
            "owner",
            [
                *self.plugin("--master", MASTER, "--contribute", f"{mib}MiB"),
                *("--socket", "/none", "--part", "owner"),
            ],
        )
        owner.wait_until(lambda: "contributed" in owner.tail(), 20)
        return owner

    def plugin(self, *arguments: str) -> list[str]:
        """The command of larder-mooncake, without the namespace."""
        paths = f"PYTHONPATH={ROOT / 'plugins'}:{ROOT / 'plugins' / 'mooncake'}"
        return ["env", paths, str(self._bin / "python"), "-m", "larder_mooncake", *arguments]

    def start_plugin(self, socket: pathlib.Path) -> Process:
        """Inside the namespace. larderd may be outside: a Unix socket knows no namespace."""
        return self.run("plugin", self.plugin("--socket", str(socket)))

    def listens(self, port: int) -> bool:
        return self._network.listens(port)

    def stop(self) -> None:
        for process in [*getattr(self, "owners", []), getattr(self, "master", None)]:
            if process:
                process.stop(3)
        self._network.stop()
