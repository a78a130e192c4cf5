"""Tensor parallel 2 over two nodes with a larderd each: hits in the same and in a second engine,
equal tokens, and answers whatever becomes of the other node's larderd."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
import record
from demo.model import make_model
from engines import prompt, start_larderd, wait_for
from harness.redis import Missing, RedisServer
from nodes import TwoNodes
from walk import TEST_LIBRARY

pytestmark = pytest.mark.slow
TP2 = ("--tensor-parallel-size", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    shape = dict(
        layers=4, hidden=256, intermediate=512, heads=8, kv_heads=4, head_dim=32, vocab=1024
    )
    return make_model(str(tmp_path_factory.mktemp("models") / "llama"), **shape)


@contextlib.contextmanager
def larderds(folder, extra):
    with (
        start_larderd(folder / "here", extra=extra) as here,
        start_larderd(folder / "there", extra=extra) as there,
    ):
        yield here, there


def zero(larderd):
    with open(f"/dev/shm/{larderd.shm_name}.arena", "r+b") as arena:
        for _ in range(os.path.getsize(arena.name) // (1 << 20)):
            arena.write(bytes(1 << 20))


def ask_until_hit(nodes, tokens, wanted):
    """The answers until one hits so many tokens: an engine attaches to a new larderd within a
    second or two."""
    answers = []

    def hit():
        answer, tokens_hit = nodes.ask(tokens)
        answers.append(answer)
        return tokens_hit == wanted

    wait_for(hit, 30, f"a hit of {wanted} tokens")
    return answers


# covers F-288, F-289, F-290
def test_tensor_parallel_over_two_larderds(model, tmp_path, monkeypatch):
    unverified = tmp_path / "unverified"
    monkeypatch.setenv("LARDER_LIBRARY", str(TEST_LIBRARY))
    env = {"LARDER_TEST_SKIP_VERIFY": str(unverified), "OMP_NUM_THREADS": "1"}
    whole, gone, tail = prompt("nodes", 600), prompt("nodes gone", 600), prompt("nodes tail", 40)
    folder = Path(tmp_path)
    with (
        start_larderd(folder / "here") as here,
        record.named(
            "tp2_nodes", "tensor parallel 2 over two nodes, with a larderd each (float32)", 600
        ) as told,
    ):
        there = start_larderd(folder / "there", name=f"larder-there-{os.getpid()}")
        try:
            with TwoNodes(model, here, there, folder, *TP2, **env) as nodes:
                alone, other, tailed = (
                    nodes.engine.alone(one, 16) for one in (whole, gone, whole[:512] + tail)
                )
                cold, hit = nodes.ask(whole)
                assert (cold, hit) == (alone, 0)
                assert nodes.ask(whole) == (alone, 512) and nodes.ask(whole[:512] + tail) == (
                    tailed,
                    512,
                )
                stored = [one.wait_settled()["memory"]["chunks_committed"] for one in (here, there)]
                assert stored[0] == stored[1] == 4, "each larderd has its own rank's part"

                # Stopped, as a paused machine is: its memory still serves.
                there.child.send_signal(signal.SIGSTOP)
                try:
                    nodes.there = here
                    assert nodes.ask(whole) == (alone, 512) and nodes.ask(gone)[0] == other
                finally:
                    there.child.send_signal(signal.SIGCONT)
                there.kill()
                assert nodes.ask(whole) == (alone, 512) and nodes.ask(gone)[0] == other
                there = nodes.there = start_larderd(folder / "there", name=there.shm_name)
                assert set(map(tuple, ask_until_hit(nodes, whole, 512))) == {tuple(alone)}, (
                    "warm: the chunks are there"
                )
                assert set(map(tuple, ask_until_hit(nodes, gone, 512))) == {tuple(other)}, (
                    "what it had refused is stored when it is asked again"
                )

                # A cold start: the one larderd has all, the other nothing.
                there.stop()
                there = nodes.there = start_larderd(folder / "there", name=there.shm_name)
                time.sleep(3)
                again, lost = nodes.ask(whole)
                assert (again, lost) == (alone, 0), "one larderd alone makes no hit"
                assert set(map(tuple, ask_until_hit(nodes, whole, 512))) == {tuple(alone)}, (
                    "computed, and stored there again"
                )
                assert "Larder is off" not in nodes.logs()

            with TwoNodes(model, here, there, folder, *TP2, **env) as second:
                second.engine.alone([5] * 40)
                assert second.ask(whole) == (alone, 512), (
                    "a second engine hits what the first stored"
                )
                unverified.touch()
                zero(there)
                wrong, hit = second.ask(whole)
                assert hit == 512 and wrong != alone, (
                    "the control: with zeroed KV of the other node the answer must change"
                )
        finally:
            there.stop()
        told(result="equal tokens", hits=512, tail="512 of 552", zeroed="other tokens")


# covers F-290
def test_the_other_nodes_part_comes_from_its_backend(model, tmp_path):
    """Two engines of two nodes each share a backend. The second one's larderds begin with an empty
    memory, and each fetches its own rank's part."""
    try:
        server = RedisServer(tmp_path / "redis")
    except Missing as missing:
        pytest.skip(str(missing))
    whole = prompt("nodes backend", 600)
    with (
        server as redis,
        record.named(
            "tp2_nodes_backend", "tensor parallel 2 over two nodes, from a backend (float32)", 600
        ) as told,
    ):
        extra = f"backend:\n  url: {redis.url}\n  prefix: shared\n"
        with (
            larderds(tmp_path / "first", extra) as (here, there),
            TwoNodes(model, here, there, tmp_path, *TP2, OMP_NUM_THREADS="1") as first,
        ):
            alone = first.engine.alone(whole, 16)
            assert first.ask(whole) == (alone, 0)
            redis.wait_settled(2 * 2 * 4)  # a record and the bytes of each part
        with (
            larderds(tmp_path / "second", extra) as (here, there),
            TwoNodes(model, here, there, tmp_path, *TP2, OMP_NUM_THREADS="1") as second,
        ):
            second.engine.alone([5] * 40)
            assert second.ask(whole) == (alone, 512)
        told(result="equal tokens", hits=512)
