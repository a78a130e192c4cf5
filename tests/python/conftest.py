"""Paths for all Python tests: the package and the harness from the tree, programs and libraries
from the build.

LARDER_TEST_BIN and LARDER_LIBRARY name the built files (default: build/dev). Tests with the mark
`long` run with LARDER_LONG=1 alone (`make test-long`)."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("LARDER_TEST_BIN", str(ROOT / "build" / "dev" / "bin"))
os.environ.setdefault("LARDER_LIBRARY", str(ROOT / "build" / "dev" / "lib" / "liblarder.so"))
sys.path[:0] = [str(ROOT / "shim" / "python"), str(ROOT / "e2e")]
sys.path.append(str(ROOT / "tests" / "python" / "models"))


def pytest_configure(config):
    config.addinivalue_line("markers", "long: runs in `make test-long` alone")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("LARDER_LONG") == "1":
        return
    left_out = [one for one in items if one.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [one for one in items if not one.get_closest_marker("long")]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """models(shape, seed=0): path of a tiny model."""
    from shapes import make_model

    folder = tmp_path_factory.mktemp("shapes")
    return lambda shape, seed=0: make_model(folder, shape, seed)
