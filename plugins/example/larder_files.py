#!/usr/bin/env python3
"""A plug-in for larderd that stores each object as a file in a folder.

    larder_files.py --socket /run/larder/larder.plugin --folder /var/lib/chunks [--size BYTES]

It shows the whole contract of docs/design/plugin.md with the standard library alone. Start your own
plug-in from a copy: replace the methods of Files. One thread answers all calls in their order.
"""

import argparse
import mmap
import os
import socket
import struct
import sys
from collections import OrderedDict
from pathlib import Path

PROTOCOL = 1
MOST_PACKET_BYTES = 256 << 10
HEADER = struct.Struct("<HHIQ")  # kind, count, bytes of the packet, ticket
HELLO, REFUSED, PUT, GET, EXIST, REMOVE, CLEAR = range(1, 8)
READY, DONE, FOUND = 16, 17, 18
OK, NOT_FOUND, EXISTS, FULL, UNAVAILABLE, TOO_LARGE, FAILED = range(7)


class Files:
    """The service: a folder with a file for each object. The oldest files make room."""

    def __init__(self, folder, most_bytes):
        self.folder = Path(folder)
        self.most_bytes = most_bytes
        self.folder.mkdir(parents=True, exist_ok=True)
        for part in self.folder.glob("*.part"):  # of an earlier life
            part.unlink()
        files = sorted(self.folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        self.sizes = OrderedDict((file.name, file.stat().st_size) for file in files)

    def put(self, key, value):
        if len(value) > self.most_bytes:
            return TOO_LARGE
        part = self.folder / (key + ".part")
        part.write_bytes(value)
        # The rename makes the object visible in one step.
        part.rename(self.folder / key)
        self.sizes.pop(key, None)
        self.sizes[key] = len(value)
        while sum(self.sizes.values()) > self.most_bytes:
            self.remove(next(iter(self.sizes)))
        return OK

    def get(self, key, room):
        """The result, and the bytes written to `room`."""
        try:
            with open(self.folder / key, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size > len(room):
                    return TOO_LARGE, 0
                return OK, file.readinto(room[:size])
        except FileNotFoundError:
            return NOT_FOUND, 0

    def exists(self, key):
        return (self.folder / key).exists()

    def remove(self, key):
        self.sizes.pop(key, None)
        try:
            (self.folder / key).unlink()
            return OK
        except FileNotFoundError:
            return NOT_FOUND

    def clear(self, prefix):
        keys = [file.name for file in self.folder.iterdir() if file.name.startswith(prefix)]
        for key in keys:
            self.remove(key)
        return len(keys)


def text(value):
    value = value.encode()
    return struct.pack("<H", len(value)) + value


def texts(body):
    """All texts of a packet: a length, then so many bytes, and so on."""
    while body:
        (size,) = struct.unpack_from("<H", body)
        yield body[2 : 2 + size].decode()
        body = body[2 + size :]


class Plugin:
    def __init__(self, path, service):
        self.service = service
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        packet, descriptors, _, _ = socket.recv_fds(self.socket, MOST_PACKET_BYTES, 1)
        kind = HEADER.unpack_from(packet)[0] if packet else 0
        if kind != HELLO:
            reason = "".join(texts(packet[HEADER.size :])) if kind == REFUSED else "no HELLO"
            sys.exit(f"larderd refused the plug-in: {reason}")
        fields = struct.unpack_from("<4sHHQIIII", packet, HEADER.size)
        magic, protocol, _, region_bytes, key_bytes, _, _, _ = fields
        if magic != b"LPG1" or protocol != PROTOCOL:
            sys.exit(f"larderd speaks protocol {protocol}, this plug-in {PROTOCOL}")
        self.region = memoryview(mmap.mmap(descriptors[0], region_bytes))
        os.close(descriptors[0])
        self.move = struct.Struct(f"<QQQ{key_bytes}s")  # ticket, offset, bytes, key
        self.removal = struct.Struct(f"<Q{key_bytes}s")
        self.key_bytes = key_bytes
        self.send(READY, 0, 0, struct.pack("<HHI", PROTOCOL, 0, 0) + text("files") + text("1"))

    def send(self, kind, count, ticket, body):
        self.socket.sendall(HEADER.pack(kind, count, HEADER.size + len(body), ticket) + body)

    def done(self, answers):
        """One DONE for all entries of a packet: (ticket, result, value)."""
        body = b"".join(struct.pack("<QQI4x", t, value, result) for t, result, value in answers)
        self.send(DONE, len(answers), 0, body)

    def run(self):
        while packet := self.socket.recv(MOST_PACKET_BYTES):
            kind, _, _, ticket = HEADER.unpack_from(packet)
            self.answer(kind, ticket, packet[HEADER.size :])
        # The socket has ended: larderd is gone, or has dropped this region. A supervisor starts the
        # plug-in again.

    def answer(self, kind, ticket, body):
        if kind == PUT:
            self.done([self.put(*entry) for entry in self.move.iter_unpack(body)])
        elif kind == GET:
            self.done([self.get(*entry) for entry in self.move.iter_unpack(body)])
        elif kind == REMOVE:
            entries = self.removal.iter_unpack(body)
            self.done([(ticket, self.service.remove(key.decode()), 0) for ticket, key in entries])
        elif kind == EXIST:
            keys = [body[at : at + self.key_bytes] for at in range(0, len(body), self.key_bytes)]
            there = bytes(self.service.exists(key.decode()) for key in keys)
            self.send(FOUND, len(keys), ticket, struct.pack("<I4x", OK) + there)
        elif kind == CLEAR:
            self.done([(ticket, OK, self.service.clear(next(texts(body))))])
        else:
            sys.exit(f"larderd sent the unknown message {kind}")

    def put(self, ticket, offset, size, key):
        try:
            return ticket, self.service.put(key.decode(), self.region[offset : offset + size]), 0
        except OSError as error:
            print(f"PUT: {error}", file=sys.stderr)
            return ticket, FULL, 0

    def get(self, ticket, offset, room, key):
        try:
            return ticket, *self.service.get(key.decode(), self.region[offset : offset + room])
        except OSError as error:
            print(f"GET: {error}", file=sys.stderr)
            return ticket, FAILED, 0


def main():
    parser = argparse.ArgumentParser(description="Store Larder's chunks as files in a folder.")
    parser.add_argument("--socket", required=True, help="backend.plugin_socket of larderd")
    parser.add_argument("--folder", required=True, help="where the files go")
    parser.add_argument("--size", type=int, default=1 << 40, help="the most bytes of all files")
    arguments = parser.parse_args()
    try:
        plugin = Plugin(arguments.socket, Files(arguments.folder, arguments.size))
        plugin.run()
    except ConnectionError as error:
        sys.exit(f"{arguments.socket}: {error}")
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
