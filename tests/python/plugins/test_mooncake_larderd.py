"""Two real larderd that share through a real Mooncake pool, and engines' clients at both."""

import os
import random
import signal
import time

import pytest
from engine_side import CHUNKS
from harness.mooncake import URL
from node import check_sharing, two_nodes
from plugin_program import children, wait_until

pytestmark = pytest.mark.plugins


@pytest.fixture
def nodes(pool, tmp_path):
    yield from two_nodes(pool, URL, tmp_path)


def test_one_node_stores_and_another_loads(nodes):
    check_sharing(nodes)


# covers F-361
def test_a_stopped_member_costs_misses_by_the_deadline(pool, nodes):
    first, second = nodes
    first.engine.store(1)
    first.wait_written(CHUNKS)
    for owner in pool.owners:
        os.killpg(owner.child.pid, signal.SIGSTOP)
    assert second.engine.shared(1) == CHUNKS  # the master still answers
    fetched = second.engine.fetch(1, deadline_ms=500)
    assert fetched.chunks == 0 and 0.4 < fetched.seconds < 1
    for owner in pool.owners:
        os.killpg(owner.child.pid, signal.SIGCONT)
    # larderd gives the silent plug-in up, and the next one works.
    wait_until(lambda: second.engine.shared(1) == CHUNKS)
    assert second.engine.fetch(1).chunks == CHUNKS


# covers F-362
def test_the_status_names_an_absent_master(pool, nodes):
    first, _ = nodes
    pool.master.kill()
    wait_until(lambda: "Mooncake's master" in first.backend()["reason"])
    assert not first.works()
    pool.start_master()
    wait_until(first.works)


class Killer:
    """Kills a part with SIGKILL and starts the part anew."""

    def __init__(self, pool, nodes):
        self._pool, self._nodes = pool, nodes
        self.slowest = 0.0  # from the death of a plug-in until larderd serves the tier again

    def plugin(self, chance):
        node = chance.choice(self._nodes)
        if not node.works():
            return
        killed = children(node.plugin.child.pid)
        for child in killed:
            os.kill(child, signal.SIGKILL)
        started = time.monotonic()
        wait_until(lambda: set(children(node.plugin.child.pid)) - set(killed) and node.works())
        self.slowest = max(self.slowest, time.monotonic() - started)

    def member(self, chance):
        self._pool.owners.pop(chance.randrange(2)).kill()
        self._pool.owners.append(self._pool.start_owner(256))

    def master(self, _):
        self._pool.master.kill()
        self._pool.start_master()


# LARDER_KILLS=1000 is the long form. EngineSide compares each loaded byte with its key.
# covers F-360, F-364, F-366
def test_all_parts_are_killed_at_random_and_no_byte_is_wrong(pool, nodes):
    kills = int(os.environ.get("LARDER_KILLS", 24))
    chance, killer = random.Random(7), Killer(pool, nodes)
    loaded, longest = 0, 0.0
    for series in range(kills):
        writer, reader = nodes if series % 2 else reversed(nodes)
        writer.engine.store(series)
        time.sleep(chance.random() * 0.1)
        victim = chance.choices(["plugin", "member", "master"], [8, 1, 1])[0]
        getattr(killer, victim)(chance)
        for asked in (series, max(series - 1, 0)):
            reader.engine.shared(asked, deadline_ms=500)
            fetched = reader.engine.fetch(asked, deadline_ms=500)
            loaded += fetched.chunks
            longest = max(longest, fetched.seconds)
    print(
        f"{kills} kills: {loaded} chunks loaded, no wrong byte; the longest fetch {longest:.2f} s,"
        f" a plug-in back after {killer.slowest:.2f} s at most"
    )
    assert loaded and longest < 2 and killer.slowest < 4  # half of that on an idle machine
