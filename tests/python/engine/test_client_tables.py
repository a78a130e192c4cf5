"""Tables of a client without an engine, over a real larderd: the remedy of each refusal."""

import ctypes
import time

import pytest
from engines import PATIENCE_S, start_larderd

from larder import Client, LarderError

LOADS = 4096


def test_loads_are_bounded_until_they_are_polled(tmp_path):
    """Loads of a chunk that is not there: each ends at once, and its end waits for poll()."""
    with start_larderd(tmp_path, "64MiB") as larderd, Client(str(larderd.socket), "test") as client:
        client.set_namespace("engine: test\n", "m", 128, [(4096, 2, 1)])
        assert client.wait_attached(PATIENCE_S * 1000)
        memory = ctypes.create_string_buffer(4096 * 8)
        address = ctypes.addressof(memory)
        client.register_pages(0, [(address, 4096, 4096, 4), (address + 4 * 4096, 4096, 4096, 4)])

        def load():
            return client.load(bytes(32), 32, (1).to_bytes(4, "little"))

        tickets = set()
        deadline = time.monotonic() + PATIENCE_S
        for _ in range(LOADS // 512):
            tickets.update(load() for _ in range(512))
            while client.copies():  # else the queue of copies is full
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert len(tickets) == LOADS
        for _ in range(2):
            with pytest.raises(LarderError, match="^larder_load: resource exhausted$"):
                load()
        ended = {one.ticket for one in client.poll()}
        assert ended and ended <= tickets
        again = load()
        while again not in ended:
            assert time.monotonic() < deadline
            ended.update(one.ticket for one in client.poll(100))
        assert ended == tickets | {again}
