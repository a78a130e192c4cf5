"""Alerts and recording rules: promtool accepts the rules, each alert is tested firing and not
firing, and has its runbook."""

import re
import subprocess

import yaml
from sources import DASHBOARD_SOURCES, ROOT, RULES

TESTS = ROOT / "tests" / "python" / "dashboards" / "rules_test.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule}
ASKED_FOR = {  # the alerts of the issue: checksum failures, tier degraded, backend down, ...
    "LarderChecksumFailures",
    "LarderTierDegraded",
    "LarderBackendDown",
    "LarderHitRatioCollapsed",
    "LarderArenaFullOfHolds",
    "LarderPodNotInjected",
    "LarderOperatorNotLeading",
    "LarderCertificateNearExpiry",
    "LarderSlowerThanRecompute",
}


def said_by(promtool, *arguments):
    return subprocess.run(
        [promtool, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_promtool_takes_the_rules(promtool):
    done = said_by(promtool, "check", "rules", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_when_it_should_and_not_otherwise(promtool):
    done = said_by(promtool, "test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tested_firing_and_not_firing():
    expected = {}
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for one in test["alert_rule_test"]:
            expected.setdefault(one["alertname"], set()).add(bool(one["exp_alerts"]))
    assert expected == {alert: {True, False} for alert in ALERTS}


def test_all_required_alerts_exist():
    assert ASKED_FOR == set(ALERTS)


def test_each_alert_has_its_runbook_and_each_runbook_its_alert():
    assert {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"} == set(ALERTS)
    for name, alert in ALERTS.items():
        assert alert["annotations"]["runbook_url"] == f"docs/runbooks/{name}.md"
        text = (RUNBOOKS / f"{name}.md").read_text()
        parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
        assert parts[0].strip() == f"# {name}"
        assert parts[1::2] == ["Meaning", "How to see it", "What to do"]
        assert all(len(part.strip()) > 80 for part in parts[2::2]), name


def test_each_alert_has_severity_summary_and_description():
    for name, alert in ALERTS.items():
        assert alert["labels"]["severity"] in ("warning", "critical"), name
        assert {"summary", "description", "runbook_url"} == set(alert["annotations"]), name
        assert all(
            text.endswith(".") for key, text in alert["annotations"].items() if key != "runbook_url"
        ), name


def test_runbooks_name_existing_panels():
    panels = set(
        re.findall(
            r"- title: (.*)", "".join(path.read_text() for path in DASHBOARD_SOURCES.glob("*.yaml"))
        )
    )
    for path in RUNBOOKS.glob("Larder*.md"):
        line = next(line for line in path.read_text().splitlines() if "Dashboard *Larder" in line)
        named = re.findall(r'"([^"]+)"', line)
        assert named and set(named) <= panels, (path.name, set(named) - panels)
