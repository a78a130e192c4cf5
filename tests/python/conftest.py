"""Paths for all Python tests: the package and the harness from the tree, programs and libraries
from the build.

LARDER_TEST_BIN and LARDER_LIBRARY name the built files (default: build/dev)."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("LARDER_TEST_BIN", str(ROOT / "build" / "dev" / "bin"))
os.environ.setdefault("LARDER_LIBRARY", str(ROOT / "build" / "dev" / "lib" / "liblarder.so"))
sys.path[:0] = [str(ROOT / "shim" / "python"), str(ROOT / "e2e")]
sys.path.append(str(ROOT / "tests" / "python" / "models"))


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """models(shape, seed=0): path of a tiny model."""
    from shapes import make_model

    folder = tmp_path_factory.mktemp("shapes")
    return lambda shape, seed=0: make_model(folder, shape, seed)
