"""Every metric of a panel or a rule is exported by a program. The test starts no program: for
larderd the page of metrics tells, which tests keep equal to the program, and for others the
sources."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
import yaml
from sources import DASHBOARDS, ROOT, RULES

NAMES = (
    r"\b(?:larder_\w+|vllm:\w+|controller_runtime_\w+|workqueue_\w+|rest_client_\w+|"
    r"leader_election_\w+)"
)
CONNECTOR = ROOT / "shim" / "python" / "larder" / "vllm" / "engine_metrics.py"


def expressions():
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            yield from (target["expr"] for target in panel.get("targets", ()))
        yield from (
            one["query"]["query"]
            for one in dashboard["templating"]["list"]
            if one["type"] == "query"
        )
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def asked(begins):
    """Names without Prometheus's suffixes of a histogram's."""
    found = {name for expression in expressions() for name in re.findall(NAMES, expression)}
    return {re.sub("_(bucket|sum|count)$", "", name) for name in found if name.startswith(begins)}


def test_larder_metrics_are_on_the_metrics_page():
    page = set(
        re.findall(
            r"^\| `(\w+)`", (ROOT / "docs" / "reference" / "metrics.md").read_text(), re.MULTILINE
        )
    )
    names = asked(
        ("larder_", "controller_runtime_", "workqueue_", "rest_client_", "leader_election_")
    )
    names -= {name for name in names if name.startswith("larder_engine_")}
    assert len(names) > 60 and names <= page, names - page


def test_connector_metrics_are_exported_by_the_connector():
    assert asked("larder_engine_") == set(
        re.findall(r'name="(larder_engine_\w+)"', CONNECTOR.read_text())
    )


def test_vllm_metrics_are_exported_by_vllm():
    found = importlib.util.find_spec("vllm")
    if found is None:
        pytest.skip("no vLLM (make deps-python)")
    source = (Path(found.origin).parent / "v1" / "metrics" / "loggers.py").read_text()
    names = {name.removesuffix("_total") for name in asked("vllm:")}
    assert names and names <= set(re.findall(r'name="(vllm:\w+)"', source))
