"""Tiny models of many kinds, one larderd for all settings, and the engine tests' harness."""

import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "engine")]


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: not a part of `make test`")


def pytest_collection_modifyitems(config, items):
    """`make test` does not even name what only `make test-models` runs."""
    if os.environ.get("LARDER_MODELS") == "all":
        return
    left_out = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """models(shape, seed=0): path of a tiny model."""
    from shapes import make_model

    folder = tmp_path_factory.mktemp("shapes")
    return lambda shape, seed=0: make_model(folder, shape, seed)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    from engines import start_larderd

    with start_larderd(tmp_path_factory.mktemp("models"), "512MiB") as larderd:
        yield larderd
