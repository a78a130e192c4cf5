"""Where dashboards, rules and their tests stand."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DASHBOARD_SOURCES = ROOT / "manifests" / "dashboards"
CHART_FILES = ROOT / "charts" / "larder" / "files"
DASHBOARDS = CHART_FILES / "dashboards"
RULES = CHART_FILES / "rules" / "larder.yaml"
