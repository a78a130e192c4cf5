"""Where dashboards, rules and their tests stand."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS = ROOT / "manifests"
