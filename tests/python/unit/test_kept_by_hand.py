"""Prefetch, pin, unpin and evict through every interface: Python, HTTP and larderctl, on a real
larderd."""

import ctypes
import json
import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.larderd import Larderd

from larder import Client, LarderError, hash_tokens, namespace_id

FINGERPRINT = "engine: kept by hand\n"
BLOCK, CHUNK = 16, 64
PROMPT = list(range(1, 4 * CHUNK + 1))  # four chunks


@pytest.fixture
def larderd(tmp_path):
    binary = Path(os.environ["LARDER_TEST_BIN"]) / "larderd"
    larderd = Larderd(binary, tmp_path, f"larder-hand-{os.getpid()}", "16MiB")
    try:
        larderd.wait_ready()
        larderd.wait_touched()
        yield larderd
    finally:
        larderd.stop()


@contextmanager
def client_with(larderd, stored):
    """A client of one layer, four blocks a chunk, that has stored three chunks of these names."""
    memory = ctypes.create_string_buffer(4096 * 16)
    with Client(larderd.socket, "by hand") as client:
        client.set_namespace(FINGERPRINT, "m", CHUNK, [(4096, 1, CHUNK // BLOCK)])
        client.register_pages(0, [(ctypes.addressof(memory), 4096, 4096, 16)])
        assert client.wait_attached(60_000)
        pages = b"".join(page.to_bytes(4, "little") for page in range(12))
        assert client.store_begin(b"".join(stored), 32, pages)
        assert client.store_finish(60_000).stored == 3
        deadline = time.monotonic() + 60
        while client.lookup(b"".join(stored), 32) != 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield client


@pytest.fixture
def engine(larderd):
    """A client that has stored PROMPT's first three chunks."""
    with client_with(larderd, hashes()[:3]) as client:
        yield client


def hashes():
    return hash_tokens(PROMPT, BLOCK, chunk_tokens=CHUNK)


def await_kept(larderd, chunks):
    deadline = time.monotonic() + 60
    while larderd.status()["memory"]["keep"]["chunks"] != chunks:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_python_names_chunks_by_tokens_or_hashes(engine, larderd):
    assert engine.prefetch(tokens=PROMPT, block_size=BLOCK, chunk_tokens=CHUNK) == (3, 1, 0)
    assert engine.prefetch(b"".join(hashes()), 32) == (3, 1, 0)
    assert engine.pin(hashes()) == (3, 1, 0)
    assert engine.unpin(hashes()[:2]) == (2, 0, 0)
    assert engine.pin(hashes(), seconds=600) == (3, 1, 0)
    await_kept(larderd, 2)  # the third is pinned
    assert engine.demote(hashes()[:1]) == (1, 0, 0)
    await_kept(larderd, 1)
    assert engine.evict(hashes()[1:]) == (2, 1, 0)
    await_kept(larderd, 0)
    assert engine.lookup(b"".join(hashes()), 32) == 1
    assert engine.evict(hashes(), wait_ms=0) == (0, 0, 0)


def test_chunks_of_an_engine_with_a_drafter_are_named_with_the_next_token(larderd):
    """EAGLE, EAGLE-3 and MTP. The last chunk of PROMPT has no next token, and so no name."""
    ahead = hash_tokens(PROMPT, BLOCK, chunk_tokens=CHUNK, lookahead=1)
    assert len(ahead) == 3 and set(ahead).isdisjoint(hashes())
    with client_with(larderd, ahead) as client:
        assert client.prefetch(
            tokens=PROMPT, block_size=BLOCK, chunk_tokens=CHUNK, lookahead=1
        ) == (3, 0, 0)
        assert client.prefetch(tokens=PROMPT, block_size=BLOCK, chunk_tokens=CHUNK) == (0, 4, 0)
        space = namespace_id(FINGERPRINT)
        assert (
            ctl(larderd, "prefetch", space, *(one.hex() for one in ahead)).stdout
            == "prefetched 3 of 3 hashes\n"
        )
        assert (
            ctl(larderd, "prefetch", space, *(one.hex() for one in hashes())).stdout
            == "prefetched 0 of 4 hashes, 4 absent\n"
        )


def test_states_come_with_the_chunks_that_they_stand_for(larderd):
    """A client with states behind chunks 1, 2 and 3 of four."""
    memory = ctypes.create_string_buffer(4096 * 16)
    with Client(larderd.socket, "hybrid") as client:
        client.set_namespace(
            FINGERPRINT, "m", CHUNK, [(4096, 1, CHUNK // BLOCK), (4096, 1, 1)], state_groups=1
        )
        for group in (0, 1):
            client.register_pages(group, [(ctypes.addressof(memory), 4096, 4096, 16)])
        assert client.wait_attached(60_000)
        states = client.add_namespace(FINGERPRINT + "chunks: states\n", 5000, states=True)
        chunks, some = b"".join(hashes()[:3]), b"".join(hashes())
        assert client.store_begin(
            chunks, 32, b"".join(page.to_bytes(4, "little") for page in range(12))
        )
        assert client.store_begin(
            chunks,
            32,
            b"".join(page.to_bytes(4, "little") for page in range(3)),
            group=1,
            ns=states,
        )
        assert client.store_finish(60_000).stored == 6
        deadline = time.monotonic() + 60
        while client.lookup(chunks, 32, states) != 3 or client.lookup(chunks, 32) != 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert (
            client.tiers.last_reachable(some, 32, states)
            == client.tiers.last_reachable(some, 32)
            == 3
        )
        assert client.prefetch(some, 32, states=states) == (4, 1, 0), (
            "three chunks and the last state"
        )
        assert client.prefetch(some, 32, ns=states) == (1, 3, 0)
        with pytest.raises(LarderError, match="^larder_probe_each: "):
            client.tiers.probe_each(some, 32, 100, states)  # this larderd shares no backend
        space = namespace_id(FINGERPRINT)
        assert (
            ctl(larderd, "pin", space, *[one.hex() for one in hashes()]).stdout
            == "pinned 3 of 4 hashes, 1 absent\n"
        )
        assert larderd.wait_settled()["memory"]["slots"]["pinned"] == 4
        assert (
            ctl(larderd, "unpin", space, *[one.hex() for one in hashes()]).stdout
            == "unpinned 3 of 4 hashes, 1 absent\n"
        )
        assert ctl(larderd, "drop", space).stdout == "dropped 6 chunks\n"
        assert client.last(some, 32, states) == client.last(some, 32) == 0


def test_an_invalid_hash_is_reported(engine):
    for wrong in (hashes()[0].hex(), b"short"):
        with pytest.raises(TypeError, match=f"{wrong!r} is no hash: at least 16 bytes"):
            engine.pin([hashes()[0], wrong])


def ctl(larderd, *words, stdin=None):
    program = Path(os.environ["LARDER_TEST_BIN"]) / "larderctl"
    command = [program, "--socket", larderd.admin_socket, *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=30)


def test_larderctl_reads_hashes_from_words_files_and_standard_input(larderd, engine, tmp_path):
    space = namespace_id(FINGERPRINT)[:8]
    digits = [one.hex() for one in hashes()]
    assert ctl(larderd, "pin", space, *digits).stdout == "pinned 3 of 4 hashes, 1 absent\n"
    listed = tmp_path / "hashes.txt"
    listed.write_text("# the prompt\n" + "\n".join(digits) + "\n\n")
    assert (
        ctl(larderd, "prefetch", space, "--hashes", str(listed)).stdout
        == "prefetched 3 of 4 hashes, 1 absent\n"
    )
    assert (
        ctl(larderd, "unpin", space, "--hashes", "-", stdin="\n".join(digits[:2])).stdout
        == "unpinned 2 of 2 hashes\n"
    )
    assert ctl(larderd, "evict", space, digits[0][:32]).stdout == "evicted 1 of 1 hash\n"
    answer = ctl(larderd, "--json", "evict", space, digits[1])
    assert json.loads(answer.stdout) == {"found": 1, "absent": 0, "refused": 0}
    assert engine.lookup(b"".join(hashes()[2:]), 32) == 1


def test_larderctl_reports_invalid_hashes(larderd, engine, tmp_path):
    space = namespace_id(FINGERPRINT)
    for words, status, why in (
        (["pin"], 2, "which namespace"),
        (["pin", space], 1, "which hashes"),
        (["pin", space, "xyz"], 1, "'xyz' is no hash"),
        (["pin", space, "--hashes", str(tmp_path / "none")], 1, "No such file"),
        (["pin", "ffffffff", hashes()[0].hex()], 1, "no namespace"),
    ):
        done = ctl(larderd, *words)
        assert (done.returncode, why in done.stderr) == (status, True), done


def test_larderctl_splits_many_hashes_into_requests(larderd, engine):
    many = "\n".join(f"{number:032x}" for number in range(3000))
    assert ctl(larderd, "evict", namespace_id(FINGERPRINT), "--hashes", "-", stdin=many).stdout == (
        "evicted 0 of 3,000 hashes, 3,000 absent\n"
    )
    larderd.wait_until(lambda: larderd.status()["verb_hashes"]["evict"] == 3000, 5)
