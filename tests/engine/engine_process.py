"""Starts an engine as a separate process and asks over pipes: DEADLINE_S for each answer."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEADLINE_S = 180  # importing torch takes ten seconds, and several times that on a busy machine


class Died(RuntimeError):
    pass


class EngineProcess:
    """`program`: Python's arguments; the options follow as the last one."""

    def __init__(self, log, program=("-m", "paged_engine.process"), env=os.environ, **options):
        path = os.pathsep.join(
            (str(HERE), str(HERE.parents[1] / "shim" / "python"), env.get("PYTHONPATH", ""))
        )
        command = [sys.executable, *program, json.dumps(options)]
        self._log = log
        with open(log, "wb") as out:
            self._child = subprocess.Popen(
                command,
                env={**env, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                start_new_session=True,
            )
        self._unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._child.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)  # vLLM starts more processes
        self._child.wait(timeout=30)
        self._child.stdout.close()

    def wait_attached(self):
        assert self.read() == {"attached": True}
        return self

    def ask(self, prompt=None, **how):
        self.send(prompt, **how)
        return self.read()

    def send(self, prompt=None, **how):
        asked = dict(how, prompt=prompt) if prompt is not None else how
        self._child.stdin.write(json.dumps(asked).encode() + b"\n")
        self._child.stdin.flush()

    def read(self):
        """The next answer. Died: no answer came."""
        deadline = time.monotonic() + DEADLINE_S
        while b"\n" not in self._unread:
            ready, _, _ = select.select(
                [self._child.stdout], [], [], max(deadline - time.monotonic(), 0)
            )
            more = os.read(self._child.stdout.fileno(), 1 << 16) if ready else b""
            if not more:
                raise Died(
                    "no answer from an engine; its log: "
                    f"{Path(self._log).read_text(errors='replace')[-2000:]}"
                )
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def kill(self):
        """Sends SIGKILL and returns without a wait."""
        self._child.kill()

    def wait_ended(self):
        """Waits for the end and returns the exit status."""
        return self._child.wait(timeout=DEADLINE_S)
