"""larder-mooncake: `python -m larder_mooncake --socket PATH`, see README.md."""

import importlib.metadata
import os
import signal
import sys

from larder_plugin.life import Program, Unreachable
from larder_plugin.program import open_standard_streams, run_life
from larder_plugin.supervisor import end_with_parent, supervise
from larder_plugin.wire import Kind

from . import NAME
from .pool import Pool
from .settings import parse, with_master_of

_RETRY_S = 0.2  # between attempts to reach the master
_WHEEL = "mooncake-transfer-engine-non-cuda"
# A second GET batch starts while the first one moves bytes.
_THREADS = {Kind.GET: 2, Kind.PUT: 1, Kind.EXIST: 1, Kind.REMOVE: 1}


def main():
    open_standard_streams()
    arguments = sys.argv[1:]
    settings = parse(arguments)
    if not settings.part:
        parts = ["plugin", "owner"] if settings.contribute else ["plugin"]
        return supervise(NAME, __package__, parts, arguments)
    end_with_parent()
    # A thread may wait for Mooncake for a minute: no destructor, no join.
    os._exit(_plugin(settings) if settings.part == "plugin" else _owner(settings))


def _plugin(settings):
    # The wheel first: its import takes longer than a connection should wait.
    make_store = _store_class()

    def service_of(hello):
        return Pool(make_store, with_master_of(settings, hello.url), hello.prefix)

    return run_life(Program(NAME, _wheel_version(), service_of, _THREADS), settings.socket)


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


if __name__ == "__main__":
    sys.exit(main())
