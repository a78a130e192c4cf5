"""`transfer: sidecar`: on a GPU larderd copies in the engines' KV memory itself; otherwise larderd
gives the reason. The answers are equal."""

import os
from pathlib import Path

import pytest
from engine_process import EngineProcess

pytest.importorskip("torch")

CHUNK, TOKENS = 64, 512


@pytest.fixture(scope="module")
def copying_larderd(tmp_path_factory):
    from harness.larderd import Larderd

    folder = tmp_path_factory.mktemp("larderd")
    binary = Path(os.environ["LARDER_TEST_BIN"]) / "larderd"
    with Larderd(
        binary, folder, f"larder-copies-{os.getpid()}", "256MiB", "transfer: sidecar\n"
    ) as larderd:
        larderd.wait_ready()
        larderd.wait_touched()
        yield larderd


@pytest.fixture(scope="module")
def engines(device, copying_larderd, tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    # larderd copies whole chunks only; the engine itself makes a load by layers.
    options = dict(
        by_layer=False,
        shape="wide_kv",
        dtype="float32",
        device=device,
        seed=11,
        blocks=2 * TOKENS // 16,
    )
    started = []
    for name in ("first", "second"):
        engine = EngineProcess(
            folder / f"{name}.log",
            socket=copying_larderd.socket,
            chunk_tokens=CHUNK,
            store_wait_ms=5000,
            **options,
        )
        started.append(engine)
        engine.wait_attached()
    yield started
    for engine in started:
        engine.__exit__()


def ways(larderd):
    """The transfer status of each session with larderd's copies or with a reason against them."""
    told = [session["transfer"] for session in larderd.status()["sessions"]["attached"]]
    return [way for way in told if way["way"] == "sidecar" or way["reason"]]


def test_two_engines_share_by_larderds_copies_or_know_why_not(
    engines, copying_larderd, device, prompt, wait_for
):
    first, second = engines
    text = prompt(3, TOKENS)
    wait_for(lambda: len(ways(copying_larderd)) == 2, "each engine's way is decided")
    if device == "cuda":
        assert [way["way"] for way in ways(copying_larderd)] == ["sidecar"] * 2, ways(
            copying_larderd
        )
    else:
        assert [way["reason"] for way in ways(copying_larderd)] == ["host_memory"] * 2
    cold = first.ask(text)
    assert (cold["loaded_tokens"], cold["stored_chunks"]) == (0, TOKENS // CHUNK), cold["log"]
    wait_for(
        lambda: (
            sum(space["chunks"] for space in copying_larderd.status()["namespaces"])
            == TOKENS // CHUNK
        ),
        "all is committed",
    )
    own = first.ask(text, new_tokens=3, larder=False)
    loaded = second.ask(text, new_tokens=3)
    assert loaded["loaded_tokens"] == TOKENS, loaded["log"]
    assert (loaded["tokens"], loaded["logits"]) == (own["tokens"], own["logits"])
    expected = TOKENS // CHUNK if device == "cuda" else 0

    def copied():
        counted = copying_larderd.status()["transfer"]
        return counted["stores"], counted["loads"], counted["failed"]

    wait_for(
        lambda: copied() == (expected, expected, 0),
        "the status tells of the copies as of its next tick",
    )
