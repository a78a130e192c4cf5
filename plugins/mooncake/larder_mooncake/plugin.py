"""Plugin: one life of the plug-in, from the connection to larderd to the end of its socket.

The main thread reads packets. A few threads call Mooncake, because a call cannot be cancelled and
may block for a minute. The main thread ends the process when the socket ends, whatever the threads
do. Every wait of a thread has a bound or ends with the process. The open calls are bounded by the
region of larderd."""

import ctypes
import mmap
import os
import queue
import socket
import threading
import time

from . import NAME, wire
from .pool import Unreachable
from .settings import master_of
from .wire import Kind, Result

_RETRY_S = 0.5  # between attempts to join the pool
_HEALTH_S = 1.0  # between questions to the master
# Calls of a kind beside each other: a second GET batch starts while the first one moves bytes.
_THREADS = {Kind.GET: 2, Kind.PUT: 1, Kind.EXIST: 1, Kind.REMOVE: 1}


class Ended(Exception):
    """The plug-in cannot go on; the text says why."""


class Plugin:
    def __init__(self, settings, make_pool, version):
        """`make_pool`: a Pool for a Settings with a master. `version`: of the wheel, for people."""
        self._settings, self._make_pool, self._version = settings, make_pool, version
        # CLEAR waits in the queue of REMOVE.
        self._waiting = {kind: queue.SimpleQueue() for kind in _THREADS}
        self._pool = None  # set by _join() once the pool works
        self._said = None  # the last STATE

    def run(self, connection):
        """Serves larderd until the socket ends. Raises Ended on a fault of larderd or settings."""
        self._connection = connection
        packet, descriptors, _, _ = socket.recv_fds(connection, wire.MAX_PACKET_BYTES, 1)
        if not packet:
            return
        try:
            hello = wire.parse_hello(packet)
            connection.send(wire.ready(NAME, self._version))
            if hello.protocol != wire.PROTOCOL:
                raise Ended(
                    f"larderd speaks protocol {hello.protocol}, this plug-in {wire.PROTOCOL}:"
                    " take larderd and larder-mooncake of one release"
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
            master = master_of(hello.url)
        except ValueError as error:
            raise Ended(str(error)) from error
        if self._settings.master not in ("", master):
            raise Ended(f"--master is {self._settings.master}, but backend.url names {master}")
        self._settings = self._settings._replace(master=master)
        self._region = mmap.mmap(descriptors[0], hello.region_bytes)
        os.close(descriptors[0])
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._region))
        self._size = hello.region_bytes
        self._tell(f"joining the pool of Mooncake's master {master}")
        threading.Thread(target=self._join, args=(hello.prefix,), daemon=True).start()
        for kind, threads in _THREADS.items():
            for _ in range(threads):
                threading.Thread(target=self._work, args=(kind,), daemon=True).start()

    def _accept(self, call):
        for entry in call.entries:
            if entry.offset + entry.size > self._size:
                raise Ended(f"a call for {entry.size} bytes at {entry.offset}: outside the region")
        self._waiting[Kind.REMOVE if call.kind == Kind.CLEAR else call.kind].put(call)

    # Joins the pool, then asks the master every second whether it answers.
    def _join(self, prefix):
        while True:
            try:
                if self._pool is None:
                    pool = self._make_pool(self._settings)
                    pool.connect()
                    pool.register(self._base, self._size)
                    self._pool = pool
                self._pool.exist([f"{prefix}:health"])
                self._tell("")
            except Unreachable as error:
                self._tell(str(error))
            time.sleep(_RETRY_S if self._pool is None else _HEALTH_S)

    # `reason` empty: the pool works.
    def _tell(self, reason):
        if reason == self._said:
            return
        self._said = reason
        print(f"{NAME}: {reason or 'the pool works'}", flush=True)
        self._send(wire.state(not reason, reason))

    def _work(self, kind):
        waiting = self._waiting[kind]
        left = None  # a call that did not fit into the last batch
        while True:
            calls, left = [left or waiting.get()], None
            if kind in (Kind.PUT, Kind.GET):
                left = _gather(calls, waiting)
            try:
                self._answer(calls)
            except Unreachable:  # the next question of _join() tells larderd why
                self._send_failure(calls, Result.UNAVAILABLE)

    def _answer(self, calls):
        if self._pool is None:
            self._send_failure(calls, Result.UNAVAILABLE)
            return
        (first, *_), kind = calls, calls[0].kind
        entries = [entry for call in calls for entry in call.entries]
        keys = [entry.key for entry in entries]
        addresses = [self._base + entry.offset for entry in entries]
        sizes = [entry.size for entry in entries]
        if kind == Kind.EXIST:
            there = self._pool.exist(first.keys)
            self._send(wire.found(first.ticket, Result.OK, there))
        elif kind == Kind.CLEAR:
            result, count = self._pool.clear(first.text)
            self._send(wire.done([wire.Done(first.ticket, count, result)]))
        elif kind == Kind.GET:
            answers = self._pool.get(keys, addresses, sizes)
            self._send_done(entries, [(value, result) for result, value in answers])
        else:
            put = kind == Kind.PUT
            results = self._pool.put(keys, addresses, sizes) if put else self._pool.remove(keys)
            self._send_done(entries, [(0, result) for result in results])

    def _send_failure(self, calls, result):
        for call in calls:
            if call.kind == Kind.EXIST:
                self._send(wire.found(call.ticket, result, [False] * len(call.keys)))
            elif call.kind == Kind.CLEAR:
                self._send(wire.done([wire.Done(call.ticket, 0, result)]))
            else:
                self._send_done(call.entries, [(0, result)] * len(call.entries))

    def _send_done(self, entries, answers):
        pairs = zip(entries, answers, strict=True)
        self._send(wire.done([wire.Done(entry.ticket, *answer) for entry, answer in pairs]))

    def _send(self, packet):
        try:
            self._connection.send(packet)
        except OSError:
            os._exit(0)  # larderd has closed: the main thread reads the same


# Adds waiting calls up to MAX_ENTRIES entries. Returns the call that is too much.
def _gather(calls, waiting):
    count = len(calls[0].entries)
    while True:
        try:
            call = waiting.get_nowait()
        except queue.Empty:
            return None
        count += len(call.entries)
        if count > wire.MAX_ENTRIES:
            return call
        calls.append(call)
