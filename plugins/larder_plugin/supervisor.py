"""Supervisor: keeps the processes of a plug-in alive, until SIGTERM or SIGINT.

The part `plugin` ends with each connection to larderd. Other parts of a plug-in live longer.
The supervisor reads the output of the parts, so that an unread log delays no part."""

import ctypes
import signal
import subprocess
import sys
import threading
import time
from typing import NamedTuple

from .log import Log

_PR_SET_PDEATHSIG = 1
_PAUSE_S = 0.2  # after a life that ended with its connection, or by a signal
# After a life that ended with an error of settings or of a protocol: each pause is twice the last.
_LONG_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 60.0
_STOP_S = 3.0
_LAST_WORDS_S = 1.0  # for the rest of an ended part's output, and of the log
_MOST_LINE_BYTES = 8192
_MOST_KEPT_LINES = 64  # of one life, to recognize the same failure


def supervise(name, module, parts, arguments, give=None):
    """Runs `python -m MODULE --part PART ARGUMENTS` for each part until a signal. Returns the exit
    status. `name`: the program, in log lines. `give`: makes a socket for each new process, which
    finds the socket by --given."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    log = Log(name)
    threads = []
    for part in parts:
        command = [sys.executable, "-m", module, "--part", part, *arguments]
        own = Part(name, part, command, give)
        threads.append(threading.Thread(target=keep, args=(own, stopping, log)))
        threads[-1].start()
    while not stopping.wait(1.0):
        pass
    for thread in threads:
        thread.join()
    log.flush(_LAST_WORDS_S)
    return 0


def end_with_parent():
    """A part calls this function first: SIGKILL of the supervisor ends the part, too."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Part(NamedTuple):
    """A process of a plug-in."""

    program: str  # in log lines
    name: str
    command: list
    give: object = None  # see supervise()


def keep(part, stopping, log):
    """Runs the part again and again, until `stopping` (a threading.Event)."""
    output, long_pause = _Output(part.program, log), _LONG_PAUSE_S
    while not stopping.is_set():
        started, failed = time.monotonic(), True
        try:
            child = _start(part)
        except OSError as error:  # no process or memory left: the thread must go on
            output.take(f"{part.program}: {part.name} does not start: {error}\n".encode())
        else:
            reader = threading.Thread(target=output.read, args=(child.stdout,), daemon=True)
            reader.start()
            while child.poll() is None and not stopping.wait(0.05):
                pass
            _end(child)
            reader.join(_LAST_WORDS_S)
            failed = child.returncode > 0
        output.end_life(failed)
        if not failed or time.monotonic() - started > _LONGEST_PAUSE_S:
            long_pause = _LONG_PAUSE_S
        stopping.wait(long_pause if failed else _PAUSE_S)
        if failed:
            long_pause = min(2 * long_pause, _LONGEST_PAUSE_S)


class _Output:
    """The output of a part. A failure that comes again is counted, and told with the next new
    line."""

    def __init__(self, program, log):
        self._program, self._log = program, log
        self._before, self._now = set(), set()  # lines of the last failed life, and of this one
        self._repeated, self._repeats = False, 0

    def read(self, stream):
        with stream:
            while line := stream.readline(_MOST_LINE_BYTES):
                self.take(line)

    def take(self, line):
        if len(self._now) < _MOST_KEPT_LINES:
            self._now.add(line)
        if line in self._before:
            self._repeated = True
            return
        self._before = set()  # another life than the last: its next lines are news
        if self._repeats:
            told = f"{self._program}: the last failure came {self._repeats} more times\n"
            self._log.add(told.encode())
            self._repeats = 0
        self._log.add(line)

    def end_life(self, failed):
        self._repeats += failed and self._repeated
        self._before, self._now = (self._now if failed else set()), set()
        self._repeated = False


def _start(part):
    # A terminal's Ctrl-C reaches the supervisor alone.
    how = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "process_group": 0,
    }
    if part.give is None:
        return subprocess.Popen(part.command, **how)
    with part.give() as given:
        number = given.fileno()
        return subprocess.Popen([*part.command, "--given", str(number)], pass_fds=[number], **how)


def _end(child):
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
