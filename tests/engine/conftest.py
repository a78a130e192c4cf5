"""Paths, the device, and real larderds for the tests of this room.

LARDER_ENGINE_DEVICE: cpu (the default, as in `make test`) or cuda (`make test-gpu`).
LARDER_TEST_BIN and LARDER_LIBRARY name the built programs and library (default: build/dev)."""

import itertools
import os
import random
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("LARDER_TEST_BIN", str(ROOT / "build" / "dev" / "bin"))
os.environ.setdefault("LARDER_LIBRARY", str(ROOT / "build" / "dev" / "lib" / "liblarder.so"))
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "shim" / "python"), str(ROOT / "e2e")]

PATIENCE_S = 60  # for a certain event on a machine that may be busy
_numbers = itertools.count()


@pytest.fixture(scope="session")
def device():
    torch = pytest.importorskip("torch")
    name = os.environ.get("LARDER_ENGINE_DEVICE", "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device: torch.cuda.is_available() is false")
    torch.set_num_threads(1)  # one order of sums: equal computations give equal bits
    return name


@pytest.fixture(scope="module")
def larderd(tmp_path_factory):
    from harness.larderd import Larderd

    name = f"larder-engine-{os.getpid()}-{next(_numbers)}"
    with Larderd(
        Path(os.environ["LARDER_TEST_BIN"]) / "larderd",
        tmp_path_factory.mktemp("larderd"),
        name,
        "256MiB",
    ) as larderd:
        larderd.wait_ready()
        larderd.wait_touched()
        yield larderd


@pytest.fixture(scope="session")
def wait_for():
    def wait(true, what):
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def prompt():
    """prompt(seed, tokens): token ids within the vocabulary of every shape of the tests."""

    def of(seed, tokens):
        source = random.Random(seed)
        return [source.randrange(256) for _ in range(tokens)]

    return of
