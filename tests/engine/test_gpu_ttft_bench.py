"""make bench-gpu's T on a tiny shape, over real larderds: it measures what it says, and ends where something is wrong. No time is judged."""

import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))

import gpu_ttft_bench  # noqa: E402
from gpu_ceilings import copy_bytes_per_s, device_line, matrix_flops  # noqa: E402
from gpu_ttft_bench import Bench, Ceilings, below_rows, judge, show, starter  # noqa: E402
from harness import goals  # noqa: E402
from harness.bench import Void  # noqa: E402
from paged_engine.shapes import TINY_LLAMA  # noqa: E402

CHUNKS = 9


@pytest.fixture
def bench(device, tmp_path, monkeypatch):
    monkeypatch.setenv("LARDERD", str(Path(os.environ["LARDER_TEST_BIN"]) / "larderd"))
    bench = Bench(TINY_LLAMA, device, starter(tmp_path), CHUNKS * gpu_ttft_bench.CHUNK_TOKENS)
    yield bench
    bench.engine.close()


def test_each_place_gives_the_bits_of_the_engines_own_memory(bench, device, tmp_path, capsys):
    row = bench.from_memory(Ceilings(copy_bytes_per_s(device, 1 << 20), matrix_flops(device, 64)))
    assert row["bytes"] == TINY_LLAMA.kv_bytes(bench.tokens, 2) == bench.engine.kv.page_bytes * 3 * bench.tokens // 16
    rows = [row, *below_rows(bench, ["disk", "redis"], tmp_path)]
    for one in rows:
        show(one)
    assert device_line("cpu") == "cpu"
    ids = [goal["id"] for goal in judge(rows)]
    assert ids[:3] == [f"T.tiny_llama.{name}" for name in ("warm_over_ceiling", "cold_over_warm", "prefill_of_peak")]
    assert "T.tiny_llama.disk_s" in ids
    goals.print_goals(judge(rows))
    (factor,) = [line for line in capsys.readouterr().out.splitlines() if "T.tiny_llama.cold_over_warm" in line]
    assert factor.endswith("(the seed figure to beat: 44.5, on an L4)")
    redis = rows[-1]
    assert "T.tiny_llama.redis_s" in ids or "make deps-servers" in redis["not_measured"]


def test_other_logits_and_missing_loads_void_it(bench):
    bench.own()
    with bench.start(bench.memory, "") as larderd:
        bench.attach(larderd)
        with pytest.raises(Void, match="0 were loaded"):
            bench.warm_s()
        bench.store_s()
        bench.warm_s()
        bench.expected[0] = bench.expected[0] + 1
        with pytest.raises(Void, match="logits differ"):
            bench.warm_s()


def test_what_did_not_come_from_below_voids_a_row_of_it(bench):
    bench.own()
    with bench.start(bench.memory, "") as larderd:
        bench.attach(larderd)
        bench.store_s()
        with pytest.raises(Void, match="not all of a prompt came from below: None"):
            bench._below_s(0)


def test_without_a_gpu_nothing_is_measured(device, capsys):
    if device != "cpu":
        pytest.skip("this machine has one")
    assert gpu_ttft_bench.main() == 0
    assert "not measured: T (no CUDA device" in capsys.readouterr().out
