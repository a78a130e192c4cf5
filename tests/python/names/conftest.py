"""One larderd for each test, and the harness of the engine tests. Only `make test-names` runs this
folder, since each test starts several engines."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "engine")]


def pytest_collection_modifyitems(config, items):
    if os.environ.get("LARDER_NAMES") == "all":
        return
    left_out = [item for item in items if HERE in item.path.parents]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def with_tokenizer(tmp_path_factory):
    """Path of a tiny Llama that has a tokenizer too."""
    from demo.model import make_model

    shape = dict(
        layers=4, hidden=256, intermediate=512, heads=8, kv_heads=4, head_dim=32, vocab=1024
    )
    return Path(make_model(str(tmp_path_factory.mktemp("tokenizer") / "model"), seed=0, **shape))


@pytest.fixture
def world(tmp_path_factory):
    from engines import start_larderd

    with start_larderd(tmp_path_factory.mktemp("names"), "256MiB") as larderd:
        yield larderd
