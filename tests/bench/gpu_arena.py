"""The process with an arena for gpu_arms.py, like larderd's. python gpu_arena.py SOCKET BYTES makes
a file in memory, touches all of the file, and sends the descriptor over the socket. The file stays
until the other side goes."""

from __future__ import annotations

import mmap
import os
import socket
import sys


def main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as other:
        size = int(sys.argv[2])
        file = os.memfd_create("gpu-bench-arena")
        os.ftruncate(file, size)
        memory = mmap.mmap(file, size)
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 0
        socket.send_fds(other, [b"."], [file])
        other.recv(1)


if __name__ == "__main__":
    main()
