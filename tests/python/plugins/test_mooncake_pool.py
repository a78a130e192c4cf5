"""larder-mooncake over a real Mooncake: a master and two segment owners, killed and stopped.

Each object has bytes that derive from its key and a number of writing. GET may answer a failure or
these bytes; the tests count other bytes as wrong only where Mooncake itself has no excuse: larderd
compares a record of each object."""

import os
import re
import shlex
import signal
import time

import pytest
from harness.mooncake import MASTER, ROOT, URL, programs
from larderd_side import EXISTS, FULL, GET, NOT_FOUND, OK, PUT, TOO_LARGE, LarderdSide, key
from objects import SIZE, place, read

pytestmark = pytest.mark.plugins
MANY = 24


@pytest.fixture
def larderd(pool, tmp_path):
    larderd = LarderdSide(tmp_path / "plugin.sock", URL, 128 << 20)
    with pool.start_plugin(larderd.path):
        larderd.accept()
        larderd.wait_state(True)
        yield larderd
    larderd.close()


def test_objects_move_are_found_and_go(larderd):
    names = [key(n) for n in range(MANY)]
    assert larderd.put(*place(larderd, names)) == [OK] * MANY
    assert larderd.exist([*names, key(99)]) == (OK, [True] * MANY + [False])
    assert read(larderd, names) == [OK] * MANY
    assert larderd.get((key(0), 0, 4096), (key(99), SIZE, SIZE)) == [(0, TOO_LARGE), (0, NOT_FOUND)]
    assert larderd.put((key(1), 0, SIZE), (key(98), 0, SIZE)) == [EXISTS, OK]
    assert larderd.remove(key(0), key(98), key(99)) == [OK, OK, NOT_FOUND]
    assert larderd.clear(f"larder:1:{7:032x}:") == (MANY - 1, OK)
    assert larderd.exist(names) == (OK, [False] * MANY)


def test_two_nodes_share_the_pool(pool, larderd, tmp_path):
    second = LarderdSide(tmp_path / "second.sock", URL, 128 << 20)
    with pool.start_plugin(second.path):
        second.accept()
        second.wait_state(True)
        names = [key(n) for n in range(MANY)]
        assert larderd.put(*place(larderd, names)) == [OK] * MANY
        assert read(second, names) == [OK] * MANY
        assert second.remove(*names[:4]) == [OK] * 4
        assert larderd.exist(names) == (OK, [False] * 4 + [True] * (MANY - 4))
    second.close()


# An object that was just read has a lease of 10 s: a removal does not wait for the lease.
# covers F-365
def test_a_full_pool_says_so_and_takes_again(larderd):
    results = []
    for batch in range(12):
        results += larderd.put(*place(larderd, [key(batch * MANY + n) for n in range(MANY)]))
    assert FULL in results and set(results) <= {OK, FULL}
    assert larderd.clear("larder:1:")[1] == OK
    assert larderd.put(*place(larderd, [key(1)])) == [OK]


# covers F-360
def test_a_killed_owner_costs_misses(pool, larderd):
    names = [key(n) for n in range(MANY)]
    assert larderd.put(*place(larderd, names)) == [OK] * MANY
    pool.owners[0].kill()
    until = time.monotonic() + 30
    while time.monotonic() < until:  # the master believes in the owner for 10 s
        results = read(larderd, names)
        assert OK in results  # the other owner's
        if set(results) == {OK, NOT_FOUND}:
            break
    assert set(results) == {OK, NOT_FOUND}
    gone = [name for name, result in zip(names, results, strict=True) if result != OK]
    assert larderd.put(*place(larderd, gone)) == [OK] * len(gone)


# larderd gives up a silent plug-in; the process ends although a call of Mooncake waits for 60 s.
# covers F-361
def test_a_stopped_owner_holds_no_plug_in(pool, larderd):
    names = [key(n) for n in range(MANY)]
    assert larderd.put(*place(larderd, names)) == [OK] * MANY
    for owner in pool.owners:
        os.killpg(owner.child.pid, signal.SIGSTOP)
    larderd.move(GET, [(name, at * SIZE, SIZE) for at, name in enumerate(names)])
    time.sleep(1)
    assert larderd.exist(names) == (OK, [True] * MANY)  # beside the waiting call
    started = time.monotonic()
    larderd.accept()
    larderd.wait_state(True)
    assert time.monotonic() - started < 5
    for owner in pool.owners:
        os.killpg(owner.child.pid, signal.SIGCONT)


# covers F-363
def test_a_stopped_master_holds_no_plug_in(pool, larderd):
    os.killpg(pool.master.child.pid, signal.SIGSTOP)
    larderd.move(GET, [(key(1), 0, SIZE)])
    time.sleep(0.5)
    larderd.accept()  # a new process, which waits for the master
    larderd.wait_state(False, "joining the pool")
    os.killpg(pool.master.child.pid, signal.SIGCONT)
    larderd.wait_state(True)
    assert larderd.put(*place(larderd, [key(1)])) == [OK]


# A restarted master is empty and gives the memory of the owners away a second time.
# covers F-364
def test_a_restarted_master_starts_empty_and_is_joined_again(pool, larderd):
    names = [key(n) for n in range(MANY)]
    assert larderd.put(*place(larderd, names)) == [OK] * MANY
    pool.master.kill()
    larderd.wait_state(False)
    pool.start_master()
    larderd.wait_state(True)
    assert larderd.exist(names) == (OK, [False] * MANY)
    until = time.monotonic() + 30
    while larderd.put(*place(larderd, names)) != [OK] * MANY:  # FULL until the owners are back
        larderd.clear("larder:1:")
        assert time.monotonic() < until
        time.sleep(0.2)
    assert read(larderd, names) == [OK] * MANY


# covers F-366
def test_killed_plug_ins_come_back_and_leave_whole_objects(pool, larderd):
    names = [key(n) for n in range(MANY)]
    for life in range(20):
        larderd.move(PUT, place(larderd, names))
        time.sleep(0.002 * (life % 25))
        started = time.monotonic()
        larderd.accept()
        larderd.wait_state(True)
        assert time.monotonic() - started < 5
        assert set(read(larderd, names)) <= {OK, NOT_FOUND}
        larderd.clear("larder:1:")


# The guide's addresses and places are those of a user's machines.
def test_the_command_of_the_guide(pool, tmp_path):
    page = (ROOT / "docs/guides/mooncake.md").read_text()
    (command,) = re.findall(r"```sh\n(PYTHONPATH=.* -m larder_mooncake .*)\n```", page)
    larderd = LarderdSide(tmp_path / "guide.sock", URL)
    changes = {
        "plugins:plugins/mooncake": f"{ROOT}/plugins:{ROOT}/plugins/mooncake",
        "/opt/larder-mooncake/bin": str(programs()),
        "/run/larder/mooncake.sock": larderd.path,
        "mooncake-master.cache.svc:50051": MASTER,
        "8GiB": "64MiB",
    }
    for old, new in changes.items():
        assert old in command
        command = command.replace(old, new)
    with pool.run("guide", ["env", *shlex.split(command)]):
        larderd.accept()
        larderd.wait_state(True)
        assert larderd.put(*place(larderd, [key(1)])) == [OK]
    larderd.close()
