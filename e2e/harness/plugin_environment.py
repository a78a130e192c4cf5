"""The environments of the plug-ins' services, made by `make deps-plugins`."""

from __future__ import annotations

import os
import pathlib
import subprocess

from harness.process import ProcessError

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Missing(ProcessError):
    """`make deps-plugins` has not been run here."""


def programs(service: str, program: str) -> pathlib.Path:
    """The folder with the program: $LARDER_SERVICE ("mooncake": $LARDER_MOONCAKE), else the place
    of `make deps-plugins`."""
    script = f"cd .ci && . ./paths.sh && echo ${service}/bin"
    found = (
        os.environ.get(f"LARDER_{service.upper()}")
        or subprocess.run(
            ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    if not pathlib.Path(found, program).exists():
        part = "field" if service == "field" else "plugins"
        raise Missing(f"no {program} in {found}: make deps-{part}")
    return pathlib.Path(found)
