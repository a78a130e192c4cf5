"""Pool: a Mooncake pool behind the results of larderd's protocol.

Thread-safe after connect(): the wheel's class is. Every call may block for as long as Mooncake
waits for a segment owner, up to 60 s, and no call can be cancelled."""

import re
import socket

from larder_plugin.address import host_and_port
from larder_plugin.life import Unreachable
from larder_plugin.wire import Result

# Mooncake's error codes (types.h, 0.3.13); a code that is not here is a failure.
_NO_SPACE, _INVALID_PARAMS, _NOT_READY, _NOT_FOUND, _EXISTS = -200, -600, -703, -704, -705
_CONNECT_S = 2.0  # for the master's port
_RPC_ERRORS = range(-1099, -899)  # no answer of the master, or of the store behind the master


class Pool:
    """A larder_plugin.life.Service."""

    def __init__(self, make_store, settings, prefix=""):
        """`make_store`: the wheel's MooncakeDistributedStore. `settings`: Settings. `prefix`: of
        all keys."""
        self._make_store, self._settings, self._prefix = make_store, settings, prefix
        self._store, self._base = None, 0
        self.title = f"the pool of Mooncake's master {settings.master}"

    def join(self, region):
        self.connect()
        self._register(region.address, len(region.bytes))
        self._base = region.address

    def check(self):
        self.exist([f"{self._prefix}:health"])

    def connect(self, contribute=0):
        """Joins the pool with `contribute` bytes of memory. Raises Unreachable."""
        settings = self._settings
        _reach(settings.master)
        host = settings.host or _own_address(settings.master)
        store = self._make_store()
        # No local buffer: every byte comes from or goes to the region of larderd.
        code = store.setup(
            host,
            settings.metadata,
            contribute,
            0,
            settings.protocol,
            settings.devices,
            settings.master,
        )
        if code != 0:
            raise Unreachable(
                f"Mooncake's client did not start (code {code}): protocol {settings.protocol},"
                f" devices '{settings.devices}', own address {host}"
            )
        self._store = store

    def _register(self, address, size):
        """Names the memory that put() and get() use. Raises Unreachable."""
        code = self._store.register_buffer(address, size)
        if code != 0:
            raise Unreachable(
                f"Mooncake refused to register {size} bytes (code {code}); for protocol rdma"
                " allow IPC_LOCK and enough locked memory"
            )

    def close(self):
        """Takes the contributed memory out of the pool."""
        if self._store is not None:
            self._store.close()

    def put(self, entries):
        """A Result for each key. The wheel answers 0 for a key that exists and stores no byte. It
        does so even for a key whose writer died in mid-put. Questions before and after the put tell
        these cases apart, one round trip each."""
        keys, addresses, sizes = self._places(entries)
        results = [Result.EXISTS if there else None for there in self._known(keys)]
        new = [i for i, result in enumerate(results) if result is None]
        if not new:
            return results
        codes = self._store.batch_put_from(*_chosen(new, keys, addresses, sizes))
        for i, code in zip(new, codes, strict=True):
            results[i] = _result(code)
        unsure = [i for i in new if results[i] == Result.OK]
        for i, there in zip(unsure, self._known([keys[i] for i in unsure]), strict=True):
            if not there:
                results[i] = Result.FAILED
        return results

    def get(self, entries):
        keys, addresses, rooms = self._places(entries)
        codes = self._store.batch_get_into(keys, addresses, rooms)
        answers = []
        for code, room in zip(codes, rooms, strict=True):
            if code == _INVALID_PARAMS or code > room:
                answers.append((Result.TOO_LARGE, 0))
            else:
                answers.append((_result(min(code, 0)), max(code, 0)))
        return answers

    def exist(self, keys):
        """A bool for each key, in one round trip. Raises Unreachable."""
        codes = self._store.batch_is_exist(keys)
        lowest = min(codes)
        if lowest < 0:
            raise Unreachable(f"Mooncake's master {self._settings.master} answers {lowest}")
        return [code == 1 for code in codes]

    def remove(self, keys):
        """A Result for each key. Readers of the object do not delay the removal: a reader that
        gets other bytes finds a record that does not fit."""
        return [_result(code) for code in self._store.batch_remove(keys, True)]

    def clear(self, prefix):
        """(result, number of removed objects)."""
        count = self._store.remove_by_regex(
            "^" + re.sub(r"[^A-Za-z0-9_:-]", r"[\g<0>]", prefix), True
        )
        return (_result(count), 0) if count < 0 else (Result.OK, count)

    def _places(self, entries):
        """(keys, addresses, sizes)."""
        return (
            [entry.key for entry in entries],
            [self._base + entry.offset for entry in entries],
            [entry.size for entry in entries],
        )

    def _known(self, keys):
        return self.exist(keys) if keys else []


def _reach(master):
    """Connects to the master's port: the wheel itself waits 90 s for an absent master. Raises
    Unreachable."""
    try:
        socket.create_connection(host_and_port(master), _CONNECT_S).close()
    except OSError as error:
        raise Unreachable(f"Mooncake's master {master}: {error.strerror or error}") from error


def _own_address(master):
    """The address of this machine that the master sees."""
    host, port = host_and_port(master)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # sends no packet: chooses a route
            return probe.getsockname()[0]
    except OSError as error:
        raise Unreachable(f"Mooncake's master {master}: {error.strerror or error}") from error


def _result(code):
    if code in _RPC_ERRORS:
        return Result.UNAVAILABLE
    return {
        0: Result.OK,
        _NO_SPACE: Result.FULL,
        _NOT_READY: Result.NOT_FOUND,
        _NOT_FOUND: Result.NOT_FOUND,
        _EXISTS: Result.EXISTS,
    }.get(code, Result.FAILED)


def _chosen(places, *lists):
    return [[values[i] for i in places] for values in lists]
