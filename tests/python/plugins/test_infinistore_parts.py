"""The modules of larder-infinistore without a server: the search, the requests, records, the
keeper."""

import os
import random
import resource
import socket
import sys
import threading
import time

import pytest
from harness.infinistore import ROOT

sys.path += [str(ROOT / "plugins"), str(ROOT / "plugins" / "infinistore")]

from fake_infinistore import HEADER, FakeInfiniStore  # noqa: E402
from larder_infinistore import keeper, record, requests, search  # noqa: E402


def bisect(there, order):
    """As the server does."""
    left, right = 0, len(order)
    while left < right:
        middle = left + (right - left) // 2
        left, right = (middle + 1, right) if there[order[middle]] else (left, middle)
    return left - 1


def answer(there):
    return search.presence(len(there), bisect(there, search.order(len(there))))


@pytest.mark.parametrize("count", [*range(1, 40), 64, 65, 100, 256, 257, 1000, 1023, 1024])
def test_one_change_is_found_exactly(count):
    for at in range(count + 1) if count < 300 else (0, 1, 2, 255, 512, 513, count - 1, count):
        for first in (True, False):
            there = [first] * at + [not first] * (count - at)
            assert answer(there) == there


@pytest.mark.parametrize("count", range(1, 9))
def test_few_names_are_found_exactly(count):
    for pattern in range(1 << count):
        there = [bool(pattern >> at & 1) for at in range(count)]
        assert answer(there) == there


# A hole between two answers is not seen.
def test_more_changes_are_found_at_the_asked_names():
    chance = random.Random(3)
    for _ in range(2000):
        there = [chance.random() < 0.5 for _ in range(chance.randrange(9, 300))]
        found = answer(there)
        assert len(found) == len(there)
        assert found[0] == there[0] and found[-1] == there[-1]


def test_the_request_of_a_look_is_small():
    names = [record.fresh_name() for _ in range(1024)]
    raw = requests.match(names, search.order(1024))
    assert len(raw) < 70_000
    assert len(requests.match(names[:64], search.order(64))) < 5_000


def test_requests_are_flatbuffers():
    reader = FakeInfiniStore.__new__(FakeInfiniStore)
    names = [record.fresh_name() for _ in range(3)]
    magic, operation, size = HEADER.unpack(requests.match(names, [2, 0, 0, 1])[: HEADER.size])
    raw = requests.match(names, [2, 0, 0, 1])
    assert (magic, operation, size) == (0xDEADBEEF, b"M", len(raw) - HEADER.size)
    assert reader._names(raw[HEADER.size :]) == [names[2], names[0], names[0], names[1]]
    body = requests.put(names[0], 12345)[HEADER.size :]
    assert reader._string(body, reader._field(body, 0)) == names[0]


def test_a_record_fits_its_key_alone():
    made = record.Record(record.fresh_name(), 2 << 20)
    raw = record.encode("larder:1:a:b", made)
    assert record.decode("larder:1:a:b", raw) == made
    assert record.decode("larder:1:a:c", raw) is None
    assert record.decode("larder:1:a:b", raw[:-1]) is None
    assert record.decode("larder:1:a:b", b"x" + raw[1:]) is None


# A request of two segments could be read while it is written.
def test_a_record_is_written_in_one_segment():
    made = record.encode("k" * 200, record.Record(record.fresh_name(), 1))
    assert len(requests.put(record.fresh_name(), len(made))) + len(made) < 512


@pytest.fixture
def life():
    """A keeper, and the plug-in's end of a life."""
    own = keeper.Keeper()
    with own.begin() as end:
        yield own, end
    own.stop(5)


def held_pair(end, seconds):
    """The server's end and the plug-in's end of a connection that the keeper holds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plugin = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    server.settimeout(2)
    keeper.hold(end, plugin)
    keeper.mark(plugin, seconds)
    return server, plugin


def die(end, *connections):
    """As a plug-in that is killed."""
    for one in (*connections, end):
        one.close()


# Descriptors above 1,023 are no exception.
# covers F-443
def test_the_end_of_a_life_ends_idle_connections_alone(life):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2048), hard), hard))
    blocked = [os.open(os.devnull, os.O_RDONLY) for _ in range(min(1100, hard - 200))]
    try:
        (idle, first), (busy, second) = held_pair(life[1], 0), held_pair(life[1], 2)
        die(life[1], first, second)
        assert idle.recv(1) == b""
        for _ in range(64):
            busy.sendall(bytes(1 << 20))
        with pytest.raises(TimeoutError):
            busy.recv(1)
        busy.close()
    finally:
        for one in blocked:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    idle.close()


# covers F-443
def test_a_keeper_waits_for_its_own_threads_alone(life):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    busy, plugin = held_pair(life[1], 2)
    die(life[1], plugin)
    started = time.monotonic()
    life[0].stop(30)
    assert time.monotonic() - started < 10
    assert busy.recv(1) == b""
    busy.close()


def test_no_byte_yet_is_no_end_of_a_connection():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours:
        assert keeper.read_some(ours, bytearray(8)) is None
        theirs.send(b"12")
        assert keeper.read_some(ours, bytearray(8)) == 2
        theirs.close()
        assert keeper.read_some(ours, bytearray(8)) == 0
