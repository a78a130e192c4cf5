"""Tests of `make bench-gpu`: the parts of G4 and G5 that need PyTorch, on the CPU or, in `make
test-gpu`, on a GPU; G5 over a real larderd. Also all of gpu_copy_bench.py, up to its report, over
the fake driver of tests/cuda. The tests judge no time."""

import contextlib
import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))

import gpu_first_layer  # noqa: E402
import gpu_loss  # noqa: E402
from harness import goals  # noqa: E402
from harness.bench import Void  # noqa: E402
from paged_engine.shapes import TINY_LLAMA  # noqa: E402

SMALL = gpu_first_layer.Scale(
    layers=4, page_bytes=8 << 10, chunk_blocks=4, chunks=6, rounds=2, unjudged=1
)


class Clock:
    """Seconds of a loop: one alone, more while copies run."""

    def __init__(self, slowed=1.0, reached=0.9):
        self.slowed, self.reached, self.running, self.order = slowed, reached, False, []

    def seconds(self):
        self.order.append("beside" if self.running else "alone")
        return self.slowed if self.running else 1.0

    def pace(self, direction, rate, callers):
        self.running, self.rate = True, rate

    def rest(self):
        self.running = False
        return self.reached * 100


def test_alone_and_beside_take_turns_in_changing_order():
    clock = Clock(slowed=1.25)
    pairs, reached = gpu_loss.turns_of(clock.seconds, clock, gpu_loss.LOAD, 90.0, 4)
    assert clock.order == ["alone", "beside", "beside", "alone"] * 2
    assert (pairs, reached, clock.rate) == ([(1.0, 1.25)] * 4, [90.0] * 4, 90.0)


def test_a_loop_that_fails_leaves_no_copies_running():
    clock = Clock()

    def fail():
        raise ValueError

    with pytest.raises(ValueError):
        gpu_loss.turns_of(lambda: fail() if clock.running else 1.0, clock, gpu_loss.LOAD, 90.0, 1)
    assert not clock.running


def test_losses_are_judged_where_the_copies_reached_the_link(capsys):
    pairs = [(1.0, 1.0), (0.97, 1.0), (1.0, 2.0)]
    batch = gpu_loss.row_of("gemm", "batch", "loads", pairs, [0.9, 0.89, 0.91])
    kernel = gpu_loss.row_of("decode", "kernel", "stores", pairs, [0.9])
    slow = gpu_loss.row_of("decode", "batch", "stores", pairs, [0.9, 0.899, 0.5])
    assert batch["loss"] == pytest.approx(0.03)
    *judged, unjudged = gpu_loss.judge([batch, kernel, slow])
    assert [(goal["id"], goal["goal"], goal["met"]) for goal in judged] == [
        ("G4.gemm.batch.loads.loss", 0.02, False),
        ("G4.decode.kernel.stores.loss", 0.04, True),
    ]
    why = "the copies reached only 0.899 of the link"
    assert unjudged == {
        "id": "G4.decode.batch.stores.loss",
        "not_measured": why,
        "op": "<=",
        "goal": 0.02,
    }
    goals.print_goals([unjudged])
    assert (
        f"G4.decode.batch.stores.loss  not measured: {why}  goal <= 0.02" in capsys.readouterr().out
    )
    assert "(on 8 SMs)" in gpu_loss.show(kernel) and "3.00% lost" in gpu_loss.show(kernel)
    assert "(digests on 8 SMs)" in gpu_loss.show(batch) and "(digests on 8 SMs)" in gpu_loss.show(
        slow
    )
    assert f"not judged: {why}" in gpu_loss.show(slow)


def test_the_loops_do_their_work(device):
    step = gpu_loss.decode(TINY_LLAMA, device, 40)
    for work in (step, gpu_loss.gemm(device, 64)):
        loop = gpu_loss.Loop("loop", work, device, 0.01)
        assert loop.count >= 3 and loop.seconds() > 0


def test_a_captured_step_keeps_its_tensors(device, monkeypatch):
    """A graph holds only addresses of tensors: after a free, the next replay would use foreign
    memory."""
    if device != "cpu":
        pytest.skip("a graph of the CPU's own is captured here")
    stream = SimpleNamespace(wait_stream=lambda other: None)
    for name, stand_in in {
        "Stream": lambda: stream,
        "current_stream": lambda: stream,
        "stream": lambda _: contextlib.nullcontext(),
        "CUDAGraph": lambda: SimpleNamespace(replay=lambda: None),
        "graph": lambda _: contextlib.nullcontext(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    tensor = torch.zeros(3)
    alive = weakref.ref(tensor)
    replay = gpu_loss.captured(lambda tensor=tensor: tensor.add_(1))
    del tensor
    gc.collect()
    replay()
    assert alive() is not None


def test_a_step_gives_what_the_forward_pass_gives(device):
    from paged_engine.kv_tensors import KvTensors
    from paged_engine.model import Model
    from paged_engine.weights import random_weights

    kv = KvTensors(TINY_LLAMA, 8, 16, device, torch.float32)
    model = Model(TINY_LLAMA, random_weights(TINY_LLAMA, 3, device, torch.float32), kv)
    table = [3, 1, 5]
    model.forward(list(range(40)), 0, table)
    wanted = model.forward([7], 40, table)
    tensors = (torch.tensor(one, device=device) for one in ([7], [40], table))
    assert torch.equal(model.step(*tensors, 41), wanted)


@pytest.fixture
def pages(device, larderd):
    pages = gpu_first_layer.Pages(larderd.socket, device, SMALL)
    yield pages
    pages.close()


def test_the_first_layer_is_verified_before_it_counts(device, larderd):
    (row,) = gpu_first_layer.measure(larderd.socket, device, SMALL)
    assert (row["layers"], row["bytes"], row["share_goal"]) == (4, 4 * 6 * 4 * (8 << 10), 0.3)
    assert 0 < row["first_layer_ms"] <= row["by_layer_ms"]
    (goal,) = gpu_first_layer.judge([row])
    assert (goal["id"], goal["goal"]) == ("G5.first_layer_share", 0.3)
    assert "in 4 layers" in gpu_first_layer.show(row)


def test_a_first_layer_of_other_bytes_voids_it(pages):
    pages.store()
    pages.expected[0][0, 0] ^= 1
    with pytest.raises(Void, match="layer 0 was reported with wrong bytes"):
        pages.by_layer_s()


def test_shares_are_medians_of_the_rounds_own():
    row = gpu_first_layer.row_of(SMALL, [(1.0, 0.25, 1.1), (1.0, 0.25, 1.1), (2.0, 0.5, 2.2)])
    assert (row["share"], row["whole_ms"], row["first_layer_ms"]) == (0.25, 1000.0, 250.0)
    assert gpu_first_layer.judge([row])[0]["met"]


WHOLE = """
import functools, pathlib, sys
import torch
import gpu_attach, gpu_both_ways, gpu_copy_bench, gpu_first_layer, gpu_loss, gpu_one_way, gpu_register

MIB = 1 << 20
gpu_copy_bench.DEVICE, gpu_copy_bench.BUILD = "cpu", pathlib.Path(sys.argv[1])
gpu_copy_bench.on_the_gpu = lambda: torch
gpu_one_way.measure.__defaults__ = (gpu_one_way.Scale(4 * MIB, 2 * MIB, 1),)
gpu_both_ways.measure.__defaults__ = (gpu_both_ways.Scale(8 * MIB, 2 * MIB, 1, 12),)
gpu_register.measure.__defaults__ = (gpu_register.Scale(4 * MIB, 1),)
gpu_loss.Scale = functools.partial(gpu_loss.Scale, 4 * MIB, 2 * MIB, 2, 0.02, 64, 40)
gpu_attach.Scale = functools.partial(gpu_attach.Scale, 3, 16 << 10, 4, 3, 2, 2, 1)
gpu_first_layer.Scale = functools.partial(gpu_first_layer.Scale, 4, 8 << 10, 4, 6, 1, 0)
sys.exit(gpu_copy_bench.main())
"""


def test_the_whole_bench_runs_over_the_fake_driver(tmp_path):
    root = Path(__file__).resolve().parents[2]
    library = Path(os.environ["LARDER_LIBRARY"])
    fake = library.parent / "fake_cuda"
    if not fake.exists():
        pytest.skip("the fake driver was not carried here: make build")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            str(root / folder) for folder in ("tests/bench", "tests/engine", "shim/python", "e2e")
        ),
        "LD_LIBRARY_PATH": str(fake),
        "LARDERD": str(Path(os.environ["LARDER_TEST_BIN"]) / "larderd"),
        "LARDER_COMMIT": "abc1234",
        "GPU_DECODE_SHAPE": "tiny_llama",
    }
    ran = subprocess.run(
        [sys.executable, "-c", WHOLE, tmp_path],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads((tmp_path / "gpu_copies.json").read_text())
    measured = {row["part"] for row in report["rows"] if "not_measured" not in row}
    assert {"G1", "G2", "G3", "G5", "G6", "G8"} <= measured, ran.stdout + ran.stderr
    assert {row["part"] for row in report["rows"]} == {"G1", "G2", "G3", "G4", "G5", "G6", "G8"}
    goals = {goal["id"] for goal in report["goals"]}
    assert {
        "G1.load_of_large",
        "G3.both_of_large",
        "G5.first_layer_share",
        "G6.back_ms",
        "G8.4_kib.times_faster",
    } <= goals
    # Without NVIDIA's compiler kernels are not measured, and the report says so.
    losses = [row for row in report["rows"] if row["part"] == "G4" and "loss" in row]
    assert [(row["loop"], row["direction"]) for row in losses if row["way"] == "batch"] == [
        ("gemm", "loads"),
        ("gemm", "stores"),
        ("decode", "loads"),
        ("decode", "stores"),
    ]
