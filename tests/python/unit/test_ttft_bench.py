"""The warm rounds that bench-ttft counts, the row for the goals, and the end of the bench after an
error."""

import importlib.util
import os
import subprocess
import sys

import pytest
from http_fakes import FakeLarderd

from larder import larderd_metrics


@pytest.fixture(scope="module")
def bench(root):
    sys.path.insert(0, str(root / "tests" / "bench"))
    try:
        spec = importlib.util.spec_from_file_location(
            "ttft_bench", root / "tests" / "bench" / "ttft_bench.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


class Larderd:
    """The two doors that the bench uses."""

    def __init__(self):
        self.fake, self.chunks = FakeLarderd(), 0

    def metrics(self):
        return larderd_metrics.samples(self.fake.metrics())

    def status(self):
        return {"namespaces": [{"chunks": self.chunks}, {"chunks": 1}]}


PROMPTS = [[1] * 300, [2] * 128]  # 2 + 1 whole chunks


def test_a_round_that_hit_every_whole_chunk_counts(bench):
    larderd = Larderd()
    warm = bench.Warm(larderd, "here", PROMPTS)
    larderd.fake.load(256)
    larderd.fake.load(128)
    assert warm.check() == pytest.approx(12)


@pytest.mark.parametrize("loads", [(), (256,), (256, 0)])
def test_any_other_round_voids_the_row(bench, loads):
    larderd = Larderd()
    warm = bench.Warm(larderd, "here", PROMPTS)
    for tokens in loads:
        larderd.fake.load(tokens)
    with pytest.raises(
        bench.Void,
        match=f"here: in a warm round {sum(loads)} of 384 tokens hit, and {len(loads)} of 2 loads",
    ):
        warm.check(timeout_s=0.2)


def test_a_round_waits_for_the_stores_of_the_cold_one(bench):
    larderd = Larderd()
    before = bench.stored_chunks(larderd)
    with pytest.raises(bench.Void, match="holds 1 of 4 chunks"):
        bench.wait_stored(larderd, "here", before + bench.whole_chunks(PROMPTS), timeout_s=0.1)
    larderd.chunks = 3
    bench.wait_stored(larderd, "here", before + bench.whole_chunks(PROMPTS))


def test_larders_share_is_that_of_the_worst_row(bench):
    row = {"what": "4097 tokens", "larder_ms": 3.0, "speedup": 200, "warm_s": 0.05}
    goals = {
        g["id"]: g
        for g in bench.judge(
            [{**row, "what": "other", "larder_ms": 13.0}, row],
            floor_s=0.03,
            second_s=0.1,
            hybrid=[],
        )
    }
    assert goals["ttft.larder_ms"]["value"] == 13.0 and not goals["ttft.larder_ms"]["met"]
    assert (
        goals["ttft.speedup_4k"]["value"] == 200 and goals["ttft.over_one_token_ms"]["value"] == 20
    )


def test_the_hybrids_figures_are_medians_of_the_rounds_ratios(bench):
    arms = [
        bench.hybrid_turns.Arm("arm", None, [], 0, warm=warm, own=own)
        for warm, own in (([1.0, 2.0, 4.0], [1.0, 1.0, 1.0]), ([1.1, 2.0, 6.0], [3.0, 1.3, 1.2]))
    ]
    goal, own = bench.hybrid_turns.figures(*arms)
    assert (goal["id"], goal["value"], goal["met"]) == ("ttft.hybrid_vs_llama", 1.1, True)
    assert own == {"id": "ttft.hybrid_vs_llama_own_cache", "value": 1.3}


@pytest.mark.parametrize(
    ("llama", "hybrid", "equal"), [(48, 49.5, True), (48, 47, False), (48, 60, False)]
)
def test_loads_of_unlike_sizes_are_not_compared(bench, llama, hybrid, equal):
    check = bench.hybrid_turns.check_bytes
    if equal:
        return check(llama * 2**20, hybrid * 2**20)
    with pytest.raises(
        bench.Void, match=f"a warm load brings {hybrid:.1f} MiB, and {llama:.1f} MiB in the Llama"
    ):
        check(llama * 2**20, hybrid * 2**20)


@pytest.mark.parametrize(
    "larderd, told",
    [("/bin/false", "larderd ended with status 1; its log "), ("/nonexistent", "No such file")],
)
def test_a_failed_start_of_larderd_ends_with_one_line(root, larderd, told):
    env = {
        **os.environ,
        "PYTHONPATH": f"{root}/shim/python:{root}/e2e",
        "LARDERD": larderd,
        "MODEL": "none",
    }
    command = [sys.executable, root / "tests" / "bench" / "ttft_bench.py"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("bench-ttft: ") and told in line
