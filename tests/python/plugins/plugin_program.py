"""Program: a plug-in as a child process, and FakeService: what larder-mooncake finds in place of
the wheel and the master."""

import json
import os
import pathlib
import socket
import time

from harness.process import Process

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent


class Program(Process):
    """`name`: "mooncake", the folder in plugins/."""

    def __init__(self, name, folder, python, arguments, extra_path=(), env=None):
        path = [str(ROOT / "plugins"), str(ROOT / "plugins" / name), *map(str, extra_path)]
        command = [python, "-m", f"larder_{name}", *arguments]
        super().__init__(
            f"larder-{name}",
            command,
            dict(os.environ) | {"PYTHONPATH": ":".join(path)} | (env or {}),
            folder / f"larder-{name}.log",
        )


class FakeService:
    """The faults and the notes of fake_wheel, and a port in place of the master."""

    def __init__(self, folder):
        self._file = folder / "faults.json"
        self.env = {"FAKE_MOONCAKE": str(self._file)}
        self.fault()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.master = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def fault(self, block=(), codes=None, lost=()):
        faults = {"block": list(block), "codes": codes or {}, "lost": list(lost)}
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(faults))
        new.rename(self._file)

    def calls(self, name):
        """The sizes of the calls of this name."""
        notes = pathlib.Path(f"{self._file}.calls")
        lines = notes.read_text().splitlines() if notes.exists() else []
        return [int(line.split()[1]) for line in lines if line.split()[0] == name]

    def close(self):
        self._listener.close()


def wait_until(ready, seconds=30):
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.02)


def children(pid):
    tasks = pathlib.Path("/proc", str(pid), "task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
