"""Paths, and the one World of all tests here."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
os.environ.setdefault("LARDER_TEST_BIN", str(ROOT / "build" / "dev" / "bin"))
os.environ.setdefault("LARDER_LIBRARY", str(ROOT / "build" / "dev" / "lib" / "liblarder.so"))
sys.path[:0] = [str(FOLDER), str(ROOT / "shim" / "python"), str(ROOT / "e2e")]
LOAD_SECONDS = float(os.environ.get("LOAD_SECONDS", "60"))


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    from demo.model import make_model
    from world import World

    shape = dict(
        layers=4, hidden=256, intermediate=512, heads=8, kv_heads=4, head_dim=32, vocab=1024
    )
    model = make_model(str(tmp_path_factory.mktemp("model") / "seed0"), seed=0, **shape)
    with contextlib.ExitStack() as stack:
        made = World(stack, model, tmp_path_factory.mktemp("world"))
        made.exercise(LOAD_SECONDS)
        yield made
