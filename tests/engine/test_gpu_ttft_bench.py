"""Tests of T of `make bench-gpu`, on a tiny shape over real larderds: the benchmark measures the
right thing and ends at a fault. The tests judge no time."""

import json
import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))

import gpu_ttft_bench  # noqa: E402
from gpu_ceilings import copy_bytes_per_s, device_line, matrix_flops  # noqa: E402
from gpu_ttft_bench import Bench, Ceilings, judge, rows_of, show, starter  # noqa: E402
from harness import goals  # noqa: E402
from harness.bench import Void  # noqa: E402
from paged_engine.shapes import TINY_LLAMA  # noqa: E402

CHUNKS = 9


@pytest.fixture(autouse=True)
def larderds(monkeypatch):
    monkeypatch.setenv("LARDERD", str(Path(os.environ["LARDER_TEST_BIN"]) / "larderd"))


@pytest.fixture
def bench(device, tmp_path):
    bench = Bench(TINY_LLAMA, device, starter(tmp_path), CHUNKS * gpu_ttft_bench.CHUNK_TOKENS)
    yield bench
    bench.engine.close()


def test_each_place_gives_the_bits_of_the_engines_own_memory(device, tmp_path, capsys):
    tokens, ceilings = (
        CHUNKS * gpu_ttft_bench.CHUNK_TOKENS,
        Ceilings(copy_bytes_per_s(device, 1 << 20), matrix_flops(device, 64)),
    )
    rows = list(
        rows_of(TINY_LLAMA, device, ["memory", "disk", "redis"], tmp_path, ceilings, tokens)
    )
    assert [row["part"] for row in rows] == ["memory", "disk", "redis"]
    assert rows[0]["bytes"] == TINY_LLAMA.kv_bytes(tokens, 2)
    for one in rows:
        show(one)
    assert device_line("cpu") == "cpu"
    ids = [goal["id"] for goal in judge(rows)]
    assert ids[:3] == [
        f"T.tiny_llama.{name}"
        for name in ("warm_over_ceiling", "cold_over_warm", "prefill_of_peak")
    ]
    assert "T.tiny_llama.disk_s" in ids
    goals.print_goals(judge(rows))
    (factor,) = [
        line
        for line in capsys.readouterr().out.splitlines()
        if "T.tiny_llama.cold_over_warm" in line
    ]
    assert factor.endswith("(the seed figure to beat: 44.5, on an L4)")
    redis = rows[-1]
    assert "T.tiny_llama.redis_s" in ids or "make deps-servers" in redis["not_measured"]


def test_other_logits_and_missing_loads_void_it(bench):
    with bench.start(bench.memory, "") as larderd:
        bench.attach(larderd)
        with pytest.raises(Void, match="0 were loaded"):
            bench.warm_s(1)
        bench.store()
        bench.own()
        bench.warm_s()
        with pytest.raises(Void, match="0 chunks of a prompt were stored"):
            bench.store()
        bench.expected[0] = bench.expected[0] + 1
        with pytest.raises(Void, match="logits loaded differ by up to 1 "):
            bench.warm_s()


def test_loads_from_memory_void_a_row_of_a_lower_tier(bench):
    with bench.start(bench.memory, "") as larderd:
        bench.attach(larderd)
        bench.store()
        bench.own()
        with pytest.raises(Void, match="not all of a prompt came from below: None"):
            bench._below_s(0)


def test_without_a_gpu_nothing_is_measured(device, monkeypatch, tmp_path, capsys):
    if device != "cpu":
        pytest.skip("this machine has one")
    monkeypatch.setattr(gpu_ttft_bench, "BUILD", tmp_path)
    assert gpu_ttft_bench.main() == 0
    assert "not measured: T (no CUDA device" in capsys.readouterr().out
    rows = json.loads((tmp_path / "gpu_ttft.json").read_text())["rows"]
    assert [(row["shape"], row["part"]) for row in rows] == [
        (shape, place)
        for shape in ("llama_8b", "qwen_32b")
        for place in ("memory", "disk", "redis")
    ]
    assert all(row["not_measured"].startswith("no CUDA device") for row in rows)


@pytest.fixture
def whole(monkeypatch, tmp_path):
    """whole(): runs the whole bench up to its report, on the CPU with a tiny shape. Returns the
    status and the rows by place."""
    monkeypatch.setattr(gpu_ttft_bench, "BUILD", tmp_path)
    monkeypatch.setattr(gpu_ttft_bench, "DEVICE", "cpu")
    monkeypatch.setattr(gpu_ttft_bench, "TOKENS", CHUNKS * gpu_ttft_bench.CHUNK_TOKENS)
    monkeypatch.setattr(gpu_ttft_bench, "copy_bytes_per_s", lambda device: 1e9)
    monkeypatch.setattr(gpu_ttft_bench, "matrix_flops", lambda device: 1e9)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("GPU_TTFT_SHAPES", "tiny_llama")

    def run():
        status = gpu_ttft_bench.main()
        return status, {row["part"]: row for row in written(tmp_path)}

    return run


def written(folder):
    return json.loads((folder / "gpu_ttft.json").read_text())["rows"]


def failing(error):
    def fail(*_):
        raise error

    return fail


def test_a_row_that_fails_is_no_end_of_the_others(whole, monkeypatch, capsys):
    monkeypatch.setitem(gpu_ttft_bench.MEASURE, "memory", failing(Void("logits differ")))
    monkeypatch.setitem(
        gpu_ttft_bench.MEASURE,
        "redis",
        failing(torch.OutOfMemoryError("CUDA out of memory.\nmore")),
    )
    status, rows = whole()
    assert (
        status == 1 and rows["memory"]["failed"] == "logits differ" and rows["disk"]["warm_s"] > 0
    )
    assert rows["redis"]["not_measured"] == "CUDA out of memory."
    assert "from memory: FAILED: logits differ" in capsys.readouterr().out
    monkeypatch.setitem(gpu_ttft_bench.MEASURE, "memory", lambda *_: {"tokens": 1})
    monkeypatch.setenv("GPU_TTFT_PLACES", "memory")
    monkeypatch.setattr(gpu_ttft_bench, "show", lambda row: None)
    status, again = whole()
    assert status == 0 and again["memory"]["tokens"] == 1 and again["disk"] == rows["disk"], (
        "a later run keeps the rows of other places"
    )


def test_each_row_is_written_before_the_next(whole, monkeypatch, tmp_path):
    monkeypatch.setitem(gpu_ttft_bench.MEASURE, "disk", failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        whole()
    (row,) = written(tmp_path)
    assert (row["part"], row["device"]) == ("memory", "cpu") and row["warm_s"] > 0
