"""Link: one request at a time to the server, over two connections that take turns.

The server sends the last bytes of a value before the server is ready for the next request of the
connection. A request in between makes the server loop for ever. The answer to a later request on
another connection shows that the server is ready. So no connection has two requests in a row.

Owned by one thread. A method raises OSError once the connection cannot be used, BlockingIOError
where the server is silent; the owner then closes the link."""

import socket
import struct

from . import requests

_CONNECT_S = 2.0
_SILENCE_S = 2
SILENT = f"no byte for {_SILENCE_S} s"
_SCRAP_BYTES = 1 << 20
# A larger request could be cut into two segments.
MOST_SMALL_BYTES = 512


class Full(Exception):
    """The server has no room for a value."""


class Link:
    def __init__(self, host, port, hold):
        """`hold`: called with each socket, so that another process holds the connection, too."""
        self._socket = _connected(host, port)
        try:
            hold(self._socket)
            self._other = _connected(host, port)
            hold(self._other)
        except OSError:
            self._socket.close()
            raise

    def close(self):
        self._socket.close()
        self._other.close()

    def get(self, name, room):
        """Reads the value into the memoryview `room`. Returns the size of the value, also where the
        room is smaller; None: no such value."""
        self._take_turn()
        self._socket.sendall(requests.get(name))
        code = self._number()
        if code == requests.NOT_FOUND:
            return None
        self._check("GET", code)
        size = self._number()
        self._read(room[: min(size, len(room))])
        left = size - len(room)
        # The rest is read: after the end of a connection in mid-answer the server aborts.
        scrap = memoryview(bytearray(max(0, min(left, _SCRAP_BYTES))))
        while left > 0:
            self._read(scrap[: min(left, len(scrap))])
            left -= len(scrap)
        return size

    def put(self, name, value):
        """Any reader of `name` ends the server until the put has ended: the name must be fresh.
        Raises Full."""
        self._take_turn()
        try:
            self._send(requests.put(name, len(value)), value)
        except ConnectionError:
            # A full server answers, takes the value for a request, and closes.
            if self._number() != requests.FULL:
                raise
            raise Full from None
        code = self._number()
        if code == requests.FULL:
            raise Full
        self._check("PUT", code)

    def put_small(self, name, value):
        """In one segment, which the server reads in one step: no reader sees the put under way."""
        raw = requests.put(name, len(value)) + value
        if len(raw) > MOST_SMALL_BYTES:
            raise ValueError(f"a small put of {len(raw)} bytes")
        self._take_turn()
        self._socket.sendall(raw)
        code = self._number()
        if code == requests.FULL:
            raise Full
        self._check("PUT", code)

    def match(self, names, order):
        """The place of the last name in `order` that a bisection finds; -1: none."""
        self._take_turn()
        self._socket.sendall(requests.match(names, order))
        self._check("MATCH", self._number())
        return struct.unpack("<i", struct.pack("<I", self._number()))[0]

    def delete(self, names):
        self._take_turn()
        self._socket.sendall(requests.delete(names))
        self._check("DELETE", self._number())
        self._number()

    def _take_turn(self):
        self._socket, self._other = self._other, self._socket

    def _send(self, head, value):
        sent = self._socket.sendmsg([head, value]) - len(head)
        self._socket.sendall(memoryview(value)[sent:] if sent >= 0 else head[sent:] + value)

    def _number(self):
        raw = bytearray(4)
        self._read(memoryview(raw))
        return struct.unpack("<I", raw)[0]

    def _read(self, room):
        while room:
            # The server writes head and value apart, by Nagle's rule: an acknowledgement at once
            # saves 40 ms.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            count = self._socket.recv_into(room, 0, socket.MSG_WAITALL)
            if count == 0:
                raise ConnectionResetError("the server has closed the connection")
            room = room[count:]

    def _check(self, what, code):
        if code != requests.OK:
            raise ConnectionError(f"the server answers {what} with {code}")


def _connected(host, port):
    connection = socket.create_connection((host, port), _CONNECT_S)
    connection.settimeout(None)
    # Bounds of the kernel, for MSG_WAITALL.
    for bound in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, bound, struct.pack("@ll", _SILENCE_S, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection
