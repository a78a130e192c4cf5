"""larder-infinistore over a fake of the server that is stricter than the real one."""

import os
import sys
import time

import pytest
from fake_infinistore import FakeInfiniStore
from larderd_side import (
    EXISTS,
    FULL,
    GET,
    NOT_FOUND,
    OK,
    PUT,
    READY,
    TOO_LARGE,
    UNAVAILABLE,
    LarderdSide,
    key,
    text,
)
from plugin_program import Program, wait_until

PAGE = 4096


@pytest.fixture
def service():
    service = FakeInfiniStore()
    yield service
    service.silent.clear()
    service.stuck.clear()
    service.close()
    assert service.crashes == []


@pytest.fixture
def start(tmp_path, service):
    """start(url=...): LarderdSide and Program, not yet connected."""
    running = []

    def begin(url=None):
        path = tmp_path / f"{len(running)}.sock"
        larderd = LarderdSide(path, url or service.url, 16 << 20)
        folder = tmp_path / str(len(running))
        program = Program("infinistore", folder, sys.executable, ["--socket", str(path)])
        running.extend([program.stop, larderd.close])
        return larderd, program

    yield begin
    for end in running:
        end()


def test_hello_ready_state(start):
    larderd, _ = start()
    ready = larderd.accept()
    assert (ready.kind, ready.count, ready.ticket) == (READY, 0, 0)
    assert ready.body[8:].startswith(text("larder-infinistore"))
    assert larderd.wait_state(True) == (True, "")


def test_an_object_goes_and_comes_back(larderd):
    larderd.region[: 2 * PAGE] = os.urandom(2 * PAGE)
    stored = larderd.region[: 2 * PAGE]
    assert larderd.put((key(1), 0, 2 * PAGE)) == [OK]
    assert larderd.exist([key(1), key(2)]) == (OK, [True, False])
    assert larderd.get((key(1), 8 * PAGE, 3 * PAGE), (key(2), 16 * PAGE, PAGE)) == [
        (2 * PAGE, OK),
        (0, NOT_FOUND),
    ]
    assert larderd.region[8 * PAGE : 10 * PAGE] == stored
    assert larderd.get((key(1), 0, PAGE)) == [(0, TOO_LARGE)]
    assert larderd.remove(key(1), key(2)) == [OK, NOT_FOUND]
    assert larderd.exist([key(1)]) == (OK, [False])
    assert larderd.get((key(1), 0, 2 * PAGE)) == [(0, NOT_FOUND)]


def test_an_existing_object_stays_and_larderd_learns_it(larderd):
    larderd.region[:PAGE] = b"a" * PAGE
    assert larderd.put((key(1), 0, PAGE)) == [OK]
    larderd.region[:PAGE] = b"b" * PAGE
    assert sorted(larderd.put((key(2), 0, PAGE), (key(1), 0, PAGE))) == [OK, EXISTS]
    assert larderd.get((key(1), PAGE, PAGE)) == [(PAGE, OK)]
    assert larderd.region[PAGE : 2 * PAGE] == b"a" * PAGE


def test_a_look_is_one_request(larderd, service):
    names = [key(number) for number in range(1024)]
    assert larderd.exist(names[:1]) == (OK, [False])  # reads the generation of the namespace
    for count in (1, 64, 1024):
        before = service.count("M")
        assert larderd.exist(names[:count]) == (OK, [False] * count)
        assert service.count("M") == before + 1


def test_a_look_finds_a_prompt_up_to_its_end(larderd):
    names = [key(number) for number in range(100)]
    assert larderd.put(*[(name, 0, PAGE) for name in names[:37]]) == [OK] * 37
    assert larderd.exist(names) == (OK, [True] * 37 + [False] * 63)
    # A model with states asks from the end.
    assert larderd.exist(names[::-1]) == (OK, [False] * 63 + [True] * 37)


# covers F-444
def test_an_object_that_is_gone_is_believed_once(larderd, service):
    names = [key(number) for number in range(64)]
    assert larderd.put(*[(name, 0, PAGE) for name in names]) == [OK] * 64
    gone = 5  # no question of a look of 64 asks for it
    evict(service, larderd, names, gone)
    assert larderd.exist(names) == (OK, [True] * 64)
    assert larderd.get((names[gone], 0, PAGE)) == [(0, NOT_FOUND)]
    assert larderd.exist(names) == (OK, [number != gone for number in range(64)])
    assert larderd.put((names[gone], 0, PAGE)) == [OK]
    assert larderd.exist(names) == (OK, [True] * 64)


# covers F-444
def test_a_hole_that_another_node_fills_is_found(larderd, start, service):
    second, _ = start()
    second.accept()
    second.wait_state(True)
    names = [key(number) for number in range(64)]
    assert larderd.put(*[(name, 0, PAGE) for name in names]) == [OK] * 64
    for gone, find in ((5, larderd.put), (6, larderd.get)):
        evict(service, larderd, names, gone)
        assert larderd.get((names[gone], 0, PAGE)) == [(0, NOT_FOUND)]
        assert second.put((names[gone], 0, PAGE)) == [OK]
        assert find((names[gone], 0, PAGE)) in ([EXISTS], [(PAGE, OK)])
        assert larderd.exist(names) == (OK, [True] * 64)
    # The answer for a name that is asked is exact.
    for count in (1, 8, 64):
        evict(service, larderd, names, 0)
        assert larderd.get((names[0], 0, PAGE)) == [(0, NOT_FOUND)]
        assert second.put((names[0], 0, PAGE)) == [OK]
        assert larderd.exist(names[:count]) == (OK, [True] * count)


def evict(service, larderd, names, number):
    """The server evicts the record of a name: the record that a get of the name asks for."""
    before = len(service.requests)
    assert larderd.get((names[number], 0, PAGE)) == [(PAGE, OK)]
    asked = [name for what, name in service.requests[before:] if what == "G"]
    (record,) = [name for name in asked if service.values[name].startswith(b"LIS1")]
    del service.values[record]


# covers F-444
def test_an_evicted_or_foreign_part_is_a_miss_and_goes(larderd, service):
    for change in ("evicted", "short", "long"):
        assert larderd.put((key(1), 0, PAGE)) == [OK]
        (part,) = [name for name, value in service.values.items() if len(value) == PAGE]
        if change == "evicted":
            del service.values[part]
        else:
            service.values[part] = b"x" * (PAGE + (1 if change == "long" else -1))
        larderd.region[PAGE : 3 * PAGE] = bytes(2 * PAGE)
        assert larderd.get((key(1), PAGE, PAGE)) == [(0, NOT_FOUND)]
        assert larderd.region[2 * PAGE : 3 * PAGE] == bytes(PAGE)  # nothing behind the room
        assert larderd.exist([key(1)]) == (OK, [False])
        assert not [value for value in service.values.values() if len(value) > PAGE // 2]


# covers F-444
def test_a_foreign_record_is_removed(larderd, service):
    assert larderd.put((key(1), 0, PAGE)) == [OK]
    (name,) = [name for name, value in service.values.items() if value.startswith(b"LIS1")]
    service.values[name] = b"LIS1" + bytes(48)
    assert larderd.get((key(1), 0, PAGE)) == [(0, NOT_FOUND)]
    assert name not in service.values
    assert larderd.put((key(1), 0, PAGE)) == [OK]


# Several threads ask for the number of a new namespace at once.
def test_a_new_namespace_has_one_number(larderd, service):
    names = [key(number, namespace=9) for number in range(16)]
    tickets = larderd.move(PUT, [(name, 0, PAGE) for name in names])
    larderd.done(tickets + larderd.move(GET, [(name, PAGE, PAGE) for name in names]))
    time.sleep(1.5)  # a refresh
    assert larderd.get(*[(name, PAGE, PAGE) for name in names]) == [(PAGE, OK)] * 16
    numbers = [value for value in service.values.values() if len(value) == 20]
    assert len(numbers) == 2 and service.count("P") == 2 + 2 * 16


def test_clear_hides_a_namespace_and_the_pool(larderd):
    names = [key(1), key(2), key(1, namespace=8)]
    assert larderd.put(*[(name, 0, PAGE) for name in names]) == [OK] * 3
    assert larderd.clear(f"larder:1:{7:032x}:") == (0, OK)
    assert larderd.exist(names) == (OK, [False, False, True])
    assert larderd.put((key(1), 0, PAGE)) == [OK]
    assert larderd.clear("larder:1:") == (0, OK)
    assert larderd.exist(names) == (OK, [False] * 3)


# covers F-445
def test_another_node_sees_a_clear_within_a_second(larderd, start):
    second, _ = start()
    second.accept()
    second.wait_state(True)
    assert larderd.put((key(1), 0, PAGE)) == [OK]
    assert second.exist([key(1)]) == (OK, [True])
    assert larderd.clear(f"larder:1:{7:032x}:") == (0, OK)
    cleared = time.monotonic()
    wait_until(lambda: second.exist([key(1)]) == (OK, [False]))
    assert time.monotonic() - cleared < 3
    assert second.put((key(1), 0, PAGE)) == [OK]
    assert larderd.exist([key(1)]) == (OK, [True])


# covers F-442
def test_a_full_server_says_so_and_takes_again(larderd, service):
    service.full = True
    assert larderd.put((key(1), 0, 1 << 20), (key(2), 0, PAGE)) == [FULL, FULL]
    service.full = False
    assert larderd.put((key(1), 0, 1 << 20), (key(2), 0, PAGE)) == [OK, OK]


# covers F-440
def test_an_absent_server_is_reported_and_found_later(start, service):
    service.close()
    larderd, _ = start()
    larderd.accept()
    place = f"127.0.0.1:{service.port}"
    larderd.wait_state(False, f"InfiniStore {place}: Connection refused")
    assert larderd.put((key(1), 0, PAGE)) == [UNAVAILABLE]
    assert larderd.get((key(1), 0, PAGE)) == [(0, UNAVAILABLE)]
    assert larderd.exist([key(1)]) == (UNAVAILABLE, [False])
    assert larderd.clear("larder:1:") == (0, UNAVAILABLE)
    again = FakeInfiniStore(service.port)
    larderd.wait_state(True)
    assert larderd.put((key(1), 0, PAGE)) == [OK]
    again.close()


# covers F-440
def test_a_restarted_server_costs_no_call(larderd, service):
    assert larderd.put((key(1), 0, PAGE)) == [OK]
    service.close()
    again = FakeInfiniStore(service.port)
    assert larderd.exist([key(1)]) == (OK, [False])

    # The plug-in has put both generations, and knows them: it reads them again.
    def has_generations():
        payloads = [operation for operation, _ in again.requests if operation in "PG"]
        return payloads.count("P") == 2 and payloads[-1] == "G"

    wait_until(has_generations)
    assert larderd.put((key(1), 0, PAGE)) == [OK]
    assert larderd.get((key(1), 0, PAGE)) == [(PAGE, OK)]
    again.close()


# covers F-441
def test_a_silent_server_is_reported_and_no_call_waits_for_ever(larderd, service):
    service.silent.set()
    started = time.monotonic()
    larderd.wait_state(False, "no byte for 2 s")
    assert larderd.get((key(1), 0, PAGE)) == [(0, UNAVAILABLE)]
    assert time.monotonic() - started < 8
    service.silent.clear()
    larderd.wait_state(True)
    assert larderd.put((key(1), 0, PAGE)) == [OK]


# The real server aborts when a connection ends in mid-answer.
# covers F-443
def test_a_plug_in_that_ends_in_mid_answer_reads_the_answer_to_its_end(larderd, service):
    size = 4 << 20
    assert larderd.put((key(1), 0, size)) == [OK]
    service.chunk_pause_s = 0.05
    for _ in range(3):
        larderd.move(GET, [(key(1), 0, size)])
        time.sleep(0.2)
        larderd.accept()  # ends this connection, and waits for the next plug-in
        larderd.wait_state(True)
    larderd.end()
    time.sleep(1.5)
    assert service.crashes == []


MOST_CONNECTIONS = 18  # of a plug-in, as the guide says


# covers F-442, F-443
def test_connections_of_a_full_server_end_and_the_others_stay_held(larderd, service):
    size = 4 << 20
    assert larderd.put((key(1), 0, size)) == [OK]
    many = [(key(1), 0, size)] * 8  # each thread has a connection
    larderd.get(*many)
    service.full = True
    for _ in range(10):
        names = [key(number) for number in range(100, 130)]
        assert larderd.put(*[(name, 0, PAGE) for name in names]) == [FULL] * 30
    service.full = False
    wait_until(lambda: len(service.open_connections()) <= MOST_CONNECTIONS)
    service.chunk_pause_s = 0.05
    larderd.move(GET, many)
    time.sleep(0.2)
    larderd.accept()
    larderd.wait_state(True)
    larderd.end()
    time.sleep(1.5)
    assert service.crashes == []


# covers F-441, F-443
def test_an_answer_that_a_call_gives_up_is_read_later(larderd, service):
    size = 4 << 20
    larderd.region[:size] = stored = os.urandom(size)
    assert larderd.put((key(1), 0, size)) == [OK]
    many = [(key(1), 0, size)] * 8
    larderd.get(*many)
    for _ in range(2):
        service.chunk_pause_s = 0.2
        tickets = larderd.move(GET, many[:4])
        time.sleep(0.5)
        service.stuck.set()
        service.chunk_pause_s = 0
        assert larderd.done(tickets) == [(0, UNAVAILABLE)] * 4
        larderd.region[:size] = bytes(size)
        service.stuck.clear()
        assert larderd.get(*[(key(1), size, size)] * 8) == [(size, OK)] * 8
        assert larderd.region[:size] == bytes(size)  # the rest went nowhere
        assert larderd.region[size : 2 * size] == stored
    assert len(service.open_connections()) <= MOST_CONNECTIONS


# covers F-443
def test_a_stopped_program_reads_the_answers_to_their_end(start, service):
    larderd, program = start()
    larderd.accept()
    larderd.wait_state(True)
    size = 4 << 20
    assert larderd.put((key(1), 0, size)) == [OK]
    service.chunk_pause_s = 0.05
    larderd.move(GET, [(key(1), 0, size)])
    time.sleep(0.2)
    program.child.terminate()  # the supervisor alone, as in a container
    assert program.child.wait(10) == 0
    assert service.crashes == []


def test_a_put_cut_by_the_end_leaves_no_record(larderd, service):
    size = 8 << 20
    for _ in range(5):
        larderd.move(PUT, [(key(1), 0, size)])
        time.sleep(0.005)
        larderd.accept()
        larderd.wait_state(True)
        (answer,) = larderd.get((key(1), 0, size))
        assert answer in [(size, OK), (0, NOT_FOUND)]
        larderd.remove(key(1))


@pytest.mark.parametrize(
    "url, words",
    [
        ("infinistore://host", "'host' is not HOST:PORT"),
        ("mooncake://host:1", "not infinistore://HOST:PORT"),
        ("infinistore://host:99999", "'host:99999' is not HOST:PORT"),
    ],
)
# covers F-446
def test_a_wrong_url_ends_the_life_with_the_reason(start, url, words):
    larderd, program = start(url=url)
    larderd.accept()
    assert larderd.answer() is None
    wait_until(lambda: words in program.tail())
