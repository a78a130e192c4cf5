"""larder-infinistore: `python -m larder_infinistore --socket PATH`, see README.md."""

import argparse
import os
import socket
import sys

from larder_plugin.address import place_of
from larder_plugin.life import Program
from larder_plugin.program import open_standard_streams, run_life
from larder_plugin.supervisor import end_with_parent, supervise
from larder_plugin.wire import Kind

from . import NAME
from .keeper import Keeper, hold
from .store import Store

# The server has one thread: more connections than these wait for each other.
_THREADS = {Kind.GET: 4, Kind.PUT: 2, Kind.EXIST: 1, Kind.REMOVE: 1}
_STOP_S = 2.0


def main():
    open_standard_streams()
    arguments = sys.argv[1:]
    settings = _parse(arguments)
    if not settings.part:
        keeper = Keeper()
        status = supervise(NAME, __package__, ["plugin"], arguments, keeper.begin)
        keeper.stop(_STOP_S)
        return status
    end_with_parent()
    life = socket.socket(fileno=settings.given)

    def service_of(hello):
        place = place_of(hello.url, "infinistore")
        return Store(place, hello.prefix, lambda connection: hold(life, connection))

    # A thread may wait for the server: no destructor, no join.
    os._exit(run_life(Program(NAME, "0.2.35", service_of, _THREADS, 1), settings.socket))


def _parse(arguments):
    parser = argparse.ArgumentParser(
        prog=NAME, description="Moves chunks between larderd and an InfiniStore server."
    )
    add = parser.add_argument
    add("--socket", required=True, help="larderd's backend.plugin_socket")
    add("--part", default="", choices=["", "plugin"], help=argparse.SUPPRESS)
    add("--given", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
