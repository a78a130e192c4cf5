"""Stores a chunk into a running larderd and loads the chunk back, with the Python and glibc of this
process. Prints their versions.

Environment: LARDER_SOCKET, LARDER_LIBRARY. Expects glibc GLIBC_EXPECTED: another glibc would test
the wrong system."""

import ctypes
import os
import platform
import sys
import time

from larder import Client, version

PAGE, LAYERS = 4096, 3
HASH = bytes(range(32))


def content(layer):
    return bytes((layer * 31 + i * 7) % 251 for i in range(PAGE))


def wait_for(what, ready, timeout_s=5):
    end = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > end:
            sys.exit(f"{what}: nothing after {timeout_s} s")
        time.sleep(0.01)


def main():
    gnu_get_libc_version = ctypes.CDLL(None).gnu_get_libc_version
    gnu_get_libc_version.restype = ctypes.c_char_p
    glibc = gnu_get_libc_version().decode()
    if glibc != os.environ["GLIBC_EXPECTED"]:
        sys.exit(f"this is glibc {glibc}")
    memory = ctypes.create_string_buffer(
        b"".join(content(layer) + bytes(PAGE) for layer in range(LAYERS)), 2 * PAGE * LAYERS
    )
    address = ctypes.addressof(memory)
    with Client(engine="ubuntu test") as client:
        # Block 0 of each layer holds the stored bytes, block 1 takes the loaded bytes.
        client.set_namespace(f"engine: ubuntu {os.getpid()}\n", "m", 16, [(PAGE, LAYERS, 1)])
        client.register_pages(
            0, [(address + 2 * PAGE * layer, PAGE, PAGE, 2) for layer in range(LAYERS)]
        )
        if not client.wait_attached(5000):
            sys.exit("larderd does not answer")
        # Slots are granted in the order of touching: ask until a slot is granted.
        wait_for(
            "store",
            lambda: (
                client.store_begin(HASH, 32, (0).to_bytes(4, "little"))
                and client.store_finish(1000).stored == 1
            ),
        )
        wait_for("lookup", lambda: client.lookup(HASH, 32) == 1)
        ticket = client.load(HASH, 32, (1).to_bytes(4, "little"))
        done = []
        wait_for("load", lambda: done.extend(client.poll()) or done)
        if done[0].ticket != ticket or not done[0].ok:
            sys.exit(f"load: {done}")
    for layer in range(LAYERS):
        begin = (2 * layer + 1) * PAGE
        if memory.raw[begin : begin + PAGE] != content(layer):
            sys.exit(f"layer {layer} came back as other bytes")
    print(
        f"larder {version()} stored and loaded {LAYERS * PAGE} bytes with Python "
        f"{platform.python_version()}, glibc {glibc}"
    )


if __name__ == "__main__":
    main()
