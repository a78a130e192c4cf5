"""Every expression of every panel, variable and rule, asked of a Prometheus that scraped real
programs under load."""

import json
import os
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from draw import Picture
from expressions import dashboards, of_panels, of_rules, of_variables
from world import NODE_NAMESPACE

STEP_S = 2
# Rules that may have no data here, with the reason.
EMPTY = {
    "LarderHitRatioCollapsed": (
        "the rule compares with the day before; promtool tests the rule, "
        "and its parts are asked below"
    ),
}
PANELS, RULES = of_panels(), of_rules()
JOINED = " or larder_engine_info{"


def of_engines(panels):
    """The panels that join an engine's series with the pool."""
    return [asked for asked in panels if JOINED in asked.expression]


def name_of(asked):
    return asked.name


@pytest.mark.parametrize("asked", PANELS, ids=name_of)
def test_every_panel_shows_something(world, asked):
    if asked.instant:
        assert world.prometheus.now(asked.expression), asked.expression
    else:
        assert world.prometheus.over(asked.expression, world.started, time.time(), STEP_S), (
            asked.expression
        )


@pytest.mark.parametrize("asked", of_engines(of_panels(namespace=NODE_NAMESPACE)), ids=name_of)
def test_engines_whose_larderd_is_in_another_pod_are_joined(world, asked):
    assert world.prometheus.over(asked.expression, world.started, time.time(), STEP_S), (
        asked.expression
    )
    by_pod_alone = asked.expression.replace(JOINED, " or larder_engine_of_nobody{")
    assert not world.prometheus.over(by_pod_alone, world.started, time.time(), STEP_S), (
        "the test's pods are to be two"
    )


@pytest.mark.parametrize("asked", of_engines(of_panels(pool="another")), ids=name_of)
def test_engines_of_another_pool_are_left_out(world, asked):
    assert not world.prometheus.over(asked.expression, world.started, time.time(), STEP_S), (
        asked.expression
    )


@pytest.mark.parametrize("asked", of_engines(PANELS), ids=name_of)
def test_engines_without_a_name_of_a_pool_are_joined_by_their_pod(world, asked):
    by_pod_alone = asked.expression.replace(JOINED, " or larder_engine_of_nobody{")
    assert world.prometheus.over(by_pod_alone, world.started, time.time(), STEP_S), by_pod_alone


@pytest.mark.parametrize(
    ("name", "selector", "label"),
    of_variables(),
    ids=lambda value: value if ":" in str(value) else "",
)
def test_every_variable_has_a_choice(world, name, selector, label):
    assert world.prometheus.ask(f"label/{label}/values", **{"match[]": selector}), (
        f"{name}: {selector}"
    )


@pytest.mark.parametrize("asked", [one for one in RULES if one.name not in EMPTY], ids=name_of)
def test_every_rule_finds_its_series(world, asked):
    assert world.prometheus.now(asked.expression), asked.expression


def test_rules_allowed_to_be_empty_still_exist():
    assert set(EMPTY) <= {one.name for one in RULES}


def test_prometheus_evaluates_all_rules(world):
    rules = [rule for group in world.prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == len(RULES)
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []


def alerts(world):
    return {
        (one["labels"]["alertname"], one["state"])
        for one in world.prometheus.ask("alerts")["alerts"]
    }


def test_a_pod_without_injection_raises_an_alert(world):
    assert ("LarderPodNotInjected", "firing") in alerts(world)


def test_the_figures_are_those_of_larderd_itself(world):
    """The sums of the panels equal larderd's own figures."""
    asked = 'sum(larder_tokens_hit_total{namespace="ml",pool="chat"})'
    ((_, prometheus_says),) = world.prometheus.now(asked)
    own = sum(
        value
        for name, value in world.larderd.metrics().items()
        if name.startswith("larder_tokens_hit_total")
    )
    assert own > 0 and prometheus_says == own


def test_grafanas_sidecar_finds_the_dashboards_in_the_cluster(world):
    found = world.cluster.get("configmaps", "-A", "-l", "grafana_dashboard=1")["items"]
    there = [json.loads(text) for one in found for text in one["data"].values()]
    assert sorted(there, key=lambda one: one["uid"]) == sorted(
        dashboards(), key=lambda one: one["uid"]
    )


def test_every_dashboard_is_drawn(world, tmp_path):
    """LARDER_PICTURES: the folder of the pictures (`make pictures`)."""
    folder = Path(os.environ.get("LARDER_PICTURES") or tmp_path)
    folder.mkdir(exist_ok=True)
    for dashboard in dashboards():
        picture = Picture(world.prometheus, world.started, time.time()).of(dashboard)
        root = ElementTree.fromstring(picture)
        assert "no data" not in picture, [one.text for one in root.iter() if one.text == "no data"]
        assert "no screenshot of Grafana" in picture and len(picture) < 300_000
        (folder / f"{dashboard['uid']}.svg").write_text(picture)


def test_a_lost_backend_raises_an_alert(world):
    """The last test: afterwards the world has no backend."""
    assert not {name for name, _ in alerts(world)} & {
        "LarderBackendDown",
        "LarderChecksumFailures",
        "LarderTierDegraded",
    }
    world.redis.stop()
    deadline = time.monotonic() + 120
    while ("LarderBackendDown", "pending") not in alerts(world):
        assert time.monotonic() < deadline, alerts(world)
        time.sleep(1)
