"""A slow network between larderd and its backend: a TCP proxy with a limit of bytes a second, or
without passage.

Bytes that are held back wait in the kernel's buffers, as in a slow network: the sender is slowed
down too."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

STALLED = 1  # bytes per second, practically no traffic


class SlowLink:
    """Listens on a free port of this machine and passes on to `port`. Use as a context manager,
    which ends all connections."""

    _PIECE = 1 << 18

    def __init__(self, port: int):
        self._target = port
        self._limit, self._free_at = 0, 0.0
        self._changed = threading.Condition()
        self._ended = False
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, name="slow-link", daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def reads(self, bytes_per_s: int) -> None:
        """The speed of bytes from the backend, over all connections, from now on; 0: unlimited.
        Requests pass unhindered."""
        with self._changed:
            self._limit, self._free_at = bytes_per_s, time.monotonic()
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            sockets = [self._listener, *self._sockets]
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                if self._ended:
                    return
                near.close()  # the backend is away
                continue
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self._sockets |= {near, far}
            for pair in ((near, far, False), (far, near, True)):
                threading.Thread(
                    target=self._pass, args=pair, name="slow-link", daemon=True
                ).start()

    def _pass(self, source: socket.socket, sink: socket.socket, limited: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(self._PIECE if not limited else self._piece()):
                if limited and not self._wait_turn(len(data)):
                    break
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        with self._changed:
            self._sockets -= {source, sink}

    def _piece(self) -> int:
        """At most the bytes of a hundredth of a second."""
        limit = self._limit
        return self._PIECE if limit == 0 else max(1, min(self._PIECE, limit // 100))

    def _wait_turn(self, count: int) -> bool:
        """Until so many bytes may pass. False: the link has ended."""
        with self._changed:
            while not self._ended:
                now = time.monotonic()
                if self._limit == 0 or (self._limit > STALLED and now >= self._free_at):
                    if self._limit:
                        self._free_at = max(self._free_at, now) + count / self._limit
                    return True
                self._changed.wait(None if self._limit == STALLED else self._free_at - now)
            return False
