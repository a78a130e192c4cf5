"""The wheel's own batch calls, for mooncake_bench.py: runs in Mooncake's environment.

Each line of the standard input is `put PREFIX`, `get PREFIX` or `remove PREFIX`, for COUNT objects
PREFIX:0, PREFIX:1 and so on. The answer is the time of the call in seconds; a wrong result or wrong
bytes end the program. Arguments: MASTER COUNT SIZE."""

import ctypes
import mmap
import os
import sys
import time

from mooncake.store import MooncakeDistributedStore


def main(master, count, size):
    store = MooncakeDistributedStore()
    if store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", master) != 0:
        sys.exit("the wheel did not start")
    # Shared memory, as the region of larderd.
    descriptor = os.memfd_create("region")
    os.ftruncate(descriptor, count * size)
    region = mmap.mmap(descriptor, count * size)
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    if store.register_buffer(base, count * size) != 0:
        sys.exit("the region was refused")
    data = os.urandom(size)
    places, sizes = [base + at * size for at in range(count)], [size] * count
    print("ready", flush=True)
    for line in sys.stdin:
        what, prefix = line.split()
        keys = [f"{prefix}:{number}" for number in range(count)]
        for at in range(count):
            region[at * size : (at + 1) * size] = data if what == "put" else bytes(size)
        begin = time.perf_counter()
        if what == "put":
            results, wanted = store.batch_put_from(keys, places, sizes), 0
        elif what == "get":
            results, wanted = store.batch_get_into(keys, places, sizes), size
        else:
            results, wanted = store.batch_remove(keys, True), 0
        seconds = time.perf_counter() - begin
        if set(results) != {wanted}:
            sys.exit(f"{what}: {sorted(set(results))}")
        if what == "get" and any(
            region[at * size : (at + 1) * size] != data for at in range(count)
        ):
            sys.exit("wrong bytes")
        print(seconds, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
