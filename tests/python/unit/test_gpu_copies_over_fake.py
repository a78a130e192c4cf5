"""make bench-gpu's copies, of real bytes, over the driver of tests/cuda without a GPU. No time is
judged."""

import json
import os
import subprocess
import sys
from pathlib import Path


def over_the_fake(root, script, *arguments, **environment):
    """The output of the process. The first argument is the library of the arms."""
    library = Path(os.environ["LARDER_LIBRARY"]).with_name("libgpu_arms.so")
    fake = library.parent / "fake_cuda"
    assert library.exists() and fake.exists(), "make build"
    path = os.pathsep.join(
        str(root / folder) for folder in ("tests/bench", "tests/engine", "shim/python", "e2e")
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, library, *arguments],
        env={**os.environ, "PYTHONPATH": path, "LD_LIBRARY_PATH": str(fake), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


OVER_THE_FAKE = """
import sys
import gpu_both_ways, gpu_one_way, gpu_register
from gpu_arms import LOAD, STORE, Arms, ArmsError
from harness.bench import Void

arms = Arms(sys.argv[1])
assert arms.device.startswith("a fake device"), arms.device
for piece in (16 << 10, 2 << 20):
    rows = gpu_one_way.measure(arms, piece, gpu_one_way.Scale(4 << 20, 2 << 20, 1))
    assert all("not_measured" not in row or "NVIDIA's compiler" in row["not_measured"] for row in rows), rows
    assert {"one large copy", "a call a piece", "the driver's batch", "batch"} <= {row["way"] for row in rows if "not_measured" not in row}, rows
rows = gpu_both_ways.measure(arms, gpu_both_ways.Scale(8 << 20, 2 << 20, 1, 16))
assert len(rows) == 3 and all(row["load_gb_s"] > 0 < row["store_gb_s"] for row in rows), rows
(small, *_) = gpu_register.measure(arms, gpu_register.Scale(8 << 20, 1, 0.1))
assert small["touch_s"] > 0 < small["register_s"], small
assert all(small[f"{launch}_us"] > 0 for launch in gpu_register.LAUNCHES), small
with arms.field(4 << 20, 64 << 10, 1 << 20) as field:
    with field.moves("batch", 8) as moves:
        moves.pace(LOAD, 100e6, 2)
        try:
            moves.pace(LOAD, 1, 1)
            raise SystemExit("two at once")
        except ArmsError as error:
            assert "already" in str(error), error
        import time
        time.sleep(0.3)
        rate = moves.rest()
        assert 0 < rate <= 130e6, rate  # a copy may be under way at the end
        field.scribble()
        try:
            field.check()
            raise SystemExit("scribbled pages are right")
        except Void as error:
            assert "wrong" in str(error), error
        try:
            moves.one_way(STORE, 1)
            raise SystemExit("other bytes are stored as the same ones")
        except Void as error:
            assert "another root" in str(error), error
print("done")
"""


def test_all_of_it_moves_real_bytes_over_the_fake_driver(root):
    assert over_the_fake(root, OVER_THE_FAKE).endswith("done\n")


G6_OVER_THE_FAKE = """
import pathlib, sys
import gpu_attach
from harness.larderd import Larderd

library, larderd_path, folder, transfer = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
scale = gpu_attach.Scale(layers=3, page_bytes=16 << 10, chunk_blocks=4, chunks=3, attaches=2, rounds=2, kills=2)
with Larderd(larderd_path, folder, f"larder-g6-{folder.name}", "8MiB", transfer) as larderd:
    larderd.wait_ready()
    larderd.wait_touched()
    rows = gpu_attach.measure(larderd, library, folder, scale)
assert [row["by"] for row in rows] == ["legacy handles", "descriptors"], rows
for row in rows:
    if "not_measured" in row:
        print(row["by"], "not measured:", row["not_measured"])
        continue
    assert (row["copies"], row["opened_by_copies"], row["allocations"]) == (12, 0, 3), row
    assert 0 < row["attach_ms"] <= row["attach_worst_ms"] and 0 < row["back_ms"] <= row["back_worst_ms"], row
    print(gpu_attach.show(row))
"""


def g6_over_the_fake(root, folder, transfer, **environment):
    larderd = Path(os.environ["LARDER_TEST_BIN"]) / "larderd"
    return over_the_fake(root, G6_OVER_THE_FAKE, larderd, folder, transfer, **environment)


def test_larderd_copies_for_an_engine_that_is_killed_over_the_fake_driver(root, tmp_path):
    told = g6_over_the_fake(root, tmp_path, "transfer: sidecar\n", FAKE_CUDA_DELAY_MS="2")
    assert told.count("0 opened by 12 verified copies") == 2, told


def test_the_reason_for_copies_by_the_engine_is_shown(root, tmp_path):
    told = g6_over_the_fake(root, tmp_path, "transfer: sidecar\n", FAKE_CUDA_MIG="1")
    assert [line.split("(")[0] for line in told.splitlines()] == [
        f"{by} not measured: larderd does not copy for this engine "
        for by in ("legacy handles", "descriptors")
    ]
    assert told.count("(mig:") == 2, told


SUBMIT_OVER_THE_FAKE = """
import pathlib, sys
import gpu_submit_bench as bench
from gpu_arms import Arms
from harness.larderd import Larderd

arms, folder = Arms(sys.argv[1]), pathlib.Path(sys.argv[3])
with Larderd(sys.argv[2], folder, f"larder-submit-{folder.name}", f"{2 * bench.PAGE_BYTES >> 20}MiB") as larderd:
    larderd.wait_ready()
    larderd.wait_touched()
    with arms.field(bench.PAGE_BYTES, bench.PIECE_BYTES, bench.CHUNK_BYTES, slots=False) as field:
        rows = bench.measure(larderd, arms.device, field.pages, loads=3)
assert [row["pieces"] for row in rows] == [576, 9216, 36864] and all(row["submit_us"] > 0 for row in rows), rows
assert [goal["id"] for goal in bench.judge(rows)] == ["gpu.submit_python_us"]
print(*map(bench.show, rows), sep="\\n")
"""


def test_loads_are_asked_for_through_python_over_the_fake_driver(root, tmp_path):
    told = over_the_fake(
        root, SUBMIT_OVER_THE_FAKE, Path(os.environ["LARDER_TEST_BIN"]) / "larderd", tmp_path
    )
    assert "pages in a fake device" in told and " 36864 pieces: " in told


def test_pages_of_each_size_are_touched_and_registered_or_it_says_why_not(root):
    """Real pages of this machine, of 1 GiB too, registered with the driver without a GPU."""
    script = """
import json, sys
import gpu_register
from gpu_arms import Arms

print(json.dumps(gpu_register.measure(Arms(sys.argv[1]), gpu_register.Scale(1 << 30, 1))))
"""
    pools = {
        path: path.read_text() for path in Path("/sys/kernel/mm/hugepages").glob("*/nr_hugepages")
    }
    rows = json.loads(over_the_fake(root, script))
    assert sorted(row["page_kib"] for row in rows) == [4, 2048, 1 << 20]
    for row in rows:
        assert (
            row.get("touch_s", 0) > 0 < row.get("register_s", 0)
            or " pages of " in row["not_measured"]
        ), row
    assert {path: path.read_text() for path in pools} == pools, "given back"
