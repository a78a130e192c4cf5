"""The program of a plug-in: a supervisor of parts, and the part `plugin`."""

import os
import sys
import threading
import traceback

from .connection import Refused, connect
from .life import Ended, Life


def run_life(program, path):
    """The part `plugin`: one Life at the socket `path`. Returns the exit status."""
    threading.excepthook = _end_process
    try:
        Life(program).run(connect(program.name, path))
    except (Ended, Refused) as error:
        print(f"{program.name}: {error}", file=sys.stderr, flush=True)
        return 1
    except Exception:  # else the interpreter's end would wait for threads of the service
        traceback.print_exc()
        return 1
    return 0


# A thread that ended would leave calls without an answer.
def _end_process(failure):
    traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
    os._exit(1)


def open_standard_streams():
    """A program calls this function first. A socket or a file that got the number of a closed
    stream would receive the log."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
