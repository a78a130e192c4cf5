"""The expressions of all panels and rules in Prometheus's form, with Grafana's variables filled
in."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART_FILES = Path(__file__).resolve().parents[2] / "charts" / "larder" / "files"
RULES = CHART_FILES / "rules" / "larder.yaml"
# Like Grafana's values for one choice. $__rate_interval is four scrapes there, and a scrape is a
# second here.
CHOSEN = {
    "$__rate_interval": "30s",
    "$__range": "10m",
    "$cluster": "test",
    "$namespace": "ml",
    "$pool": "chat",
    "$operator": "larder-operator",
    "$gpus": "8",
}


@dataclass(frozen=True)
class Asked:
    name: str
    expression: str
    instant: bool = False


def filled(expression, **other):
    """`other`: other choices, by the variable's name without the $."""
    chosen = CHOSEN | {f"${name}": value for name, value in other.items()}
    for name in sorted(chosen, key=len, reverse=True):
        expression = expression.replace(name, chosen[name])
    assert "$" not in expression, expression
    return expression


def dashboards():
    return [
        json.loads(path.read_text()) for path in sorted((CHART_FILES / "dashboards").glob("*.json"))
    ]


def of_panels(**other):
    found = []
    for dashboard in dashboards():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                name = f"{dashboard['title']}: {panel['title']} {target['refId']}"
                found.append(Asked(name, filled(target["expr"], **other), target["instant"]))
    return found


def of_variables():
    """(name, metric selector, label) of the queries that fill the variables' lists."""
    found = []
    for dashboard in dashboards():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = re.fullmatch(
                    r"label_values\((.*), (\w+)\)", variable["query"]["query"]
                ).groups()
                found.append((f"{dashboard['title']}: {variable['name']}", filled(selector), label))
    return found


def of_rules():
    """Recording rules unchanged. The condition of an alert gets `bool`: the answer is 0 if the
    condition does not hold, and empty only if its metrics are missing."""
    found = []
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            expression = " ".join(rule["expr"].split())
            if "alert" in rule:
                expression = re.sub(
                    r" (==|<|>) (?!bool)(?=[^)]*$|[^()]*\([^()]*\))", r" \1 bool ", expression
                )
            found.append(Asked(rule.get("record") or rule["alert"], expression, True))
    return found
