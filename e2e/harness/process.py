"""One child process in a group of its own: its log in a file, its death noticed, its whole group
ended, also after Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import time


class ProcessError(RuntimeError):
    """A process that did not become ready; the text ends with the tail of its log."""


class Process:
    """Starts `command` at once. Not thread-safe. Use as a context manager, or call stop()."""

    def __init__(self, name: str, command: list[str], env: dict[str, str], log: pathlib.Path):
        self.name, self.log = name, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as out:
            self.child = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait_until(self, ready, timeout_s: float, progress=None) -> None:
        """Polls ready() until ready() is true. Raises ProcessError at the end of the process or of
        the time."""
        started = told = time.monotonic()
        while True:
            with contextlib.suppress(OSError):
                if ready():
                    return
            now = time.monotonic()
            if self.child.poll() is not None:
                raise ProcessError(
                    f"{self.name} ended with status {self.child.returncode}; "
                    f"its log {self.log} ends:\n{self.tail()}"
                )
            if now - started > timeout_s:
                raise ProcessError(
                    f"{self.name} was not ready after {timeout_s:.0f} s; its log {self.log} ends:\n"
                    f"{self.tail()}"
                )
            if progress and now - told >= 5:
                told = now
                progress(f"{self.name}: {now - started:.0f} s")
            time.sleep(0.1)

    def kill(self) -> None:
        """SIGKILL to this process alone, as a crash would."""
        self.child.kill()
        self.child.wait(timeout=30)

    def stop(self, grace_s: float = 10) -> None:
        """SIGTERM to the group, SIGKILL after grace_s: vLLM's workers outlive their parent
        otherwise."""
        for sig, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 30)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, sig)
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                self.child.poll()
                if not _group_alive(self.child.pid):
                    return
                time.sleep(0.05)


def _group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
