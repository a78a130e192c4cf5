"""The Python client against the real library, without a larderd: every look-up misses, no call
waits, errors have names."""

import ctypes
import gc
import os
import time

import pytest

from larder import Client, LarderError, namespace_id
from larder import _native as native

FINGERPRINT = "engine: test\n"


@pytest.fixture
def client(tmp_path):
    with Client(str(tmp_path / "none.sock"), "test") as client:
        yield client


def open_namespace(client):
    client.set_namespace(FINGERPRINT, "m", 128, [(4096, 2, 1)])


def test_without_larderd_every_lookup_misses_at_once(client):
    open_namespace(client)
    took = []
    for _ in range(3):  # the best one counts: a busy machine may take longer
        begin = time.monotonic()
        assert client.lookup(bytes(64 * 32), 32) == 0
        assert client.hold(bytes(32), 32) == (0, 0)
        assert client.poll() == []
        client.report_request(1, 0, 1)
        took.append(time.monotonic() - begin)
    assert min(took) < 0.5
    assert client.state().attached == 0
    assert client.wait_attached(50) is False


def test_a_folder_whose_name_is_not_utf8_names_a_model_and_a_socket(tmp_path):
    name = os.fsdecode(b"/models/m\xffx")
    with Client(f"{tmp_path}{name}.sock", "test") as client:
        client.set_namespace(FINGERPRINT, name, 128, [(4096, 2, 1)])
        assert client.lookup(bytes(32), 32) == 0


def test_a_transfer_keeps_what_it_points_at():
    transfer = native.transfer(
        b"".join([b"h" * 32, b"i" * 32]), 32, b"".join([b"\0", b"p" * 4095]), 0, 0, 0
    )
    gc.collect()
    # the place of a missing library
    others = [bytes(4096) for _ in range(100)] + [bytes(64) for _ in range(100)]
    address = ctypes.c_void_p.from_buffer(transfer, type(transfer).pages.offset).value
    assert ctypes.string_at(address, 4096) == b"\0" + b"p" * 4095 and others
    assert (
        ctypes.string_at(
            ctypes.c_void_p.from_buffer(transfer, type(transfer).hashes.offset).value, 64
        )
        == b"h" * 32 + b"i" * 32
    )
    assert (transfer.struct_bytes, transfer.hashes.count, transfer.page_count) == (
        ctypes.sizeof(transfer),
        2,
        1024,
    )


def test_stores_without_larderd_are_refused_and_counted(client):
    open_namespace(client)
    memory = ctypes.create_string_buffer(4096 * 8)
    address = ctypes.addressof(memory)
    client.register_pages(0, [(address, 4096, 4096, 4), (address + 4 * 4096, 4096, 4096, 4)])
    client.store_begin(bytes(32), 32, (1).to_bytes(4, "little"))
    assert client.store_finish(5).stored == 0
    with pytest.raises(LarderError):
        client.load(bytes(32), 32, (1).to_bytes(4, "little"))


def test_arguments_not_matching_the_layout_are_reported(client):
    open_namespace(client)
    with pytest.raises(
        LarderError, match="^larder_register_pages: invalid argument: no such group: 7$"
    ):
        client.register_pages(7, [])
    with pytest.raises(
        LarderError,
        match="^larder_register_pages: invalid argument: the namespace has 2 layers, got 0$",
    ):
        client.register_pages(0, [])
    with pytest.raises(
        LarderError,
        match="^larder_set_namespace: failed precondition: the namespace is already set$",
    ):
        open_namespace(client)


def test_refused_calls_are_logged(client):
    open_namespace(client)
    assert client.store_begin(bytes(32), 32, b"") is False
    with pytest.raises(LarderError):
        client.register_pages(7, [])
    told = []
    while (line := client.next_log()) is not None:
        told.append(line)
    refused = [line for line in told if line[0] == "error" and line[1].startswith("larder_")]
    assert refused == [
        ("error", "larder_store_begin: register the group's pages first"),
        ("error", "larder_register_pages: no such group: 7"),
    ]


def test_an_absent_larderd_is_not_logged_as_a_refusal(client):
    open_namespace(client)
    client.register_pages(0, [(1 << 20, 4096, 4096, 4)] * 2)
    with pytest.raises(LarderError, match="^larder_load: unavailable$"):
        client.load(bytes(32), 32, (1).to_bytes(4, "little"))
    with pytest.raises(LarderError, match="^larder_load_by_layer: unavailable$"):
        client.load(bytes(32), 32, (1).to_bytes(4, "little"), by_layer=True)
    with pytest.raises(LarderError, match="^larder_wait_layer: not found$"):
        client.wait_layer(1, 0, 60_000)


def test_an_absent_larderd_is_logged(client):
    open_namespace(client)
    deadline = time.monotonic() + 60
    while (line := client.next_log()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    level, text = line
    assert level in ("info", "warning", "error") and "none.sock" in text


def test_without_larderd_there_are_no_lower_tiers(client):
    open_namespace(client)
    assert client.tiers.speed() is None
    assert client.tiers.reachable(bytes(64 * 32), 32) == 0
    with pytest.raises(LarderError, match="^larder_fetch: unavailable$"):
        client.tiers.fetch(bytes(64), 32, 100)
    begin = time.monotonic()
    gone = client.tiers.fetch_poll(7, 60_000)
    assert (gone.chunks, gone.complete, gone.late) == (0, False, False)
    client.tiers.fetch_end(7)
    with pytest.raises(LarderError, match="^larder_probe: unavailable$"):
        client.tiers.probe(bytes(64), 32, 100)
    probed = client.tiers.probe_poll(7, 60_000)
    assert (probed.chunks, probed.late, probed.read_bytes_per_s) == (0, False, 0)
    client.tiers.probe_end(7)
    assert time.monotonic() - begin < 30  # not the 60 s of the wait


def test_pinning_needs_larderd(client):
    open_namespace(client)
    for act in (client.prefetch, client.pin, client.unpin, client.evict):
        with pytest.raises(LarderError, match=f"^larder_{act.__name__}: unavailable$"):
            act(bytes(64), 32)
    with pytest.raises(LarderError, match="^larder_prefetch: unavailable$"):
        client.prefetch(tokens=range(300), block_size=16, chunk_tokens=256)
    with pytest.raises(TypeError):
        client.prefetch()
    client.store_abandon()


def test_namespace_ids_are_32_hex_digits_of_the_text():
    one, other = namespace_id("a: 1\n"), namespace_id("a: 2\n")
    assert one != other and len(one) == 32 and int(one, 16)
