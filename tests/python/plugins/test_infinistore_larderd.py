"""Two real larderd that share through a real InfiniStore server, and engines' clients at both."""

import os
import random
import signal
import time

import pytest
from engine_side import CHUNKS
from harness.infinistore import URL
from node import check_sharing, two_nodes
from plugin_program import children, wait_until

pytestmark = pytest.mark.plugins


@pytest.fixture
def nodes(store, tmp_path):
    yield from two_nodes(store, URL, tmp_path)


def test_one_node_stores_and_another_loads(nodes):
    check_sharing(nodes)


# covers F-441
def test_a_stopped_server_costs_misses_by_the_deadline(store, nodes):
    first, second = nodes
    first.engine.store(1)
    first.wait_written(CHUNKS)
    assert second.engine.shared(1) == CHUNKS
    os.killpg(store.server.child.pid, signal.SIGSTOP)
    fetched = second.engine.fetch(1, deadline_ms=500)
    assert fetched.chunks == 0 and fetched.seconds < 1
    wait_until(lambda: "no byte for 2 s" in first.backend()["reason"])
    os.killpg(store.server.child.pid, signal.SIGCONT)
    wait_until(lambda: second.engine.shared(1) == CHUNKS)
    assert second.engine.fetch(1).chunks == CHUNKS


# LARDER_KILLS=1000 is the long form. EngineSide compares each loaded byte with its key.
# covers F-440, F-443, F-447
def test_all_parts_are_killed_at_random_and_no_byte_is_wrong(store, nodes):
    kills = int(os.environ.get("LARDER_KILLS", 24))
    chance = random.Random(7)
    loaded, longest, servers = 0, 0.0, 0
    for series in range(kills):
        writer, reader = nodes if series % 2 else reversed(nodes)
        writer.engine.store(series)
        time.sleep(chance.random() * 0.1)
        if chance.random() < 0.15:
            servers += 1
            store.server.kill()
            store.start_server()
        elif (node := chance.choice(nodes)).works():
            for child in children(node.plugin.child.pid):
                os.kill(child, signal.SIGKILL)
        for asked in (series, max(series - 1, 0)):
            reader.engine.shared(asked, deadline_ms=500)
            fetched = reader.engine.fetch(asked, deadline_ms=500)
            loaded += fetched.chunks
            longest = max(longest, fetched.seconds)
        assert store.server.child.poll() is None
    print(
        f"{kills} kills, {servers} of the server: {loaded} chunks loaded, no wrong byte;"
        f" the longest fetch {longest:.2f} s"
    )
    assert loaded and longest < 2
    started = time.monotonic()
    wait_until(lambda: all(node.works() for node in nodes))
    assert time.monotonic() - started < 5
