"""Paths for all Python tests: the package and the harness from the tree, programs and libraries
from the build.

LARDER_TEST_BIN and LARDER_LIBRARY name the built files (default: build/dev). MARKS has the tests
that `make test` leaves out."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("LARDER_TEST_BIN", str(ROOT / "build" / "dev" / "bin"))
os.environ.setdefault("LARDER_LIBRARY", str(ROOT / "build" / "dev" / "lib" / "liblarder.so"))
sys.path[:0] = [str(ROOT / "shim" / "python"), str(ROOT / "e2e")]
sys.path.append(str(ROOT / "tests" / "python" / "models"))


# Tests with such a mark run only with this variable: in `make test-long`, `make test-models`,
# `make test-plugins` and `make test-traces`.
MARKS = {
    "long": ("LARDER_LONG", "1"),
    "slow": ("LARDER_MODELS", "all"),
    "plugins": ("LARDER_PLUGINS", "1"),
    "traces": ("LARDER_TRACES", "1"),
}


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", f"{mark}: not a part of `make test`")


def pytest_collection_modifyitems(config, items):
    """`make test` does not even name these tests."""
    marks = [mark for mark, (name, value) in MARKS.items() if os.environ.get(name) != value]
    left_out = [item for item in items if any(map(item.get_closest_marker, marks))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """models(shape, seed=0): path of a tiny model."""
    from shapes import make_model

    folder = tmp_path_factory.mktemp("shapes")
    return lambda shape, seed=0: make_model(folder, shape, seed)
