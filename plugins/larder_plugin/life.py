"""Life: one connection of a plug-in to larderd, from HELLO to the end of the socket.

The main thread reads packets. A few threads call the service, because a call may block for long and
cannot be cancelled. The main thread ends the process when the socket ends, whatever the threads do.
Every wait of a thread has a bound or ends with the process. The open calls are bounded by the
region of larderd."""

import ctypes
import mmap
import os
import queue
import socket
import threading
import time
from typing import NamedTuple, Protocol

from . import wire
from .wire import Kind, Result

_RETRY_S = 0.5  # between attempts to join the service
_HEALTH_S = 1.0  # between questions whether the service works


class Ended(Exception):
    """The plug-in cannot go on; the text says why."""


class Unreachable(Exception):
    """The service cannot be used now; the text says why."""


class Region(NamedTuple):
    """The memory that larderd shares with this life."""

    bytes: memoryview
    address: int


class Service(Protocol):
    """Threads call all methods but join() beside each other. Each may raise Unreachable.
    `entries` are wire.Entry."""

    title: str  # "Mooncake's master host:50051", for the status

    def join(self, region: Region) -> None: ...

    # Asked every second after join().
    def check(self) -> None: ...

    # A Result for each entry.
    def put(self, entries) -> list: ...

    # (Result, bytes of the object) for each entry.
    def get(self, entries) -> list: ...

    # A Result for each key.
    def remove(self, keys) -> list: ...

    # A bool for each key.
    def exist(self, keys) -> list: ...

    # (Result, number of removed objects, 0 if unknown).
    def clear(self, prefix) -> tuple: ...


class Program(NamedTuple):
    """The name of a plug-in, its service and its threads."""

    name: str  # "larder-mooncake"
    version: str  # of the client of the service, for people
    # A Service for a Hello. Raises ValueError, with the remedy, for an URL of another service.
    service_of: object
    # Calls of a kind beside each other.
    threads: dict
    # Entries of one call of the service. Waiting entries of several packets become one call.
    most_entries: int = wire.MAX_ENTRIES


class Life:
    def __init__(self, program):
        self._program = program
        # CLEAR waits in the queue of REMOVE.
        self._waiting = {kind: queue.SimpleQueue() for kind in program.threads}
        self._joined = False
        self._said = None  # the last STATE

    def run(self, connection):
        """Serves larderd until the socket ends. Raises Ended on a fault of larderd or settings."""
        self._connection = connection
        packet, descriptors, _, _ = socket.recv_fds(connection, wire.MAX_PACKET_BYTES, 1)
        if not packet:
            return
        try:
            hello = wire.parse_hello(packet)
            connection.send(wire.ready(self._program.name, self._program.version))
            if hello.protocol != wire.PROTOCOL:
                raise Ended(
                    f"larderd speaks protocol {hello.protocol}, this plug-in {wire.PROTOCOL}:"
                    f" take larderd and {self._program.name} of one release"
                )
            self._start(hello, descriptors)
            while packet := connection.recv(wire.MAX_PACKET_BYTES):
                self._accept(wire.parse_call(packet, hello.key_bytes))
        except wire.MalformedPacket as error:
            raise Ended(str(error)) from error
        except ConnectionError:
            return

    def _start(self, hello, descriptors):
        if len(descriptors) != 1:
            raise Ended("HELLO came without the descriptor of the region")
        try:
            self._service = self._program.service_of(hello)
        except ValueError as error:
            raise Ended(str(error)) from error
        region = mmap.mmap(descriptors[0], hello.region_bytes)
        os.close(descriptors[0])
        base = ctypes.addressof(ctypes.c_char.from_buffer(region))
        self._region = Region(memoryview(region), base)
        self._tell(f"joining {self._service.title}")
        threading.Thread(target=self._join, daemon=True).start()
        for kind, threads in self._program.threads.items():
            for _ in range(threads):
                threading.Thread(target=self._work, args=(kind,), daemon=True).start()

    def _accept(self, call):
        for entry in call.entries:
            if entry.offset + entry.size > len(self._region.bytes):
                raise Ended(f"a call for {entry.size} bytes at {entry.offset}: outside the region")
        if call.entries:
            for entry in call.entries:
                self._waiting[call.kind].put(entry)
        else:
            self._waiting[Kind.REMOVE if call.kind == Kind.CLEAR else call.kind].put(call)

    # Joins the service, then asks every second whether the service works.
    def _join(self):
        while True:
            try:
                if not self._joined:
                    self._service.join(self._region)
                    self._joined = True
                self._service.check()
                self._tell("")
            except Unreachable as error:
                self._tell(str(error))
            time.sleep(_HEALTH_S if self._joined else _RETRY_S)

    # `reason` empty: the service works.
    def _tell(self, reason):
        if reason == self._said:
            return
        self._said = reason
        print(f"{self._program.name}: {reason or 'works'}", flush=True)
        self._send(wire.state(not reason, reason))

    def _work(self, kind):
        waiting = self._waiting[kind]
        left = None  # a CLEAR behind entries
        while True:
            first, left = left or waiting.get(), None
            if isinstance(first, wire.Call):
                self._answer_call(first)
                continue
            entries = [first]
            while len(entries) < self._program.most_entries and left is None:
                try:
                    following = waiting.get_nowait()
                except queue.Empty:
                    break
                if isinstance(following, wire.Call):
                    left = following
                else:
                    entries.append(following)
            self._answer_entries(kind, entries)

    def _answer_call(self, call):
        """EXIST and CLEAR."""
        exist = call.kind == Kind.EXIST
        result, count, there = Result.UNAVAILABLE, 0, [False] * len(call.keys)
        try:
            if self._joined and exist:
                there, result = self._service.exist(call.keys), Result.OK
            elif self._joined:
                result, count = self._service.clear(call.text)
        except Unreachable:  # the next question of _join() tells larderd why
            pass
        if exist:
            self._send(wire.found(call.ticket, result, there))
        else:
            self._send(wire.done([wire.Done(call.ticket, count, result)]))

    def _answer_entries(self, kind, entries):
        answers = [(Result.UNAVAILABLE, 0)] * len(entries)
        try:
            if self._joined and kind == Kind.GET:
                answers = self._service.get(entries)
            elif self._joined:
                put = kind == Kind.PUT
                results = (
                    self._service.put(entries)
                    if put
                    else self._service.remove([entry.key for entry in entries])
                )
                answers = [(result, 0) for result in results]
        except Unreachable:
            pass
        pairs = zip(entries, answers, strict=True)
        self._send(wire.done([wire.Done(e.ticket, size, result) for e, (result, size) in pairs]))

    def _send(self, packet):
        try:
            self._connection.send(packet)
        except OSError:
            os._exit(0)  # larderd has closed: the main thread reads the same
