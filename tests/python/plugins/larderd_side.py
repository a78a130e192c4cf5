"""LarderdSide: larderd's end of a plug-in's socket, for tests of plug-ins. It speaks the bytes of
docs/design/plugin.md by structs of its own, so that a mistake in a plug-in's wire code shows."""

import mmap
import os
import select
import socket
import struct
import time
from typing import NamedTuple

HELLO, REFUSED, PUT, GET, EXIST, REMOVE, CLEAR = 1, 2, 3, 4, 5, 6, 7
READY, DONE, FOUND, STATE = 16, 17, 18, 19
OK, NOT_FOUND, EXISTS, FULL, UNAVAILABLE, TOO_LARGE, FAILED = range(7)
KEY_BYTES = len("larder:1:") + 32 + 1 + 40
HEADER = struct.Struct("<HHIQ")
DEADLINE_S = 20.0  # of each wait


def key(number, namespace=7):
    return f"larder:1:{namespace:032x}:{number:040x}"


def text(value):
    raw = value.encode()
    return struct.pack("<H", len(raw)) + raw


def packet(kind, count, ticket, body):
    return HEADER.pack(kind, count, HEADER.size + len(body), ticket) + body


class Packet(NamedTuple):
    kind: int
    count: int
    ticket: int
    body: bytes


class LarderdSide:
    """One listener; accept() begins a life of the plug-in with a new region."""

    def __init__(self, path, url, region_bytes=64 << 20):
        self.path, self.url, self.region_bytes = str(path), url, region_bytes
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self.connection, self._tickets, self.state = None, 0, None

    def accept(self, protocol=1):
        """Ends the connection, waits for a plug-in, and for its READY."""
        self.end()
        self._wait(self._listener, "a plug-in connects")
        self.connection, _ = self._listener.accept()
        descriptor = os.memfd_create("region")
        os.ftruncate(descriptor, self.region_bytes)
        self.region = mmap.mmap(descriptor, self.region_bytes)
        facts = protocol, 0, self.region_bytes, KEY_BYTES, 128, 5000, 0
        body = struct.pack("<4sHHQIIII", b"LPG1", *facts)
        hello = packet(HELLO, 0, 0, body + text("larder") + text(self.url))
        socket.send_fds(self.connection, [hello], [descriptor])
        os.close(descriptor)
        self.state = None
        return self.receive()

    def end(self):
        if self.connection:
            self.connection.close()

    def close(self):
        self.end()
        self._listener.close()

    def ticket(self):
        self._tickets += 1
        return self._tickets

    def send(self, raw):
        self.connection.send(raw)

    def receive(self):
        """The next packet; None at the end of the socket."""
        self._wait(self.connection, "a packet comes")
        raw = self.connection.recv(256 * 1024)
        if not raw:
            return None
        kind, count, size, ticket = HEADER.unpack_from(raw)
        assert size == len(raw)
        return Packet(kind, count, ticket, raw[HEADER.size :])

    def answer(self):
        """The next packet that is no STATE; STATE goes to self.state: (works, reason)."""
        while True:
            found = self.receive()
            if found is None or found.kind != STATE:
                return found
            self.see(found)

    def see(self, found):
        puts, gets, servers, reachable, zero = struct.unpack_from("<BBHHH", found.body)
        assert puts == gets and (servers, reachable, zero) == (0, 0, 0)
        (size,) = struct.unpack_from("<H", found.body, 8)
        self.state = (bool(puts), found.body[10 : 10 + size].decode())

    def wait_state(self, works, words=""):
        """Waits for a STATE of this kind whose reason has `words`."""
        until = time.monotonic() + DEADLINE_S
        while self.state is None or self.state[0] != works or words not in self.state[1]:
            assert time.monotonic() < until, self.state
            found = self.receive()
            assert found is not None, "the plug-in has ended"
            if found.kind == STATE:  # others answer calls that the test has given up
                self.see(found)
        return self.state

    # Entries are (key, offset, size).
    def move(self, kind, entries):
        """Sends one PUT or GET, returns the tickets."""
        tickets = [self.ticket() for _ in entries]
        body = b"".join(
            struct.pack(f"<QQQ{KEY_BYTES}s", ticket, offset, size, name.encode())
            for ticket, (name, offset, size) in zip(tickets, entries, strict=True)
        )
        self.send(packet(kind, len(entries), 0, body))
        return tickets

    def done(self, tickets):
        """(value, result) of each ticket, in whatever order and packets the answers come."""
        answers = {}
        while set(tickets) - set(answers):
            found = self.answer()
            assert found is not None, "the plug-in has ended"
            assert found.kind == DONE and found.ticket == 0
            for ticket, value, result in struct.iter_unpack("<QQI4x", found.body):
                assert ticket in tickets and ticket not in answers
                answers[ticket] = (value, result)
        return [answers[ticket] for ticket in tickets]

    def put(self, *entries):
        """The results."""
        return [r for _, r in self.done(self.move(PUT, entries))]

    def get(self, *entries):
        """(bytes, result) for each."""
        return self.done(self.move(GET, entries))

    def exist(self, keys):
        """(result, bools)."""
        ticket = self.ticket()
        self.send(packet(EXIST, len(keys), ticket, "".join(keys).encode()))
        found = self.answer()
        assert (found.kind, found.count, found.ticket) == (FOUND, len(keys), ticket)
        (result,) = struct.unpack_from("<I", found.body)
        return result, [bool(there) for there in found.body[8:]]

    def remove(self, *keys):
        tickets = [self.ticket() for _ in keys]
        layout = struct.Struct(f"<Q{KEY_BYTES}s")
        body = b"".join(layout.pack(t, k.encode()) for t, k in zip(tickets, keys, strict=True))
        self.send(packet(REMOVE, len(keys), 0, body))
        return [result for _, result in self.done(tickets)]

    def clear(self, prefix):
        """(number, result)."""
        ticket = self.ticket()
        self.send(packet(CLEAR, 0, ticket, text(prefix)))
        return self.done([ticket])[0]

    def _wait(self, what, words):
        ready = select.select([what], [], [], DEADLINE_S)[0]
        assert ready, f"timed out: {words}"
