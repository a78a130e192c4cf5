"""larder-mooncake: `python -m larder_mooncake --socket PATH`, see README.md."""

import importlib.metadata
import os
import signal
import sys
import threading
import traceback

from . import NAME
from .connection import Refused, connect
from .plugin import Ended, Plugin
from .pool import Pool, Unreachable
from .settings import parse
from .supervisor import end_with_parent, supervise

_RETRY_S = 0.2  # between attempts to reach the master
_WHEEL = "mooncake-transfer-engine-non-cuda"


def main():
    _open_standard_streams()
    arguments = sys.argv[1:]
    settings = parse(arguments)
    if not settings.part:
        parts = ["plugin", "owner"] if settings.contribute else ["plugin"]
        return supervise(parts, arguments)
    end_with_parent()
    # A thread may wait for Mooncake for a minute: no destructor, no join.
    os._exit(_plugin(settings) if settings.part == "plugin" else _owner(settings))


def _plugin(settings):
    threading.excepthook = _end_process
    # The wheel first: its import takes longer than a connection should wait.
    make_store = _store_class()
    plugin = Plugin(settings, lambda found: Pool(make_store, found), _wheel_version())
    try:
        plugin.run(connect(settings.socket))
    except (Ended, Refused) as error:
        print(f"{NAME}: {error}", file=sys.stderr, flush=True)
        return 1
    except Exception:  # else the interpreter's end would wait for threads of Mooncake
        traceback.print_exc()
        return 1
    return 0


# Holds the contributed memory until SIGTERM. The client in the wheel joins the pool again after a
# restart of the master.
def _owner(settings):
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)  # before the wheel starts threads
    pool, said = Pool(_store_class(), settings), None
    while True:
        try:
            pool.connect(settings.contribute)
            break
        except Unreachable as error:
            if str(error) != said:
                print(f"{NAME}: {error}", file=sys.stderr, flush=True)
            said = str(error)
        if signal.sigtimedwait(stop, _RETRY_S):
            return 0
    print(f"{NAME}: {settings.contribute} bytes contributed to the pool", flush=True)
    signal.sigwait(stop)
    pool.close()  # the master forgets this memory at once, not after its client_ttl
    return 0


# A socket or a file that got the number of a closed stream would receive the log.
def _open_standard_streams():
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _store_class():
    # Errors alone: the wheel's notes come by the thousand.
    os.environ.setdefault("MC_LOG_LEVEL", "ERROR")
    os.environ.setdefault("GLOG_minloglevel", "2")
    try:
        from mooncake.store import MooncakeDistributedStore
    except ImportError as error:
        remedy = f"pip install {_WHEEL}; apt install libibverbs1 libnuma1 libcurl4"
        print(f"{NAME}: {error}; {remedy}", file=sys.stderr, flush=True)
        os._exit(1)
    return MooncakeDistributedStore


def _wheel_version():
    try:
        return importlib.metadata.version(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


# A thread that ended would leave calls without an answer.
def _end_process(failure):
    traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
