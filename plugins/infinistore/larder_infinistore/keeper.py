"""Keeper: the supervisor's second hold on each connection of the plug-in.

The server aborts when a connection ends in mid-answer, and the part `plugin` ends at any moment.
The supervisor then reads the answers to their end, and closes. Thread-safe."""

import contextlib
import select
import socket
import threading
import time

_QUIET_S = 30.0  # a stopped server may go on
_MOST = 256  # connections of a life; a plug-in has 18


class Keeper:
    def __init__(self):
        self._stopping = threading.Event()

    def begin(self):
        """The socket for the next life of the plug-in, which sends descriptors by hold()."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threading.Thread(target=self._keep, args=(ours,), daemon=True).start()
        return theirs

    def stop(self, seconds):
        """Waits for answers under way."""
        self._stopping.set()
        until = time.monotonic() + seconds
        for thread in threading.enumerate():
            if thread.daemon:
                thread.join(max(0.0, until - time.monotonic()))

    def _keep(self, life):
        held = []
        with life:
            while True:
                packet, descriptors, _, _ = socket.recv_fds(life, 1, 1)
                if not packet:
                    break
                held = [one for one in held if not _ended(one)]
                held += [socket.socket(fileno=descriptor) for descriptor in descriptors]
                while len(held) > _MOST:
                    held.pop(0).close()
        self._read_to_the_end(held)

    def _read_to_the_end(self, held):
        scrap, last = bytearray(1 << 20), time.monotonic()
        while held and time.monotonic() - last < (0.3 if self._stopping.is_set() else _QUIET_S):
            for connection in select.select(held, [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    connection.setblocking(False)
                    if connection.recv_into(scrap):
                        last = time.monotonic()
                        continue
                connection.close()
                held.remove(connection)
        for connection in held:
            connection.close()


def hold(life, connection):
    """Called by the plug-in for each new connection."""
    socket.send_fds(life, [b"h"], [connection.fileno()])


def _ended(connection):
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
