"""Link: one request at a time to the server, over two connections that take turns.

The server sends the last bytes of a value before the server is ready for the next request of the
connection. A request in between makes the server loop for ever. The answer to a later request on
another connection shows that the server is ready. So no connection has two requests in a row.

Owned by one thread. A method raises OSError once the connection cannot be used; the owner then
closes the link. A method raises BlockingIOError where the server is silent. If an answer is then
under way, the owner keeps the link, and the next method first reads the rest: the server aborts
when a connection ends in mid-answer."""

import contextlib
import socket
import struct

from . import requests
from .answer import Answer
from .keeper import mark

_CONNECT_S = 2.0
_SILENCE_S = 2
SILENT = f"no byte for {_SILENCE_S} s"
# A larger request could be cut into two segments.
MOST_SMALL_BYTES = 512
# A broken network ends a connection. A stopped server does not: its kernel goes on.
_PROBE_S, _PROBES, _BROKEN_MS = 5, 3, 20_000


class Full(Exception):
    """The server has no room for a value."""


class Link:
    def __init__(self, host, port, hold):
        """`hold`: called with each socket, so that another process holds the connection, too."""
        self._answer = None  # under way on self._socket
        self._socket = self._other = None
        try:
            self._socket = _connected(host, port)
            hold(self._socket)
            self._other = _connected(host, port)
            hold(self._other)
        except OSError:
            self.close()
            raise

    @property
    def answer_under_way(self):
        return self._answer is not None

    def close(self):
        """REQUIRES: no answer is under way, or the connection is broken."""
        for connection in (self._socket, self._other):
            if connection is not None:
                # Also ends the connection where another process has a descriptor.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()

    def get(self, name, room):
        """Reads the value into the memoryview `room`. Returns the size of the value, also where the
        room is smaller; None: no such value."""
        code, *size = self._ask(requests.get(name), Answer(2, room))
        if code == requests.NOT_FOUND:
            return None
        self._check("GET", code)
        return size[0]

    def put(self, name, value):
        """Any reader of `name` ends the server until the put has ended: the name must be fresh.
        Raises Full."""
        self._take_turn()
        try:
            self._send(requests.put(name, len(value)), value)
        except ConnectionError:
            # A full server answers, takes the value for a request, and closes.
            if self._read(Answer(1)) != [requests.FULL]:
                raise
            raise Full from None
        self._check_put(self._read(Answer(1)))

    def put_small(self, name, value):
        """In one segment, which the server reads in one step: no reader sees the put under way."""
        raw = requests.put(name, len(value)) + value
        if len(raw) > MOST_SMALL_BYTES:
            raise ValueError(f"a small put of {len(raw)} bytes")
        self._check_put(self._ask(raw, Answer(1)))

    def match(self, names, order):
        """The place of the last name in `order` that a bisection finds; -1: none."""
        code, *place = self._ask(requests.match(names, order), Answer(2))
        self._check("MATCH", code)
        return struct.unpack("<i", struct.pack("<I", place[0]))[0]

    def delete(self, names):
        code, *_ = self._ask(requests.delete(names), Answer(2))
        self._check("DELETE", code)

    def _take_turn(self):
        if self._answer:  # an earlier call gave up
            self._answer.give_up()
            self._read(self._answer)
        self._socket, self._other = self._other, self._socket

    def _ask(self, request, answer):
        """The numbers of the answer."""
        self._take_turn()
        mark(self._socket, _SILENCE_S)  # the answer may come before sendall() returns
        self._socket.sendall(request)
        return self._read(answer)

    def _send(self, head, value):
        sent = self._socket.sendmsg([head, value]) - len(head)
        self._socket.sendall(memoryview(value)[sent:] if sent >= 0 else head[sent:] + value)

    def _read(self, answer):
        """Returns the numbers of the answer."""
        self._answer = answer
        mark(self._socket, _SILENCE_S)
        while room := answer.next_room():
            # The server writes head and value apart, by Nagle's rule: an acknowledgement at once
            # saves 40 ms.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            count = self._socket.recv_into(room, 0, socket.MSG_WAITALL)
            if count == 0:
                raise ConnectionResetError("the server has closed the connection")
            answer.took(count)
        self._answer = None
        mark(self._socket, 0)
        return answer.numbers

    def _check_put(self, numbers):
        if numbers == [requests.FULL]:
            raise Full
        self._check("PUT", numbers[0])

    def _check(self, what, code):
        if code != requests.OK:
            raise ConnectionError(f"the server answers {what} with {code}")


def _connected(host, port):
    connection = socket.create_connection((host, port), _CONNECT_S)
    connection.settimeout(None)
    bound = struct.pack("@ll", _SILENCE_S, 0)  # of the kernel, for MSG_WAITALL; see also mark()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_NODELAY, 1),
        (socket.TCP_KEEPIDLE, _PROBE_S),
        (socket.TCP_KEEPINTVL, _PROBE_S),
        (socket.TCP_KEEPCNT, _PROBES),
        (socket.TCP_USER_TIMEOUT, _BROKEN_MS),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection
