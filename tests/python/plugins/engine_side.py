"""EngineSide: an engine's client with pages of 64 KiB in memory, 4 pages of one layer a chunk. The
bytes of a chunk derive from its number."""

import ctypes
import hashlib
import time
from typing import NamedTuple

from larder import Client
from plugin_program import wait_until

PAGE, PAGES_A_CHUNK, CHUNKS = 64 << 10, 4, 16
CHUNK_BYTES = PAGE * PAGES_A_CHUNK


def names(series):
    """The hashes of a series' chunks, 32 bytes each."""
    return b"".join(hashlib.sha256(b"%d:%d" % (series, at)).digest() for at in range(CHUNKS))


def content(series, at):
    word = hashlib.sha256(b"bytes of %d:%d" % (series, at)).digest()
    return word * (CHUNK_BYTES // len(word))


class Fetch(NamedTuple):
    chunks: int  # in memory after the fetch
    seconds: float
    reason: str


class EngineSide:
    """Use as a context manager."""

    def __init__(self, larderd, name="engine"):
        self._memory = ctypes.create_string_buffer(CHUNKS * CHUNK_BYTES + 4096)
        address = ctypes.addressof(self._memory)
        self._start = -address % 4096
        self.client = Client(larderd.socket, name)
        self.client.set_namespace("engine: plug-ins\n", "m", 64, [(PAGE, 1, PAGES_A_CHUNK)])
        self.client.register_pages(0, [(address + self._start, PAGE, PAGE, CHUNKS * PAGES_A_CHUNK)])
        assert self.client.wait_attached(30_000)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def _pages(self, count):
        numbers = range(count * PAGES_A_CHUNK)
        return b"".join(number.to_bytes(4, "little") for number in numbers)

    def _place(self, number):
        begin = self._start + number * CHUNK_BYTES
        return slice(begin, begin + CHUNK_BYTES)

    def store(self, series):
        for at in range(CHUNKS):
            self._memory[self._place(at)] = content(series, at)
        assert self.client.store_begin(names(series), 32, self._pages(CHUNKS))
        assert self.client.store_finish(30_000).stored == CHUNKS

    def shared(self, series, deadline_ms=2000):
        """How many chunks from the first one on a fetch would find."""
        ticket = self.client.tiers.probe(names(series), 32, deadline_ms)
        found = self.client.tiers.probe_poll(ticket, deadline_ms + 1000)
        self.client.tiers.probe_end(ticket)
        return found.chunks

    def fetch(self, series, deadline_ms=2000):
        """Fetches the series, loads and compares the fetched chunks. Fails for a wrong byte."""
        begin = time.monotonic()
        ticket = self.client.tiers.fetch(names(series), 32, deadline_ms)
        fetched = None
        while fetched is None:
            fetched = self.client.tiers.fetch_poll(ticket, 100)
        seconds = time.monotonic() - begin
        loaded = self.load(series, self.client.lookup(names(series), 32))
        self.client.tiers.fetch_end(ticket)
        return Fetch(loaded, seconds, fetched.reason)

    def load(self, series, count):
        """The number of loaded chunks: `count`, or 0 after a failed checksum."""
        if not count:
            return 0
        for at in range(count):
            self._memory[self._place(at)] = bytes(CHUNK_BYTES)
        self.client.load(names(series)[: 32 * count], 32, self._pages(count))
        done = []
        wait_until(lambda: done.extend(self.client.poll(100)) or done)
        if not done[0].ok:
            return 0
        for at in range(count):
            assert self._memory[self._place(at)] == content(series, at), "wrong bytes"
        return count
