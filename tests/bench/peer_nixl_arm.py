"""NIXL's READ over UCX and TCP, for peer_field_bench.py: runs in the environment of `make
deps-field`.

Each line `get NAME` of the standard input reads COUNT objects of SIZE bytes from the memory of
another process, in one transfer. The answer is its time in seconds; wrong bytes end the program.
Arguments: COUNT SIZE."""

import ctypes
import mmap
import multiprocessing
import os
import sys
import time


def memory(size):
    """(mapping, its address), shared as an arena is."""
    descriptor = os.memfd_create("region")
    os.ftruncate(descriptor, size)
    region = mmap.mmap(descriptor, size)
    return region, ctypes.addressof(ctypes.c_char.from_buffer(region))


def agent_of(name):
    from nixl_cu12._api import nixl_agent, nixl_agent_config

    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


def own(pipe, data, count):
    """The process that has the objects."""
    region, base = memory(count * len(data))
    for at in range(count):
        region[at * len(data) : (at + 1) * len(data)] = data
    agent = agent_of("owner")
    registered = agent.register_memory([(base, count * len(data), 0, "")], "DRAM")
    pipe.send((agent.get_agent_metadata(), base))
    pipe.recv()  # until the reader ends
    agent.deregister_memory(registered)


def main(count, size):
    data = os.urandom(size)
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    owner = multiprocessing.get_context("fork").Process(
        target=own, args=(theirs, data, count), daemon=True
    )
    owner.start()
    metadata, there = ours.recv()
    region, base = memory(count * size)
    agent = agent_of("reader")
    agent.register_memory([(base, count * size, 0, "")], "DRAM")
    name = agent.add_remote_agent(metadata)
    near = agent.get_xfer_descs([(base + at * size, size, 0) for at in range(count)], "DRAM")
    far = agent.get_xfer_descs([(there + at * size, size, 0) for at in range(count)], "DRAM")
    print("ready", flush=True)
    for _ in sys.stdin:
        region[:] = bytes(count * size)
        begin = time.perf_counter()
        transfer = agent.initialize_xfer("READ", near, far, name)
        state = agent.transfer(transfer)
        while state == "PROC":
            state = agent.check_xfer_state(transfer)
        seconds = time.perf_counter() - begin
        if state != "DONE":
            sys.exit(f"the transfer ends in {state}")
        agent.release_xfer_handle(transfer)
        if any(region[at * size : (at + 1) * size] != data for at in range(count)):
            sys.exit("wrong bytes")
        print(seconds, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
