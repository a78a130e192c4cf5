"""Answers that bench-ttft-disk counts as served from the disk, the row for the goals, and the
message on a machine without a throttle."""

import importlib.util
import types

import pytest


@pytest.fixture(scope="module")
def bench(root):
    import sys

    sys.path.insert(0, str(root / "tests" / "bench"))
    try:
        spec = importlib.util.spec_from_file_location(
            "ttft_disk_bench", root / "tests" / "bench" / "ttft_disk_bench.py"
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # the module's dataclasses look there
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


@pytest.fixture
def world(bench, tmp_path, monkeypatch):
    """A Bench over an engine with a cache of its own and a Larder, and a log to which each request
    with Larder adds `line`. The continuation of a prompt depends on whether its chunks were
    computed or came from a cache."""
    log = tmp_path / "vllm.log"
    log.write_text("")
    world = types.SimpleNamespace(
        bench=bench.Bench(types.SimpleNamespace(url="", log=log), None),
        line="",
        cold=[1, 2],
        warm=[1, 3],
        own=set(),
        larder=set(),
    )

    def stream_completion(url, name, prompt, count, **fields):
        chunks = len(prompt) // 128
        hit = len(prompt) in (world.own if fields else world.own | world.larder)
        world.own.add(len(prompt))
        if not fields:
            log.write_text(log.read_text() + world.line.format(chunks))
            world.larder.add(len(prompt))
        return types.SimpleNamespace(
            token_ids=world.warm if hit else world.cold,
            ttft_s=0.5,
            cached_tokens=chunks * 128 if hit else 0,
        )

    monkeypatch.setattr(bench, "stream_completion", stream_completion)
    monkeypatch.setattr(bench, "reset_prefix_cache", lambda url: world.own.clear())
    world.prompts = bench.Prompts([300, 600], 1)
    assert world.bench.cold(world.prompts) == [0.5, 0.5]
    return world


def test_a_cycle_counts_where_every_chunk_was_fetched(world):
    world.line = "Fetched {0} of {0} chunks, 5 bytes\n"
    assert world.bench.warm([world.prompts], 2) == [[0.5] * 4]


def test_chunks_from_memory_or_computed_void_the_row(bench, world):
    world.line = "Fetched 1 of {0} chunks, 5 bytes\n"
    with pytest.raises(bench.Void, match="8 of 12 chunks did not come from the disk"):
        world.bench.warm([world.prompts], 2)


def test_a_few_unfetched_chunks_count_and_are_reported(bench, world, monkeypatch, capsys):
    monkeypatch.setattr(bench, "COUNTED", 0.3)
    world.line = "Fetched 1 of {0} chunks, 5 bytes\n"
    assert world.bench.warm([world.prompts], 2) == [[0.5] * 4]
    assert "8 of 12 chunks did not come from the disk" in capsys.readouterr().out


def test_an_answer_must_be_the_one_of_as_many_chunks(bench, world):
    assert world.bench.ask(world.prompts, 0, "warm") == 0.5
    assert world.bench.ask(world.prompts, 0, "no cache", **bench.OFF) == 0.5
    world.warm = world.cold
    with pytest.raises(
        bench.Void, match="stalled: not the continuation that it must be with 2 of 2 chunks"
    ):
        world.bench.ask(world.prompts, 0, "stalled")
    world.cold = [1, 4]
    with pytest.raises(
        bench.Void, match="stalled: not the continuation that it must be with 0 of 2 chunks"
    ):
        world.bench.ask(world.prompts, 0, "stalled", **bench.OFF)


def test_a_cold_round_that_was_not_cold_voids_it(bench, world):
    with pytest.raises(bench.Void, match="256 tokens were there before"):
        world.bench.cold(world.prompts)


def test_the_goals_are_of_the_worst_speed(bench):
    rows = [
        {"vs_none": v, "worst_probe_vs_none": 1 + v, "recovered_s": 3} for v in (0.2, 1.04, 0.9)
    ]
    found = {goal["id"]: goal for goal in bench.judge([10.0, 12.0, 11.0], [0.1], rows)}
    assert found["ttft-disk.speedup"]["value"] == 110 and found["ttft-disk.speedup"]["met"]
    assert (
        found["ttft-disk.worst_vs_none"]["value"] == 1.04
        and found["ttft-disk.worst_vs_none"]["met"]
    )
    assert list(bench.judge([1.0], [1.0], [])[0]) == list(found["ttft-disk.speedup"])
    remote = {goal["id"]: goal for goal in bench.judge([10.0], [0.1], rows, "ttft-remote", 50)}
    assert (
        remote["ttft-remote.speedup"]["goal"] == 50
        and remote["ttft-remote.worst_vs_none"]["value"] == 1.04
    )


def test_a_folder_on_no_disk_cannot_be_throttled():
    from pathlib import Path

    from harness.throttle import Unavailable, device_of

    with pytest.raises(Unavailable, match="lies on no block device"):
        device_of(Path("/dev/shm"))
