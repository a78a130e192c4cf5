"""Paths for all Python tests: the package from the tree, the library and larderd from the build.

LARDER_BUILD names the build folder (default build/dev); LARDER_LIBRARY and LARDERD override single files."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LARDER_BUILD", ROOT / "build" / "dev")).resolve()
for folder in (ROOT / "shim" / "python", ROOT / "e2e", Path(__file__).parent):
    sys.path.insert(0, str(folder))
os.environ.setdefault("LARDER_LIBRARY", str(BUILD / "lib" / "liblarder.so"))


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def build():
    return BUILD
