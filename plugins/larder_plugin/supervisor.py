"""Supervisor: keeps the processes of a plug-in alive, until SIGTERM or SIGINT.

The part `plugin` ends with each connection to larderd. Other parts of a plug-in live longer."""

import ctypes
import signal
import subprocess
import sys
import threading

_PR_SET_PDEATHSIG = 1
_PAUSE_S = 0.2  # after a life that ended with its connection, or by a signal
_LONG_PAUSE_S = 5.0  # after a life that ended with an error of settings or of a protocol
_STOP_S = 3.0


def supervise(module, parts, arguments, give=None):
    """Runs `python -m MODULE --part PART ARGUMENTS` for each part until a signal. Returns the exit
    status. `give`: makes a socket for each new process, which finds the socket by --given."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threads = [
        threading.Thread(target=_keep, args=(module, part, arguments, give, stopping))
        for part in parts
    ]
    for thread in threads:
        thread.start()
    while not stopping.wait(1.0):
        pass
    for thread in threads:
        thread.join()
    return 0


def end_with_parent():
    """A part calls this function first: SIGKILL of the supervisor ends the part, too."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _keep(module, part, arguments, give, stopping):
    while not stopping.is_set():
        try:
            child = _start([sys.executable, "-m", module, "--part", part, *arguments], give)
        except OSError as error:  # no process or memory left: the thread must go on
            print(f"{part} does not start: {error}", file=sys.stderr, flush=True)
            stopping.wait(_LONG_PAUSE_S)
            continue
        while child.poll() is None and not stopping.wait(0.05):
            pass
        _end(child)
        stopping.wait(_LONG_PAUSE_S if child.returncode > 0 else _PAUSE_S)


def _start(command, give):
    # A terminal's Ctrl-C reaches the supervisor alone.
    if give is None:
        return subprocess.Popen(command, process_group=0)
    with give() as given:
        number = given.fileno()
        return subprocess.Popen(
            [*command, "--given", str(number)], process_group=0, pass_fds=[number]
        )


def _end(child):
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
