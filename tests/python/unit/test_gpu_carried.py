"""The output of `make carry-gpu` runs on a machine without a compiler, a network and our libraries:
.ci/gpu.sh."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

# Debian's own Python, without PyTorch and pytest, and without this environment and a home.
BARE = {"PATH": "/usr/bin:/bin", "LARDER_PYTHON": "/usr/bin/python3"}


@pytest.fixture(scope="module")
def carried(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("carried") / "gpu"
    build = Path(os.environ["LARDER_TEST_BIN"]).parent
    ran = subprocess.run(
        [root / ".ci" / "gpu.sh", "carry", build, folder],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.mark.parametrize("program, own", [("larderd", "other"), ("redis-server", "redis")])
def test_a_program_brings_every_library_that_it_loads(carried, program, own):
    if not (carried / "bin" / program).exists():
        pytest.skip(f"no {program} here: make deps-servers")
    version = subprocess.run(
        [carried / "bin" / program, "--version"], env={}, capture_output=True, text=True, timeout=60
    )
    assert version.returncode == 0, version.stderr
    (loader,) = (carried / "lib" / "libc").glob("ld-linux*")
    paths = f"{carried}/lib/{own}:{carried}/lib/libc"
    listed = subprocess.run(
        [loader, "--library-path", paths, "--list", carried / "programs" / program],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
    )
    outside = [
        line
        for line in listed.stdout.splitlines()
        if str(carried) not in line and "linux-vdso" not in line
    ]
    assert listed.returncode == 0 and outside == []


def test_the_tests_run_on_the_carried_tree(root, carried):
    ran = subprocess.run(
        [root / ".ci" / "gpu.sh", "test", carried],
        env=BARE,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.index(
        "the driver is not asked: no PyTorch in /usr/bin/python3"
    ) < ran.stdout.index("6 tests from Ways/GpuTest")
    assert "6 tests from Ways/GpuTest" in ran.stdout and "test_block_pool.py" in ran.stdout


@pytest.fixture
def bench(root, carried, tmp_path):
    """bench(NAME=value): the end of the bench, and its reports by name, in a tree with sources and
    without a build."""
    for folder in (".ci", "e2e/harness", "shim/python", "tests/bench", "tests/engine"):
        shutil.copytree(
            root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )

    def run(**environment):
        command = [tmp_path / ".ci" / "gpu.sh", "bench", carried]
        ran = subprocess.run(
            command, env={**BARE, **environment}, capture_output=True, text=True, timeout=300
        )
        return ran, {
            path.stem: json.loads(path.read_text())
            for path in (tmp_path / "build" / "bench").glob("*.json")
        }

    return run


def test_without_a_gpu_the_bench_lists_unmeasured_parts(bench):
    ran, reports = bench()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "not measured: T (no PyTorch in /usr/bin/python3)" in ran.stdout
    *host, gpu = reports["gpu"]["rows"]
    assert [row["pages in"] for row in host] == ["host memory"] * 3
    assert (
        gpu["submit us"].startswith("not measured: no CUDA device")
        and gpu["commit"] == host[0]["commit"] != ""
    )
    *host, gpu = reports["gpu_submit"]["rows"]
    assert [row["submit_us"] > 0 for row in host] == [True] * 3 and gpu["not_measured"].startswith(
        "no CUDA device"
    )
    assert [row["part"] for row in reports["gpu_copies"]["rows"]] == [
        "G1",
        "G2",
        "G3",
        "G4",
        "G5",
        "G6",
        "G8",
    ]
    assert all(
        row["not_measured"].startswith("no CUDA device") for row in reports["gpu_copies"]["rows"]
    )


def test_some_of_the_bench_can_be_run_alone(bench):
    ran, reports = bench(GPU_PARTS="G8,G1")
    assert ran.returncode == 0 and list(reports) == ["gpu_copies"], ran.stdout + ran.stderr
    assert [row["part"] for row in reports["gpu_copies"]["rows"]] == ["G8", "G1"]
    ran, _ = bench(GPU_PARTS="G8,G7")
    assert ran.returncode == 1 and "unknown part G7; known: submit,G1," in ran.stderr


@pytest.mark.parametrize("part", ["G1", "V"])
def test_a_part_that_takes_too_long_ends(bench, part):
    ran, _ = bench(GPU_PARTS=part, GPU_PART_S="0.01")
    told = f"{part}: FAILED: not done within 0.01 s (GPU_PART_S)"
    assert ran.returncode == 1 and told in ran.stdout, ran.stdout + ran.stderr


def test_larderd_has_the_drivers_library_of_the_machine(bench):
    """In the folders of LD_LIBRARY_PATH, and not among the carried files: here the driver without a
    GPU."""
    ran, reports = bench(
        GPU_PARTS="G6", LD_LIBRARY_PATH=str(Path(os.environ["LARDER_LIBRARY"]).parent / "fake_cuda")
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = reports["gpu_copies"]["rows"]
    assert [row.get("opened_by_copies") for row in rows] == [0, 0], rows


def test_without_a_carried_tree_nothing_runs(root, tmp_path):
    ran = subprocess.run(
        [root / ".ci" / "gpu.sh", "test", tmp_path / "none"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 1 and "make carry-gpu" in ran.stderr


def test_make_builds_nothing_in_a_carried_tree(root, tmp_path):
    """A tree with build/gpu and without a build; and one with a build."""
    (tmp_path / "build" / "gpu").mkdir(parents=True)
    (tmp_path / "build" / "gpu" / "commit").write_text("abc1234\n")
    (tmp_path / "Makefile").write_text((root / "Makefile").read_text())

    # the make that runs the tests is not its parent
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def steps():
        command = ["make", "-n", "test-gpu", "bench-gpu"]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
        ).stdout.splitlines()

    assert steps() == [".ci/gpu.sh test", ".ci/gpu.sh bench"]
    (tmp_path / "build" / "release").mkdir()
    (tmp_path / "build" / "release" / "build.ninja").touch()
    assert (
        any("gpu.sh carry build/release" in step for step in steps())
        and steps()[-1] == ".ci/gpu.sh bench"
    )
