"""Keeper: the supervisor's second hold on each connection of the plug-in.

The server aborts when a connection ends in mid-answer, and the part `plugin` ends at any moment.
The supervisor then reads the answers to their end, and closes. Thread-safe.

An answer under way has a mark: the receive timeout of the socket, which both descriptors share, and
which stays after a SIGKILL of the plug-in."""

import select
import socket
import struct
import threading
import time

_QUIET_S = 30.0  # a stopped server may go on
_STOPPING_QUIET_S = 0.3
_TURN_S = 0.1  # the server's loop turns behind the last byte of an answer
_TIMEOUT = struct.Struct("@ll")
_ENDED = select.POLLHUP | select.POLLERR | select.POLLRDHUP


class Keeper:
    def __init__(self):
        self._stopping = threading.Event()
        self._threads = []  # of begin()

    def begin(self):
        """The socket for the next life of the plug-in, which sends descriptors by hold()."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        thread = threading.Thread(target=self._keep, args=(ours,), daemon=True)
        thread.start()
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        return theirs

    def stop(self, seconds):
        """Waits for answers under way."""
        self._stopping.set()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _keep(self, life):
        held = []  # bounded by the plug-in, which shuts a connection down before the next
        with life:
            while True:
                packet, descriptors, _, _ = socket.recv_fds(life, 1, 1)
                if not packet:
                    break
                held = _without_ended(held)
                held += [socket.socket(fileno=descriptor) for descriptor in descriptors]
        time.sleep(_TURN_S)
        self._read_to_the_end(held)

    def _read_to_the_end(self, held):
        scrap, poll = bytearray(1 << 20), select.poll()
        left, last = {}, {}  # by descriptor: connections, times of the last byte
        for connection in held:
            if not _is_marked(connection):
                connection.close()
                continue
            connection.setblocking(False)
            left[connection.fileno()] = connection
            last[connection.fileno()] = time.monotonic()
            poll.register(connection, select.POLLIN)
        while left:
            for descriptor, _ in poll.poll(100):
                count = read_some(left[descriptor], scrap)
                if count:
                    last[descriptor] = time.monotonic()
                elif count == 0:
                    last[descriptor] = float("-inf")
            quiet = _STOPPING_QUIET_S if self._stopping.is_set() else _QUIET_S
            before = time.monotonic() - quiet
            for descriptor in [one for one in left if last[one] < before]:
                poll.unregister(descriptor)
                left.pop(descriptor).close()


def hold(life, connection):
    """Called by the plug-in for each new connection."""
    socket.send_fds(life, [b"h"], [connection.fileno()])


def mark(connection, seconds):
    """Called by the plug-in before an answer can begin, with the bound of each recv(), and with 0
    behind its last byte."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT.pack(seconds, 0))


def read_some(connection, scrap):
    """The number of bytes; 0: the connection has ended; None: no byte is there now."""
    try:
        return connection.recv_into(scrap)
    except BlockingIOError:
        return None
    except OSError:
        return 0


def _is_marked(connection):
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT.size)
    return _TIMEOUT.unpack(raw) != (0, 0)


def _without_ended(held):
    poll, left = select.poll(), {one.fileno(): one for one in held}
    for connection in held:
        poll.register(connection, _ENDED)
    for descriptor, _ in poll.poll(0):
        left.pop(descriptor).close()
    return list(left.values())
