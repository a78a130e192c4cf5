"""Two engine processes over one arena: the second loads the KV of the first, and survives the death
of a third during a load."""

import os
import signal
from pathlib import Path

import pytest
from engine_process import Died, EngineProcess

pytest.importorskip("torch")

CHUNK = 64
TOKENS = 2048  # 32 MiB of KV: long enough to kill the engine during the load
ATTEMPTS = 20


@pytest.fixture(scope="module")
def start(device, larderd, tmp_path_factory):
    """start(name): an engine process; all processes have equal weights."""
    folder = tmp_path_factory.mktemp("engines")
    started = []

    def starter(name):
        options = dict(
            shape="wide_kv", dtype="float32", device=device, seed=11, blocks=2 * TOKENS // 16
        )
        engine = EngineProcess(
            folder / f"{name}.log",
            socket=larderd.socket,
            chunk_tokens=CHUNK,
            store_wait_ms=5000,
            **options,
        )
        started.append(engine)
        return engine

    yield starter
    for engine in started:
        engine.__exit__()


@pytest.fixture(scope="module")
def engines(start):
    both = start("first"), start("second")
    return [engine.wait_attached() for engine in both]


@pytest.fixture(scope="module")
def text(prompt):
    return prompt(1, TOKENS)


@pytest.fixture(scope="module")
def own(engines, larderd, text, wait_for):
    """The first engine has computed the text. Its answer from its own prefix cache."""
    first, _ = engines
    cold = first.ask(text)
    assert (cold["loaded_tokens"], cold["stored_chunks"]) == (0, TOKENS // CHUNK), cold["log"]
    wait_for(
        lambda: sum(space["chunks"] for space in larderd.status()["namespaces"]) == TOKENS // CHUNK,
        "all is committed",
    )
    reused = first.ask(text, new_tokens=3, larder=False)
    assert reused["local_tokens"] == TOKENS
    return reused


def test_the_second_engine_loads_chunks_of_the_first(engines, own, text):
    _, second = engines
    loaded = second.ask(text, new_tokens=3)
    assert (loaded["local_tokens"], loaded["loaded_tokens"]) == (0, TOKENS), loaded["log"]
    assert (loaded["tokens"], loaded["logits"]) == (own["tokens"], own["logits"])


def test_the_first_layer_is_used_before_the_second_is_loaded(start, own, text, device, monkeypatch):
    """In liblarder_test.so each layer takes a while, and the whole first layer precedes the
    second."""
    if device != "cpu":
        pytest.skip("the variable slows the copies of the host's engine")
    monkeypatch.setenv(
        "LARDER_LIBRARY", str(Path(os.environ["LARDER_LIBRARY"]).with_name("liblarder_test.so"))
    )
    monkeypatch.setenv("LARDER_TEST_SLOW_LAYERS_MS", "250")
    loaded = start("slow").wait_attached().ask(text, new_tokens=3)
    assert loaded["loaded_tokens"] == TOKENS, loaded["log"]
    assert loaded["layers_early"] >= 1
    assert (loaded["tokens"], loaded["logits"]) == (own["tokens"], own["logits"])


def test_an_engine_killed_during_a_load_costs_no_chunk(
    start, engines, own, larderd, text, wait_for
):
    def attached():
        return len(larderd.status()["sessions"]["attached"])

    before = attached()
    third = start("third").wait_attached()
    with pytest.raises(Died):
        for _ in range(ATTEMPTS):
            assert third.ask(text, die="loading")["loaded_tokens"] == TOKENS
            third.ask(forget=True)
    assert third.wait_ended() == -signal.SIGKILL
    wait_for(
        lambda: attached() == before and larderd.metrics()["larder_holds"] == 0,
        "its sessions and holds are gone",
    )
    _, second = engines
    second.ask(forget=True)
    again = second.ask(text, new_tokens=3)
    assert again["loaded_tokens"] == TOKENS
    assert again["logits"] == own["logits"]
    assert larderd.metrics()["larder_checksum_failures_total"] == 0
