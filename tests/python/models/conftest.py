"""One larderd for all settings, and the engine tests' harness."""

import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / "engine")]


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: not a part of `make test`")


def pytest_collection_modifyitems(config, items):
    """`make test` does not even name the tests of `make test-models` alone."""
    if os.environ.get("LARDER_MODELS") == "all":
        return
    left_out = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    from engines import start_larderd

    with start_larderd(tmp_path_factory.mktemp("models"), "512MiB") as larderd:
        yield larderd
