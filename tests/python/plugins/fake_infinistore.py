"""FakeInfiniStore: InfiniStore's TCP protocol without its server, and stricter. `crashes` notes
each request that would have ended the real server 0.2.35; test_infinistore_server.py asks the real
one.

Faults: `silent` answers nothing, `stuck` goes on with no GET, `full` has no room, `chunk_pause_s`
slows each GET."""

import contextlib
import socket
import struct
import threading
import time

HEADER = struct.Struct("<IcI")
WRITE_BYTES = 256 << 10


class FakeInfiniStore:
    def __init__(self, port=0):
        self.values, self.writing, self.crashes, self.requests = {}, {}, [], []
        self.silent, self.full, self.chunk_pause_s = threading.Event(), False, 0.0
        self.stuck = threading.Event()
        self._lock, self._connections = threading.Lock(), []
        # Have sent a value, and no other connection has had an answer since.
        self._resting = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self.url = f"infinistore://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        """As a killed server: all connections end."""
        for one in (self._listener, *self._connections):
            with contextlib.suppress(OSError):  # has ended already
                one.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for it
            one.close()

    def open_connections(self):
        return [one for one in self._connections if one.fileno() != -1]

    def count(self, operation):
        return sum(1 for found, _ in self.requests if found == operation)

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            try:
                while head := self._read(connection, HEADER.size):
                    magic, operation, size = HEADER.unpack(head)
                    if magic != 0xDEADBEEF:
                        return
                    body = self._read(connection, size)
                    with self._lock:
                        if connection in self._resting:
                            self.crashes.append("a request right behind a value: it loops for ever")
                        self._resting.clear()
                    while self.silent.is_set():
                        time.sleep(0.01)
                    {b"L": self._payload, b"M": self._match, b"X": self._delete}[operation](
                        connection, body
                    )
            except OSError:
                return

    def _payload(self, connection, body):
        name = self._string(body, self._field(body, 0))
        size = struct.unpack_from("<i", body, self._field(body, 1))[0]
        operation = chr(body[self._field(body, 2)])
        self.requests.append((operation, name))
        (self._put if operation == "P" else self._get)(connection, name, size)

    def _put(self, connection, name, size):
        if self.full:
            connection.sendall(struct.pack("<I", 507))
            self._read(connection, 9)
            raise ConnectionResetError("the value is no request")
        # Bytes that are there at once were in one segment with the request.
        value = b""
        with contextlib.suppress(BlockingIOError):
            value = connection.recv(min(size, 512), socket.MSG_DONTWAIT)
        if len(value) < size:
            with self._lock:
                self.writing[name] = True
            value += self._read(connection, size - len(value))
        with self._lock:
            self.writing.pop(name, None)
            self.values[name] = value
        connection.sendall(struct.pack("<I", 200))

    def _get(self, connection, name, _):
        with self._lock:
            if name in self.writing:
                self.crashes.append(f"GET of {name}, which is being written")
            value = self.values.get(name)
        if value is None:
            return connection.sendall(struct.pack("<I", 404))
        connection.sendall(struct.pack("<II", 200, len(value)))
        for at in range(0, len(value), WRITE_BYTES):
            time.sleep(self.chunk_pause_s)
            while self.stuck.is_set():
                time.sleep(0.01)
            if at + WRITE_BYTES >= len(value):  # before the client has the last byte
                with self._lock:
                    self._resting.add(connection)
            try:
                connection.sendall(value[at : at + WRITE_BYTES])
            except OSError:
                self.crashes.append(f"the connection of a GET of {name} ended in mid-answer")
                raise

    def _match(self, connection, body):
        names = self._names(body)
        self.requests.append(("M", len(names)))
        left, right = 0, len(names)
        with self._lock:
            while left < right:
                middle = left + (right - left) // 2
                there = names[middle] in self.values or names[middle] in self.writing
                left, right = (middle + 1, right) if there else (left, middle)
        connection.sendall(struct.pack("<Ii", 200, left - 1))

    def _delete(self, connection, body):
        names = self._names(body)
        self.requests.append(("X", len(names)))
        count = 0
        with self._lock:
            for name in names:
                if name in self.writing:
                    self.crashes.append(f"DELETE of {name}, which is being written")
                count += self.values.pop(name, None) is not None
        connection.sendall(struct.pack("<II", 200, count))

    # A reader of flatbuffers of its own: a mistake in the plug-in's requests shows.
    def _field(self, body, number):
        table = struct.unpack_from("<I", body)[0]
        vtable = table - struct.unpack_from("<i", body, table)[0]
        size, table_bytes = struct.unpack_from("<HH", body, vtable)
        assert 4 + 2 * number < size and table % 4 == 0 and vtable % 2 == 0
        offset = struct.unpack_from("<H", body, vtable + 4 + 2 * number)[0]
        assert 4 <= offset < table_bytes
        return table + offset

    def _string(self, body, at):
        at += struct.unpack_from("<I", body, at)[0]
        size = struct.unpack_from("<I", body, at)[0]
        assert at % 4 == 0 and body[at + 4 + size] == 0
        return body[at + 4 : at + 4 + size].decode()

    def _names(self, body):
        at = self._field(body, 0)
        at += struct.unpack_from("<I", body, at)[0]
        count = struct.unpack_from("<I", body, at)[0]
        assert at % 4 == 0
        return [self._string(body, at + 4 + 4 * number) for number in range(count)]

    def _read(self, connection, size):
        raw = bytearray()
        while len(raw) < size:
            more = connection.recv(min(size - len(raw), 1 << 20))
            if not more:
                if raw:
                    raise ConnectionResetError("cut")
                return b""
            raw += more
        return bytes(raw)
