"""One larderd for all settings, and the engine tests' harness."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / "engine")]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    from engines import start_larderd

    with start_larderd(tmp_path_factory.mktemp("models"), "512MiB") as larderd:
        yield larderd
