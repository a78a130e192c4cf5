"""The rendered chart, word for word, for the values files of tests/golden/chart.
LARDER_TEST_WRITE_GOLDEN=1 writes the goldens anew."""

import base64
import json
import os
import re
from xml.etree import ElementTree

import programs
import pytest
import yaml

GOLDEN = programs.ROOT / "tests" / "golden" / "chart"
RELEASES = {  # golden: the settings of the installation; the values stand in the golden's folder
    "cert-manager": {},
    "cert-manager-issuer": {},
    "everything": {"namespace": "caches"},
    "kubernetes-1.28": {"kubernetes": "1.28.0"},
    "long-name": {
        "release": "the-caches-of-the-platform-team-of-the-second-region1",
        "namespace": "default",
    },
    "nothing-optional": {"release": "team"},
}


def compare(path, text):
    if os.environ.get("LARDER_TEST_WRITE_GOLDEN"):
        path.write_text(text)
    assert path.exists() and path.read_text() == text, (
        f"{path} is out of date: LARDER_TEST_WRITE_GOLDEN=1 writes the file; read the difference"
    )


@pytest.mark.parametrize("folder", ["crds", "dashboards", "rules"])
def test_no_file_of_the_chart_has_a_copy_in_manifests(folder):
    ours = {path.read_bytes(): path.name for path in (programs.FILES / folder).iterdir()}
    copies = [
        path
        for path in (programs.ROOT / "manifests").rglob("*")
        if path.is_file() and path.read_bytes() in ours
    ]
    assert ours and not copies


def test_dashboards_are_rendered_as_they_are_for_grafanas_sidecar(helm):
    text = helm.template(
        settings=[
            "metrics.dashboards.enabled=true",
            "metrics.dashboards.annotations.grafana_folder=Larder",
        ]
    )
    rendered = {}
    for config_map in programs.of_kind(text, "ConfigMap"):
        assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert config_map["metadata"]["annotations"] == {"grafana_folder": "Larder"}
        rendered |= {name: json.loads(data) for name, data in config_map["data"].items()}
    sources = (programs.FILES / "dashboards").glob("*.json")
    assert rendered == {f"larder-{path.name}": json.loads(path.read_text()) for path in sources}


def test_rules_are_rendered_with_the_runbooks_of_the_house(helm):
    source = yaml.safe_load((programs.FILES / "rules" / "larder.yaml").read_text())
    rule = programs.the(
        helm.template(settings=["metrics.prometheusRule.enabled=true"]), "PrometheusRule"
    )
    assert rule["spec"] == source
    text = helm.template(
        settings=[
            "metrics.prometheusRule.enabled=true",
            "metrics.prometheusRule.runbooks=https://wiki.example/r/",
        ]
    )
    alerts = [
        rule
        for group in programs.the(text, "PrometheusRule")["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert {alert["annotations"]["runbook_url"] for alert in alerts} == {
        f"https://wiki.example/r/{alert['alert']}.md" for alert in alerts
    }


@pytest.mark.parametrize(
    "values",
    [None, *sorted(GOLDEN.glob("*/values.yaml"))],
    ids=lambda path: path.parent.name if path else "defaults",
)
def test_lint_finds_nothing(helm, values):
    said = helm(
        "lint",
        "--strict",
        "--kube-version",
        programs.KUBERNETES,
        programs.CHART,
        *(["--values", values] if values else []),
    )
    assert "0 chart(s) failed" in said
    assert "[INFO]" not in said, "recommendations as well"


def test_the_chart_is_of_this_version():
    (version,) = re.findall(
        r"^project\(larder VERSION (\S+)",
        (programs.ROOT / "CMakeLists.txt").read_text(),
        re.MULTILINE,
    )
    assert chart_yaml()["version"] == chart_yaml()["appVersion"] == version


def chart_yaml():
    return yaml.safe_load((programs.CHART / "Chart.yaml").read_text())


def test_the_icon_of_the_chart_is_its_file():
    kind, data = chart_yaml()["icon"].split(",")
    icon = (programs.CHART / "icon.svg").read_bytes()
    assert kind == "data:image/svg+xml;base64" and base64.b64decode(data) == icon
    assert ElementTree.fromstring(icon).tag.endswith("}svg") and len(icon) < 2000


def test_artifact_hub_is_told_of_this_image_and_these_definitions():
    values = yaml.safe_load((programs.CHART / "values.yaml").read_text())
    notes = {
        key.removeprefix("artifacthub.io/"): value
        for key, value in chart_yaml()["annotations"].items()
    }
    assert all(isinstance(value, str) for value in notes.values()), "Helm takes strings alone"
    assert yaml.safe_load(notes["images"]) == [
        {"name": "larder", "image": f"{values['image']['repository']}:{chart_yaml()['appVersion']}"}
    ]
    crds = [
        yaml.safe_load(path.read_text())
        for path in sorted((programs.CHART / "files" / "crds").iterdir())
    ]
    wanted = {
        (crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]["name"], crd["metadata"]["name"])
        for crd in crds
    }
    assert {
        (crd["kind"], crd["version"], crd["name"]) for crd in yaml.safe_load(notes["crds"])
    } == wanted
    samples = [
        next(
            yaml.safe_load_all(
                (programs.ROOT / "manifests" / "samples" / f"{name}.yaml").read_text()
            )
        )
        for name in ("pool", "backend-managed")
    ]
    assert yaml.safe_load(notes["crdsExamples"]) == samples


@pytest.mark.parametrize("name", RELEASES)
def test_golden(helm, name):
    folder = GOLDEN / name
    compare(
        folder / "rendered.yaml", helm.template(values=folder / "values.yaml", **RELEASES[name])
    )


def test_every_golden_is_compared():
    assert {path.name for path in GOLDEN.iterdir() if path.is_dir()} == set(RELEASES)


def test_the_rendered_manifest_equals_the_default_rendering(rendered):
    compare(programs.RENDERED, rendered)


def test_definitions_are_rendered_as_they_are_and_kept(rendered):
    for definition in programs.of_kind(rendered, "CustomResourceDefinition"):
        plural = definition["spec"]["names"]["plural"]
        source = yaml.safe_load((programs.FILES / "crds" / f"larder.dev_{plural}.yaml").read_text())
        assert definition["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        del definition["metadata"]["labels"]
        assert definition == source


def test_one_object_a_template():
    for template in sorted((programs.CHART / "templates").glob("*.yaml")):
        assert template.read_text().count("\nkind: ") <= 1, template.name


def names(text):
    return [
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in programs.objects(text)
    ]


@pytest.mark.parametrize(
    "release",
    [
        "a" * 53,
        "larder" + "b" * 47,
        "c" * 47 + "larder",
        "7",
        "1.larder",
        "my.cache",
        "d" * 46 + "-larder",
    ],
)
def test_names_fit_whatever_the_release_is_called(helm, release):
    text = helm.template(release=release, settings=["crds.install=false"])
    assert len(set(names(text))) == len(names(text))
    for kind, _, name in names(text):
        most = 63 if kind in ("Service", "Deployment") else 253
        assert len(name) <= most and name[0].isalpha() and name[-1].isalnum() and "." not in name, (
            kind,
            name,
        )


def test_long_names_of_one_beginning_stay_apart(helm):
    one, other = (
        {
            name
            for _, _, name in names(
                helm.template(release="r" * 52 + last, settings=["crds.install=false"])
            )
        }
        for last in "12"
    )
    assert not one & other


def test_the_operator_gets_the_names_of_rendered_objects(helm):
    text = helm.template(release="my.cache")
    (container,) = programs.the(text, "Deployment")["spec"]["template"]["spec"]["containers"]
    told = dict(argument.removeprefix("--").split("=", 1) for argument in container["args"])
    configuration = programs.the(text, "MutatingWebhookConfiguration")
    assert told["webhook-configuration"] == configuration["metadata"]["name"]
    assert {told["webhook-service"]} == {
        webhook["clientConfig"]["service"]["name"] for webhook in configuration["webhooks"]
    }
    assert told["webhook-service"] in {
        one["metadata"]["name"] for one in programs.of_kind(text, "Service")
    }
    assert told["image"] == container["image"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {int(told[f"{name}-address"].split(":")[1]) for name in ports} == set(ports.values())


def test_a_mounted_certificate_is_of_the_secret_that_cert_manager_writes(helm):
    text = helm.template(settings=["webhook.certManager.enabled=true"])
    pod = programs.the(text, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = pod["volumes"]
    (mount,) = container["volumeMounts"]
    assert f"--certificate-directory={mount['mountPath']}" in container["args"]
    leaf = [one for one in programs.of_kind(text, "Certificate") if not one["spec"].get("isCA")]
    assert [one["spec"]["secretName"] for one in leaf] == [volume["secret"]["secretName"]]
    annotations = programs.the(text, "MutatingWebhookConfiguration")["metadata"]["annotations"]
    assert (
        annotations["cert-manager.io/inject-ca-from"]
        == f"larder-system/{leaf[0]['metadata']['name']}"
    )


def test_the_webhooks_are_harmless(rendered):
    for webhook in programs.the(rendered, "MutatingWebhookConfiguration")["webhooks"]:
        assert webhook["failurePolicy"] == "Ignore" and webhook["reinvocationPolicy"] == "IfNeeded"
        assert webhook["sideEffects"] == "NoneOnDryRun"
        assert "caBundle" not in webhook["clientConfig"]
        excluded = webhook["namespaceSelector"]["matchExpressions"][0]
        assert {"kube-system", "larder-system"} <= set(excluded["values"])


def test_the_webhook_selects_annotated_pods_and_labelled_namespaces(rendered):
    pods, namespaces = programs.the(rendered, "MutatingWebhookConfiguration")["webhooks"]
    asked = {
        webhook["name"]: [one["name"] for one in webhook["matchConditions"]]
        for webhook in (pods, namespaces)
    }
    assert asked == {
        "pods.larder.dev": ["annotated", "not-declined"],
        "namespaces.larder.dev": ["not-annotated", "not-declined"],
    }
    assert {"key": "larder.dev/pool", "operator": "Exists"} in namespaces["namespaceSelector"][
        "matchExpressions"
    ]
    assert len(pods["namespaceSelector"]["matchExpressions"]) == 1


def test_in_the_namespace_default_annotated_pods_are_looked_at(helm):
    for webhook in programs.the(helm.template(namespace="default"), "MutatingWebhookConfiguration")[
        "webhooks"
    ]:
        assert "default" not in webhook["namespaceSelector"]["matchExpressions"][0]["values"]
