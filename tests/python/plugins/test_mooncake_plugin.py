"""larder-mooncake over a fake of the wheel: results, batches, faults, the end of the process."""

import os
import sys
import time

import pytest
from larderd_side import (
    CLEAR,
    DONE,
    EXISTS,
    FAILED,
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
    packet,
    text,
)
from plugin_program import HERE, FakeService, Program, wait_until

PAGE = 4096


@pytest.fixture
def service(tmp_path):
    service = FakeService(tmp_path)
    yield service
    service.close()


@pytest.fixture
def start(tmp_path, service):
    """start(*arguments, url=...): LarderdSide and Program, not yet connected."""
    running = []

    def begin(*arguments, url=None):
        path = tmp_path / "plugin.sock"
        larderd = LarderdSide(path, url or f"mooncake://{service.master}", 4 << 20)
        program = Program(
            "mooncake",
            tmp_path,
            sys.executable,
            ["--socket", str(path), *arguments],
            extra_path=[HERE / "fake_wheel"],
            env=service.env,
        )
        running.extend([program.stop, larderd.close])
        return larderd, program

    yield begin
    for end in running:
        end()


def test_hello_ready_state(start):
    larderd, _ = start()
    ready = larderd.accept()
    assert (ready.kind, ready.count, ready.ticket) == (READY, 0, 0)
    assert ready.body[:8] == bytes([1, 0, 0, 0, 0, 0, 0, 0])
    assert ready.body[8:].startswith(text("larder-mooncake"))
    assert larderd.wait_state(True) == (True, "")


def test_an_object_goes_and_comes_back(larderd):
    larderd.region[: 2 * PAGE] = os.urandom(2 * PAGE)
    stored = larderd.region[: 2 * PAGE]
    assert larderd.put((key(1), 0, 2 * PAGE)) == [OK]
    assert larderd.exist([key(1), key(2)]) == (OK, [True, False])
    room = (8 * PAGE, 3 * PAGE)
    assert larderd.get((key(1), *room), (key(2), 16 * PAGE, PAGE)) == [
        (2 * PAGE, OK),
        (0, NOT_FOUND),
    ]
    assert larderd.region[8 * PAGE : 10 * PAGE] == stored
    assert larderd.get((key(1), 0, PAGE)) == [(0, TOO_LARGE)]
    assert larderd.remove(key(1), key(2)) == [OK, NOT_FOUND]
    assert larderd.exist([key(1)]) == (OK, [False])


# The wheel answers 0 here: the plug-in asks.
def test_an_existing_object_stays_and_larderd_learns_it(larderd):
    larderd.region[:PAGE] = b"a" * PAGE
    assert larderd.put((key(1), 0, PAGE)) == [OK]
    larderd.region[:PAGE] = b"b" * PAGE
    assert larderd.put((key(2), 0, PAGE), (key(1), 0, PAGE)) == [OK, EXISTS]
    assert larderd.get((key(1), PAGE, PAGE)) == [(PAGE, OK)]
    assert larderd.region[PAGE : 2 * PAGE] == b"a" * PAGE


# covers F-367
def test_a_key_left_by_a_dead_writer_is_no_success(larderd, service):
    service.fault(lost=[key(1)])
    assert larderd.put((key(1), 0, PAGE), (key(2), 0, PAGE)) == [FAILED, OK]


@pytest.mark.parametrize(
    "code, result", [(-200, FULL), (-900, UNAVAILABLE), (-1010, UNAVAILABLE), (-800, FAILED)]
)
def test_codes_of_a_put(larderd, service, code, result):
    service.fault(codes={"batch_put_from": code})
    assert larderd.put((key(1), 0, PAGE)) == [result]


@pytest.mark.parametrize(
    "code, result",
    [(-704, NOT_FOUND), (-703, NOT_FOUND), (-707, FAILED), (-800, FAILED), (-900, UNAVAILABLE)],
)
def test_codes_of_a_get(larderd, service, code, result):
    service.fault(codes={"batch_get_into": code})
    assert larderd.get((key(1), 0, PAGE)) == [(0, result)]


def test_clear_takes_the_prefix_as_text(larderd):
    names = [key(1), key(2), key(1, namespace=8)]
    assert larderd.put(*[(name, 0, PAGE) for name in names]) == [OK] * 3
    assert larderd.clear("larder:1:" + "0" * 31 + ".:") == (0, OK)  # no wildcard
    assert larderd.clear(f"larder:1:{7:032x}:") == (2, OK)
    assert larderd.exist(names) == (OK, [False, False, True])
    assert larderd.clear("larder:1:") == (1, OK)


def test_waiting_calls_become_one_batch(larderd, service):
    service.fault(block=["batch_get_into"])
    blocked = []
    for thread in (1, 2):
        blocked.append(larderd.move(GET, [(key(thread), 0, PAGE)]))
        wait_until(lambda: service.calls("batch_get_into") == [1] * len(blocked))
    waiting = [larderd.move(GET, [(key(n), 0, PAGE)]) for n in range(2, 42)]
    # A full packet does not fit into the same batch.
    waiting.append(larderd.move(GET, [(key(n), 0, PAGE) for n in range(256)]))
    time.sleep(0.1)
    service.fault()
    assert {r for _, r in larderd.done(sum(blocked + waiting, []))} == {NOT_FOUND}
    assert sorted(service.calls("batch_get_into")[2:]) == [40, 256]


def test_a_blocked_get_delays_no_other_kind(larderd, service):
    service.fault(block=["batch_get_into"])
    tickets = larderd.move(GET, [(key(9), 0, PAGE)])
    assert larderd.put((key(1), PAGE, PAGE)) == [OK]
    assert larderd.exist([key(1)]) == (OK, [True])
    assert larderd.remove(key(1)) == [OK]
    service.fault()
    assert larderd.done(tickets) == [(0, NOT_FOUND)]


# A blocked call, or a blocked setup, must not delay the end: larderd has given up its region.
@pytest.mark.parametrize("blocked", ["batch_get_into", "setup"])
# covers F-369
def test_the_process_ends_with_its_socket_and_a_new_one_comes(start, service, blocked):
    larderd, _ = start()
    if blocked == "setup":
        service.fault(block=["setup"])
    larderd.accept()
    if blocked != "setup":
        larderd.wait_state(True)
        service.fault(block=[blocked])
        larderd.move(GET, [(key(1), 0, PAGE)])
    wait_until(lambda: service.calls(blocked))
    started = time.monotonic()
    larderd.accept()  # ends this connection, and waits for the next plug-in
    assert time.monotonic() - started < 5
    service.fault()
    larderd.wait_state(True)


# covers F-362
def test_an_absent_master_is_reported_and_found_later(start, service):
    port = service.master
    service.close()
    larderd, _ = start(url=f"mooncake://{port}")
    larderd.accept()
    larderd.wait_state(False, f"Mooncake's master {port}: Connection refused")
    assert larderd.put((key(1), 0, PAGE)) == [UNAVAILABLE]
    assert larderd.get((key(1), 0, PAGE)) == [(0, UNAVAILABLE)]
    assert larderd.exist([key(1)]) == (UNAVAILABLE, [False])
    assert larderd.clear("larder:1:") == (0, UNAVAILABLE)
    assert service.calls("setup") == []


def test_the_state_follows_the_master(larderd, service):
    service.fault(codes={"batch_is_exist": -900})
    larderd.wait_state(False, "answers -900")
    assert larderd.put((key(1), 0, PAGE)) == [UNAVAILABLE]
    assert larderd.exist([key(1)]) == (UNAVAILABLE, [False])
    service.fault()
    larderd.wait_state(True)


@pytest.mark.parametrize("call, words", [("setup", "did not start"), ("register_buffer", "-600")])
def test_a_refused_start_is_named_and_tried_again(start, service, call, words):
    service.fault(codes={call: -600})
    larderd, _ = start()
    larderd.accept()
    larderd.wait_state(False, words)
    service.fault()
    larderd.wait_state(True)


@pytest.mark.parametrize(
    "url, arguments, words",
    [
        ("mooncake://host", [], "'host' is not HOST:PORT"),
        ("redis://host:1", [], "not mooncake://HOST:PORT"),
        ("mooncake://host:99999", [], "'host:99999' is not HOST:PORT"),
        ("mooncake://a:1", ["--master", "b:1"], "--master is b:1, but backend.url names a:1"),
    ],
)
# covers F-368
def test_a_wrong_url_ends_the_life_with_the_reason(start, url, arguments, words):
    larderd, program = start(*arguments, url=url)
    larderd.accept()
    assert larderd.answer() is None
    wait_until(lambda: words in program.tail())


# covers F-368
def test_another_protocol_is_answered_and_named(start):
    larderd, program = start()
    assert larderd.accept(protocol=2).kind == READY
    assert larderd.answer() is None
    wait_until(lambda: "larderd speaks protocol 2, this plug-in 1" in program.tail())


@pytest.mark.parametrize(
    "sent, words",
    [
        (packet(77, 0, 0, b""), "unknown kind 77"),
        (packet(PUT, 2, 0, b"x" * 30), "2 entries of"),
        (packet(CLEAR, 0, 1, b"\xff\x00ab"), "a text is cut"),
        (b"short", "a packet of 5 bytes"),
        (packet(DONE, 0, 0, b"")[:8] + b"\x00" * 8, "unknown kind 17"),
    ],
)
def test_a_malformed_packet_ends_the_life(larderd, tmp_path, sent, words):
    larderd.send(sent)
    assert larderd.answer() is None
    wait_until(lambda: words in (tmp_path / "larder-mooncake.log").read_text())


def test_a_call_outside_the_region_ends_the_life(larderd, tmp_path):
    larderd.move(PUT, [(key(1), larderd.region_bytes - PAGE, 2 * PAGE)])
    assert larderd.answer() is None
    wait_until(lambda: "outside the region" in (tmp_path / "larder-mooncake.log").read_text())


# A SIGKILL of the plug-in in mid-call costs that life alone; the owner of memory goes on.
def test_contributed_memory_outlives_the_plug_in(start, service):
    larderd, program = start("--contribute", "32MiB", "--master", service.master)
    for _ in range(3):
        larderd.accept()
        larderd.wait_state(True)
    assert sorted(service.calls("setup")) == [0, 0, 0, 32 << 20]
    program.stop()
    assert service.calls("close") == [1]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--contribute", "8GB", "--master", "a:1"], "'8GB' is no size such as 8GiB"),
        (["--contribute", "1MiB", "--master", "a:1"], "below 16MiB"),
        (["--contribute", "8GiB"], "--contribute needs --master"),
        (["--master", "host"], "'host' is not HOST:PORT"),
        (["--devices", "mlx5_0"], "--devices is for --protocol rdma"),
    ],
)
def test_wrong_arguments_end_the_program_with_their_name(start, arguments, words):
    _, program = start(*arguments)
    assert program.child.wait(20) == 2
    assert words in program.tail()
