"""The bare protocol of InfiniStore, for infinistore_bench.py: one request at a time, the standard
library alone. Two connections take turns: the server may loop for ever over a request that comes
right behind a value on the same connection.

Each line of the standard input is `put PREFIX` or `get PREFIX`, for COUNT values. The answer is the
time of all requests in seconds; a wrong answer or wrong bytes end the program. Arguments: HOST PORT
COUNT SIZE."""

import hashlib
import os
import socket
import struct
import sys
import time

HEADER = struct.Struct("<IcI")


def request(name, size, operation):
    """A TCPPayloadRequest as InfiniStore's own client sends it: {key, value_length, op}."""
    text = name.encode()
    body = struct.pack("<I5H2xiIiB3xI", 16, 10, 16, 4, 8, 12, 12, 12, size, operation, len(text))
    body += text + bytes(4 - len(text) % 4)
    return HEADER.pack(0xDEADBEEF, b"L", len(body)) + body


def main(host, port, count, size):
    servers = [socket.create_connection((host, port)) for _ in range(2)]
    for server in servers:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data, room = os.urandom(size), memoryview(bytearray(count * size))
    head = bytearray(8)
    print("ready", flush=True)
    for line in sys.stdin:
        what, prefix = line.split()
        names = [hashlib.sha256(f"{prefix}:{at}".encode()).hexdigest() for at in range(count)]
        room[:] = bytes(len(room))
        begin = time.perf_counter()
        for at, name in enumerate(names):
            server = servers[at % 2]
            if what == "put":
                server.sendall(request(name, size, ord("P")))
                server.sendall(data)
                server.recv_into(head, 4, socket.MSG_WAITALL)
            else:
                server.sendall(request(name, 0, ord("G")))
                server.recv_into(head, 8, socket.MSG_WAITALL)
                # The server waits for the acknowledgement of the head, by Nagle's rule.
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                server.recv_into(room[at * size : (at + 1) * size], 0, socket.MSG_WAITALL)
            if struct.unpack_from("<I", head)[0] != 200:
                sys.exit(f"{what}: {head}")
        seconds = time.perf_counter() - begin
        if what == "get" and any(room[at * size : (at + 1) * size] != data for at in range(count)):
            sys.exit("wrong bytes")
        print(seconds, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
