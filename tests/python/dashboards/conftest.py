"""Paths, and the programs that dashboards and rules are tested with."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sources import ROOT  # noqa: E402


@pytest.fixture(scope="session")
def promtool():
    asked = subprocess.run(
        ["bash", "-c", ". ./paths.sh && echo $servers/promtool"],
        cwd=ROOT / ".ci",
        capture_output=True,
        text=True,
        check=True,
    )
    path = Path(asked.stdout.strip())
    if not path.exists():
        pytest.skip(f"no {path} (make deps-servers)")
    return path
