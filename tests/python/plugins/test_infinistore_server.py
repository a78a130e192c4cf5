"""larder-infinistore over the real server 0.2.35, and the facts about the server that the plug-in
relies on.

Each object has bytes that derive from its key."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time

import pytest
from harness.infinistore import PLACE, PORT, ROOT, URL
from infinistore_load import run_load
from larderd_side import EXISTS, FULL, GET, NOT_FOUND, OK, PUT, LarderdSide, key
from objects import SIZE, place, read

sys.path += [str(ROOT / "plugins"), str(ROOT / "plugins" / "infinistore")]

from larder_infinistore import record, requests  # noqa: E402

pytestmark = pytest.mark.plugins
MANY = 24


@pytest.fixture
def larderd(store, tmp_path):
    larderd = LarderdSide(tmp_path / "plugin.sock", URL, 128 << 20)
    with store.start_plugin(larderd.path):
        larderd.accept()
        larderd.wait_state(True)
        yield larderd
    larderd.close()


def alive(store):
    return store.server.child.poll() is None


def test_objects_move_are_found_and_go(larderd):
    names = [key(n) for n in range(MANY)]
    assert larderd.put(*place(larderd, names)) == [OK] * MANY
    assert larderd.exist([*names, key(99)]) == (OK, [True] * MANY + [False])
    assert read(larderd, names) == [OK] * MANY
    assert larderd.put((key(1), 0, SIZE), (key(98), 0, SIZE)) == [EXISTS, OK]
    assert larderd.remove(key(0), key(98), key(99)) == [OK, OK, NOT_FOUND]
    assert larderd.clear(f"larder:1:{7:032x}:") == (0, OK)
    assert larderd.exist(names) == (OK, [False] * MANY)


def test_a_thousand_names_are_one_look(larderd):
    names = [key(n) for n in range(1024)]
    larderd.region[:4096] = os.urandom(4096)
    assert set(larderd.put(*[(name, 0, 4096) for name in names[:200]])) == {OK}
    assert larderd.exist(names) == (OK, [True] * 200 + [False] * 824)


def test_two_nodes_share_the_server(store, larderd, tmp_path):
    second = LarderdSide(tmp_path / "second.sock", URL, 128 << 20)
    with store.start_plugin(second.path):
        second.accept()
        second.wait_state(True)
        names = [key(n) for n in range(MANY)]
        assert larderd.put(*place(larderd, names)) == [OK] * MANY
        assert read(second, names) == [OK] * MANY
        assert second.remove(*names[:4]) == [OK] * 4
        assert larderd.exist(names) == (OK, [False] * 4 + [True] * (MANY - 4))
    second.close()


# LARDER_LOAD=10000 is the long form, which `make bench-infinistore` runs.
def test_concurrent_puts_and_gets_of_the_same_chunks_end_no_server(store, tmp_path):
    calls = int(os.environ.get("LARDER_LOAD", 2000))
    done = run_load(store, tmp_path, URL, calls)
    print(done)
    assert alive(store)
    assert done["wrong"] == 0 and done["puts"] + done["gets"] >= calls and done["hits"] > 0


# The server evicts by itself, in blocks of 64 KiB.
# covers F-442
def test_a_full_server_evicts_or_says_so(store, larderd):
    results = []
    for batch in range(30):  # 1.5 GB into 1 GiB
        results += larderd.put(*place(larderd, [key(batch * MANY + n) for n in range(MANY)]))
    assert set(results) <= {OK, FULL} and alive(store)
    last = [key(29 * MANY + n) for n in range(MANY)]
    assert read(larderd, last).count(OK) >= MANY // 2
    assert NOT_FOUND in read(larderd, [key(n) for n in range(MANY)])


# covers F-440
def test_a_killed_server_starts_empty_and_is_found_again(store, larderd):
    names = [key(n) for n in range(MANY)]
    assert larderd.put(*place(larderd, names)) == [OK] * MANY
    store.server.kill()
    larderd.wait_state(False, f"InfiniStore {PLACE}")
    store.start_server()
    larderd.wait_state(True)
    assert larderd.exist(names) == (OK, [False] * MANY)
    assert larderd.put(*place(larderd, names)) == [OK] * MANY
    assert read(larderd, names) == [OK] * MANY


# covers F-441, F-443
def test_a_stopped_server_holds_no_plug_in_and_lives_on(store, larderd):
    names = [key(n) for n in range(MANY)]
    assert larderd.put(*place(larderd, names)) == [OK] * MANY
    larderd.move(GET, [(name, at * SIZE, SIZE) for at, name in enumerate(names)])
    time.sleep(0.01)
    os.killpg(store.server.child.pid, signal.SIGSTOP)
    larderd.wait_state(False, "no byte for 2 s")
    started = time.monotonic()
    larderd.accept()  # larderd gives the plug-in up
    assert time.monotonic() - started < 5
    os.killpg(store.server.child.pid, signal.SIGCONT)
    larderd.wait_state(True)
    assert read(larderd, names) == [OK] * MANY
    assert alive(store)


# covers F-443, F-447
def test_killed_plug_ins_end_no_server_and_leave_whole_objects(store, larderd):
    names = [key(n) for n in range(MANY)]
    for life in range(30):
        larderd.move(PUT if life % 3 else GET, place(larderd, names))
        time.sleep(0.002 * (life % 25))
        started = time.monotonic()
        larderd.accept()
        larderd.wait_state(True)
        assert time.monotonic() - started < 5
        assert set(read(larderd, names)) <= {OK, NOT_FOUND}
        if life % 3 == 2:
            larderd.remove(*names)
    assert alive(store)


# covers F-440
def test_a_purge_costs_misses(store, larderd):
    names = [key(n) for n in range(MANY)]
    assert larderd.put(*place(larderd, names)) == [OK] * MANY
    store.purge()
    assert set(read(larderd, names)) == {NOT_FOUND}
    assert larderd.put(*place(larderd, names)) == [OK] * MANY


class Bare:
    """The protocol by hand, in the namespace of the server."""

    def __init__(self, store):
        # A socket belongs to the namespace of its process: a child makes the socket.
        ours, theirs = socket.socketpair()
        script = (
            "import socket;s=socket.create_connection(('127.0.0.1',%d));"
            "socket.send_fds(socket.socket(fileno=0),[b'x'],[s.fileno()])" % PORT
        )
        subprocess.run([*store.enter, sys.executable, "-c", script], stdin=theirs, check=True)
        _, (descriptor,), _, _ = socket.recv_fds(ours, 1, 1)
        self.socket = socket.socket(fileno=descriptor)
        self.socket.settimeout(20)

    def put(self, name, value):
        self.socket.sendall(requests.put(name, len(value)) + value)
        assert self.socket.recv(4) == requests.OK.to_bytes(4, "little")


def wait_dead(store, seconds=10):
    until = time.monotonic() + seconds
    while alive(store) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(store)


# The reason for fresh names: the released server ends at a read of a value under way.
def test_the_server_ends_at_a_read_of_a_value_under_way(store):
    name = record.fresh_name()
    writer, reader = Bare(store), Bare(store)
    writer.socket.sendall(requests.put(name, 1 << 20) + bytes(1000))
    time.sleep(0.2)
    reader.socket.sendall(requests.get(name))
    assert wait_dead(store)


# The reason for the keeper: the server closes the connection twice, at most ends.
def test_the_server_ends_with_a_client_in_mid_answer(store):
    name = record.fresh_name()
    Bare(store).put(name, bytes(64 << 20))
    for _ in range(8):
        client = Bare(store)
        client.socket.sendall(requests.get(name))
        client.socket.recv(100)
        client.socket.close()
        if wait_dead(store, 2):
            return
    raise AssertionError("the server lives: plugins/infinistore needs no keeper")


# The guide's addresses and places are those of a user's machines.
def test_the_command_of_the_guide(store, tmp_path):
    page = (ROOT / "docs/guides/infinistore.md").read_text()
    (command,) = re.findall(r"```sh\n(PYTHONPATH=.* -m larder_infinistore .*)\n```", page)
    larderd = LarderdSide(tmp_path / "guide.sock", URL)
    changes = {
        "plugins:plugins/infinistore": f"{ROOT}/plugins:{ROOT}/plugins/infinistore",
        "/run/larder/infinistore.sock": larderd.path,
    }
    for old, new in changes.items():
        assert old in command
        command = command.replace(old, new)
    with store.run("guide", ["env", *shlex.split(command)]):
        larderd.accept()
        larderd.wait_state(True)
        assert larderd.put(*place(larderd, [key(1)])) == [OK]
    larderd.close()
