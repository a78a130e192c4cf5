"""The dashboards: the JSON equals the descriptions, has Grafana's form, and asks only for exported
metrics."""

import copy
import importlib.util
import json

import pytest
from grafana_model import faults
from sources import DASHBOARD_SOURCES, DASHBOARDS

DESCRIPTIONS = sorted(DASHBOARD_SOURCES.glob("*.yaml"))


def build():
    spec = importlib.util.spec_from_file_location(
        "build_dashboards", DASHBOARD_SOURCES / "build.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dashboard(path):
    return json.loads((DASHBOARDS / f"{path.stem}.json").read_text())


def test_the_three_dashboards_exist():
    assert [path.stem for path in DESCRIPTIONS] == ["control-plane", "data-plane", "pool-overview"]
    assert sorted(path.stem for path in DASHBOARDS.iterdir()) == [
        path.stem for path in DESCRIPTIONS
    ]
    uids = [dashboard(path)["uid"] for path in DESCRIPTIONS]
    assert len(set(uids)) == 3


@pytest.mark.parametrize("path", DESCRIPTIONS, ids=lambda path: path.stem)
def test_the_json_matches_the_description(path):
    made_of, text = build().made_of(path), build().text(path)
    assert made_of.parent == DASHBOARDS and made_of.read_text() == text, (
        "out of date: python manifests/dashboards/build.py"
    )


@pytest.mark.parametrize("path", DESCRIPTIONS, ids=lambda path: path.stem)
def test_each_dashboard_has_the_form_of_grafana(path):
    assert faults(dashboard(path)) == []


def broken(change):
    made = copy.deepcopy(dashboard(DASHBOARD_SOURCES / "pool-overview.yaml"))
    change(made, made["panels"][1])
    return faults(made)


BREAKS = {  # a change of a dashboard -> the fault in words
    "another panel's place": (
        lambda d, p: d["panels"][2]["gridPos"].update(x=p["gridPos"]["x"]),
        "lies on",
    ),
    "an id twice": (lambda d, p: p.update(id=3), "ids are not unique"),
    "a unit that Grafana has not": (
        lambda d, p: p["fieldConfig"]["defaults"].update(unit="tokens"),
        "unit 'tokens'",
    ),
    "no legend": (lambda d, p: p["targets"][0].update(legendFormat=""), "no legend"),
    "a legend of a label that is gone": (
        lambda d, p: p["targets"][0].update(legendFormat="{{pod}}"),
        "does not keep: {'pod'}",
    ),
    "a variable of another dashboard": (
        lambda d, p: p["targets"][0].update(expr="x{a='$operator'}"),
        "unknown variables: {'operator'}",
    ),
    "a fixed rate": (lambda d, p: p["targets"][0].update(expr="rate(x[5m])"), "another time than"),
    "a fixed data source": (
        lambda d, p: p["targets"][0].update(datasource={"type": "prometheus", "uid": "abc"}),
        "another data source",
    ),
    "no description": (lambda d, p: p.update(description=""), "no sentence"),
    "an old panel type": (lambda d, p: p.update(type="graph"), "type graph"),
    "too wide": (lambda d, p: d["panels"][4]["gridPos"].update(w=10), "beyond column"),
    "a variable without All": (
        lambda d, p: d["templating"]["list"][1].update(includeAll=False),
        "has no All",
    ),
    "a variable less": (lambda d, p: d["templating"]["list"].pop(3), "unknown variables: {'pool'}"),
    "thresholds that fall": (
        lambda d, p: p["fieldConfig"]["defaults"]["thresholds"]["steps"].extend(
            [{"color": "red", "value": 2}, {"color": "red", "value": 1}]
        ),
        "others grow",
    ),
    "options of another type": (lambda d, p: p["options"].pop("textMode"), "options"),
    "the schema's version as text": (
        lambda d, p: d.update(schemaVersion="39"),
        "schemaVersion: no int",
    ),
}


@pytest.mark.parametrize("what", BREAKS)
def test_the_check_finds_each_fault(what):
    change, said = BREAKS[what]
    assert any(said in fault for fault in broken(change)), broken(change)
