"""What `make carry-gpu` makes runs on a machine that has no compiler, no network and none of our libraries: .ci/gpu.sh."""

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def carried(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("carried") / "gpu"
    build = Path(os.environ["LARDER_TEST_BIN"]).parent
    ran = subprocess.run([root / ".ci" / "gpu.sh", "carry", build, folder], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.mark.parametrize("program", ["larderd", "redis-server"])
def test_a_program_brings_every_library_that_it_loads(carried, program):
    if not (carried / "bin" / program).exists():
        pytest.skip(f"no {program} here: make deps-servers")
    version = subprocess.run([carried / "bin" / program, "--version"], env={}, capture_output=True, text=True, timeout=60)
    assert version.returncode == 0, version.stderr
    (loader,) = (carried / "lib" / "libc").glob("ld-linux*")
    paths = f"{carried}/lib/other:{carried}/lib/libc"
    listed = subprocess.run([loader, "--library-path", paths, "--list", carried / "programs" / program], capture_output=True, text=True, timeout=60)
    outside = [line for line in listed.stdout.splitlines() if str(carried) not in line and "linux-vdso" not in line]
    assert listed.returncode == 0 and outside == []


def test_the_tests_run_on_what_was_carried(root, carried, tmp_path):
    """By Debian's own Python, which has neither PyTorch nor pytest, and nothing of this environment."""
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LARDER_PYTHON": "/usr/bin/python3"}
    ran = subprocess.run([root / ".ci" / "gpu.sh", "test", carried], env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 tests from Ways/GpuTest" in ran.stdout and "test_block_pool.py" in ran.stdout


def test_without_it_nothing_is_run(root, tmp_path):
    ran = subprocess.run([root / ".ci" / "gpu.sh", "test", tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1 and "make carry-gpu" in ran.stderr


def test_make_builds_nothing_where_all_was_carried(root, tmp_path):
    """A tree with build/gpu in which nothing was ever built; and one in which it was."""
    (tmp_path / "build" / "gpu").mkdir(parents=True)
    (tmp_path / "build" / "gpu" / "commit").write_text("abc1234\n")
    (tmp_path / "Makefile").write_text((root / "Makefile").read_text())

    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # the make that runs the tests is not its parent

    def steps():
        command = ["make", "-n", "test-gpu", "bench-gpu"]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60).stdout.splitlines()

    assert steps() == [".ci/gpu.sh test", ".ci/gpu.sh bench"]
    (tmp_path / "build" / "release").mkdir()
    (tmp_path / "build" / "release" / "build.ninja").touch()
    assert any("gpu.sh carry build/release" in step for step in steps()) and steps()[-1] == ".ci/gpu.sh bench"
