"""Store: an InfiniStore server behind the results of larderd's protocol, a Service
(larder_plugin.life).

Thread-safe: each thread has a connection of its own. A call fails after 2 s without a byte of the
server."""

import threading
from collections import OrderedDict

from larder_plugin.address import host_and_port
from larder_plugin.life import Unreachable
from larder_plugin.wire import Result

from . import record, search
from .generations import Generations
from .link import SILENT, Full, Link

_MOST_BYTES = (1 << 31) - 1  # of a value: the protocol has a signed length
_MOST_GONE = 65536


class Store:
    def __init__(self, place, prefix, hold):
        """`place`: HOST:PORT. `prefix`: of all keys. `hold`: see Link."""
        self._host, self._port = host_and_port(place)
        self._prefix, self._hold = prefix, hold
        self._own = threading.local()
        self._generations = Generations()
        self._gone = Gone()
        self.title = f"InfiniStore {place}"

    def join(self, region):
        self._region = region.bytes

    def check(self):
        self._call(self._generations.refresh)
        # Also without a known namespace.
        self._call(lambda link: self._generations.of(link, self._prefix, f"{self._prefix}:1:check"))

    def put(self, entries):
        return [self._call(lambda link, entry=entry: self._put(link, entry)) for entry in entries]

    def get(self, entries):
        return [self._call(lambda link, entry=entry: self._get(link, entry)) for entry in entries]

    def remove(self, keys):
        return [self._call(lambda link, key=key: self._remove(link, key)) for key in keys]

    def exist(self, keys):
        end = self._call(
            lambda link: link.match(
                [self._name(link, key) for key in keys], search.order(len(keys))
            )
        )
        found = search.presence(len(keys), end)
        asked = search.asked(len(keys), end)
        return [
            there and (number in asked or key not in self._gone)
            for number, (key, there) in enumerate(zip(keys, found, strict=True))
        ]

    def clear(self, prefix):
        self._call(lambda link: self._generations.renew(link, prefix))
        return Result.OK, 0

    def _put(self, link, entry):
        if entry.size > _MOST_BYTES:
            return Result.TOO_LARGE
        try:
            name = self._name(link, entry.key)
            if self._find(link, name, entry.key):
                self._gone.forget(entry.key)  # another node has put the object
                return Result.EXISTS
            part = record.fresh_name()
            link.put(part, self._region[entry.offset : entry.offset + entry.size])
            link.put_small(name, record.encode(entry.key, record.Record(part, entry.size)))
        except Full:
            self._drop_link()  # the server closes, too
            return Result.FULL
        self._gone.forget(entry.key)
        return Result.OK

    def _get(self, link, entry):
        name = self._name(link, entry.key)
        found = self._find(link, name, entry.key)
        if found is None:
            self._gone.add(entry.key)
            return Result.NOT_FOUND, 0
        if found.size > entry.size:
            return Result.TOO_LARGE, 0
        room = self._region[entry.offset : entry.offset + found.size]
        if link.get(found.part, room) != found.size:  # evicted, or of another life of the server
            link.delete([name, found.part])
            self._gone.add(entry.key)
            return Result.NOT_FOUND, 0
        self._gone.forget(entry.key)
        return Result.OK, found.size

    def _remove(self, link, key):
        name = self._name(link, key)
        found = self._find(link, name, key)
        if found is None:
            return Result.NOT_FOUND
        # The part was whole before its record: a removal in mid-put would end the server.
        link.delete([name, found.part])
        return Result.OK

    def _find(self, link, name, key):
        """The Record of the key; None: absent. Foreign bytes at the name are removed."""
        raw = bytearray(record.RECORD_BYTES)
        size = link.get(name, memoryview(raw))
        if size is None:
            return None
        found = record.decode(key, raw) if size == record.RECORD_BYTES else None
        if found is None:
            link.delete([name])
        return found

    def _name(self, link, key):
        return record.name_of(key, self._generations.of(link, self._prefix, key))

    def _call(self, work):
        """work(link). Raises Unreachable."""
        had = getattr(self._own, "link", None) is not None
        try:
            try:
                return work(self._link())
            except ConnectionError:
                if not had:
                    raise
                # The link was of an earlier life of the server.
                self._drop_link()
                return work(self._link())
        except Full as error:  # of a generation
            self._drop_link()
            raise Unreachable(f"{self.title} is full") from error
        except OSError as error:
            silent = isinstance(error, BlockingIOError)
            link = getattr(self._own, "link", None)
            if not (silent and link and link.answer_under_way):
                self._drop_link()
            reason = SILENT if silent else error.strerror or str(error)
            raise Unreachable(f"{self.title}: {reason}") from error

    def _link(self):
        if getattr(self._own, "link", None) is None:
            self._own.link = Link(self._host, self._port, self._hold)
        return self._own.link

    def _drop_link(self):
        if getattr(self._own, "link", None) is not None:
            self._own.link.close()
            self._own.link = None


class Gone:
    """Keys whose get found no object although the search may guess one between two answers. A key
    leaves with the next put or found object; the oldest keys are forgotten."""

    def __init__(self):
        self._keys, self._lock = OrderedDict(), threading.Lock()

    def __contains__(self, key):
        return key in self._keys

    def add(self, key):
        with self._lock:
            self._keys[key] = True
            while len(self._keys) > _MOST_GONE:
                self._keys.popitem(last=False)

    def forget(self, key):
        with self._lock:
            self._keys.pop(key, None)
