"""Models and larderds that the engine tests share. Each engine start costs about 25 s on 2 cores:
fixtures are shared by module."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def make(tmp_path_factory):
    """make(seed): a tiny Llama of that seed: 4 layers, hidden 256, real random weights."""
    from demo.model import make_model

    folder = tmp_path_factory.mktemp("models")

    def maker(seed=0):
        shape = dict(
            layers=4, hidden=256, intermediate=512, heads=8, kv_heads=4, head_dim=32, vocab=1024
        )
        return Path(make_model(str(folder / f"seed{seed}"), seed=seed, **shape))

    return maker


@pytest.fixture(scope="session")
def model(make):
    return make(0)
