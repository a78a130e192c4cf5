"""The program of a plug-in: a supervisor of parts, and the part `plugin`."""

import os
import socket
import sys
import threading
import time
import traceback

from .life import Ended, Life

_RETRY_S = 0.2  # between attempts to reach larderd


def run_life(program, path):
    """The part `plugin`: one Life at the socket `path`. Returns the exit status."""
    threading.excepthook = _end_process
    try:
        Life(program).run(_connect(path))
    except Ended as error:
        print(f"{program.name}: {error}", file=sys.stderr, flush=True)
        return 1
    except Exception:  # else the interpreter's end would wait for threads of the service
        traceback.print_exc()
        return 1
    return 0


def _connect(path):
    """A connection to larderd, as soon as larderd listens."""
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(path)
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            time.sleep(_RETRY_S)


# A thread that ended would leave calls without an answer.
def _end_process(failure):
    traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
    os._exit(1)
