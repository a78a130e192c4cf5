"""Values: a wrong value is refused in words, a given value is used, and every key is explained."""

import json
import re

import programs
import pytest
import yaml

SCHEMA = json.loads((programs.CHART / "values.schema.json").read_text())
TEXT = (programs.CHART / "values.yaml").read_text()
VALUES = yaml.safe_load(TEXT)

WRONG = {  # a user's value -> helm's message
    "replica=3": "additional properties 'replica' not allowed",
    "image.tags=1": "at '/image': additional properties 'tags' not allowed",
    "image.repository=larder:1.0": "the tag goes into image.tag",
    "image.repository=": "at '/image/repository': minLength: got 0, want 1",
    "image.digest=abc": "at '/image/digest': 'abc' does not match",
    "image.pullPolicy=always": (
        "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"
    ),
    "mooncake.image=a b": "at '/mooncake/image': 'a b' does not match",
    "infinistore.image=a b": "at '/infinistore/image': 'a b' does not match",
    "replicas=0": "at '/replicas': minimum: got 0, want 1",
    "replicas=two": "at '/replicas': got string, want integer",
    "logLevel=trace": "at '/logLevel': value must be one of 'debug', 'info', 'warning', 'error'",
    "nodeSelector.gpu=true": "at '/nodeSelector/gpu': got boolean, want string",
    "resources.limit.memory=1Gi": "at '/resources': additional properties 'limit' not allowed",
    "resources.limits.memory=1GB": "at '/resources/limits/memory': '1GB' does not match",
    "resources.limits.memory=-1Gi": "at '/resources/limits/memory': '-1Gi' does not match",
    "resources.limits.memory=-1": "at '/resources/limits/memory': minimum: got -1, want 0",
    "enabled=false": "enabled: false is for `condition: larder.enabled`",
    "enabled=maybe": "at '/enabled': got string, want boolean",
    "global.imageRegistry=https://mirror.example": "is no registry such as mirror.example:5000",
    "global.imageRegistry=mirror.example/larder:1": "is no registry such as mirror.example:5000",
    "hostNetwork=yes": "at '/hostNetwork': got string, want boolean",
    "dnsPolicy=None": "at '/dnsPolicy': value must be one of '', 'ClusterFirst'",
    "ports.webhook=70000": "at '/ports/webhook': maximum: got 70,000, want 65,535",
    "ports.health=9443": "ports: webhook, metrics and health need a port each",
    "serviceAccount.create=false": "serviceAccount.name: which account?",
    "webhook.timeoutSeconds=60": "at '/webhook/timeoutSeconds': maximum: got 60, want 30",
    "webhook.failurePolicy=Fail": (
        "at '/webhook': additional properties 'failurePolicy' not allowed"
    ),
    "webhook.certManager=true": "at '/webhook/certManager': got boolean, want object",
    "webhook.certManager.issuerRef.kind=Issuer": "properties 'name' required, if 'kind' exists",
    "webhook=null": "missing property 'webhook'",
    "crds.instal=true": "at '/crds': additional properties 'instal' not allowed",
    "backendSecrets[0].names={a}": "at '/backendSecrets/0': missing property 'namespace'",
    "peerSecrets[0].namespace=models": "at '/peerSecrets/0': missing property 'pools'",
    "backendSecrets={models}": "at '/backendSecrets/0': got string, want object",
    "commonLabels.app\\.kubernetes\\.io/name=x": "invalid propertyName 'app.kubernetes.io/name'",
    "networkPolicy.egressPorts={70000}": "maximum: got 70,000, want 65,535",
    "metrics.prometheusRule.runbooks=wiki/larder": "'wiki/larder' does not match",
    "metrics.dashboards=true": "at '/metrics/dashboards': got boolean, want object",
    "metrics.serviceMonitor.interval=often": "'often' does not match",
}


@pytest.mark.parametrize("setting", WRONG)
def test_a_wrong_value_is_refused_with_a_reason(helm, setting):
    said = helm.template(settings=[setting], fails=True)
    assert WRONG[setting] in said, said


def leaves(schema, path=()):
    """The keys with a value of their own: a key with properties is a section."""
    for key, below in schema["properties"].items():
        if "properties" in below and key not in ("resources", "affinity", "issuerRef"):
            yield from leaves(below, path + (key,))
        else:
            yield path + (key,)


def test_values_and_schema_name_the_same_keys():
    def sections(values, schema, path=""):
        missing = set(schema["properties"]) - set(values)
        assert not missing and not set(values) - set(schema["properties"]), (path, missing)
        for key, below in schema["properties"].items():
            if (
                "properties" in below
                and isinstance(values.get(key), dict)
                and values[key]
                and key != "resources"
            ):
                sections(values[key], below, f"{path}.{key}")

    sections(VALUES, SCHEMA)


def test_every_section_of_the_schema_is_closed():
    def closed(node, path):
        if node.get("type") == "object":
            assert (
                "additionalProperties" in node
                or path in ("affinity", "podSecurityContext")
                or path.startswith("affinity")
            ), path
            for key, below in node.get("properties", {}).items():
                closed(below, f"{path}.{key}".strip("."))

    closed(SCHEMA, "")


def uncommented(text):
    """The keys of values.yaml with a value of their own (no section) and without a comment right
    above."""
    named = {".".join(path) for path in leaves(SCHEMA)}
    lines, path = text.splitlines(), []
    for above, line in zip([""] + lines, lines):
        key = re.match(r"( *)([A-Za-z]+):", line)
        if not key:
            continue
        path = path[: len(key[1]) // 2] + [key[2]]
        if ".".join(path) in named and not above.lstrip().startswith("#"):
            yield ".".join(path)


def test_every_value_is_explained():
    assert list(uncommented(TEXT)) == []
    assert list(uncommented(TEXT.replace("    # Interval of the scrapes.\n", ""))) == [
        "metrics.serviceMonitor.interval"
    ]


OTHER = {  # another value for each key: the rendered chart must then differ
    "global.imageRegistry": '"mirror.example"',
    "image.repository": '"registry.example/larder"',
    "image.tag": '"9"',
    "image.digest": '"sha256:' + "0" * 64 + '"',
    "image.pullPolicy": '"Always"',
    "imagePullSecrets": '[{"name": "registry"}]',
    "podImagePullSecrets": '[{"name": "registry"}]',
    "fullnameOverride": '"other"',
    "commonLabels": '{"a": "b"}',
    "replicas": "3",
    "resources": '{"limits": {"cpu": "1"}}',
    "podSecurityContext": '{"runAsUser": null}',
    "nodeSelector": '{"a": "b"}',
    "tolerations": '[{"operator": "Exists"}]',
    "affinity": '{"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}',
    "topologySpreadConstraints": '[{"maxSkew": 2}]',
    "priorityClassName": '"high"',
    "hostNetwork": "true",
    "dnsPolicy": '"Default"',
    "ports.webhook": "10260",
    "ports.metrics": "10261",
    "ports.health": "10262",
    "podLabels": '{"a": "b"}',
    "podAnnotations": '{"a": "b"}',
    "logLevel": '"debug"',
    "serviceAccount.create": "false",
    "serviceAccount.name": '"other"',
    "serviceAccount.annotations": '{"a": "b"}',
    "rbac.aggregate": "false",
    "backendSecrets": '[{"namespace": "models"}]',
    "peerSecrets": '[{"namespace": "models", "pools": ["chat"]}]',
    "crds.install": "false",
    "mooncake.image": '"mirror.example/larder-mooncake:1"',
    "infinistore.image": '"mirror.example/larder-infinistore:1"',
    "webhook.excludedNamespaces": '["a"]',
    "webhook.timeoutSeconds": "6",
    "webhook.certManager.enabled": "true",
    "webhook.certManager.issuerRef": '{"name": "a"}',
    "podGuard.enabled": "false",
    "podDisruptionBudget.enabled": "false",
    "networkPolicy.enabled": "false",
    "networkPolicy.metricsFrom": '[{"podSelector": {}}]',
    "networkPolicy.restrictEgress": "true",
    "networkPolicy.egressPorts": "[1]",
    "metrics.serviceMonitor.enabled": "true",
    "metrics.serviceMonitor.labels": '{"a": "b"}',
    "metrics.serviceMonitor.interval": '"9s"',
    "metrics.podMonitor.enabled": "true",
    "metrics.podMonitor.labels": '{"a": "b"}',
    "metrics.podMonitor.interval": '"9s"',
    "metrics.prometheusRule.enabled": "true",
    "metrics.prometheusRule.labels": '{"a": "b"}',
    "metrics.prometheusRule.runbooks": '"https://wiki.example/larder"',
    "metrics.dashboards.enabled": "true",
    "metrics.dashboards.labels": '{"a": "b"}',
    "metrics.dashboards.annotations": '{"a": "b"}',
}
NEEDS = {  # keys that count only beside another
    "serviceAccount.create": ["serviceAccount.name=mine"],
    "webhook.certManager.issuerRef": ["webhook.certManager.enabled=true"],
    "networkPolicy.egressPorts": ["networkPolicy.restrictEgress=true"],
    "metrics.serviceMonitor.labels": ["metrics.serviceMonitor.enabled=true"],
    "metrics.serviceMonitor.interval": ["metrics.serviceMonitor.enabled=true"],
    "metrics.podMonitor.labels": ["metrics.podMonitor.enabled=true"],
    "metrics.podMonitor.interval": ["metrics.podMonitor.enabled=true"],
    "metrics.prometheusRule.labels": ["metrics.prometheusRule.enabled=true"],
    "metrics.prometheusRule.runbooks": ["metrics.prometheusRule.enabled=true"],
    "metrics.dashboards.labels": ["metrics.dashboards.enabled=true"],
    "metrics.dashboards.annotations": ["metrics.dashboards.enabled=true"],
}


def test_the_table_of_other_values_is_whole():
    assert {".".join(path) for path in leaves(SCHEMA)} - {"enabled"} == set(OTHER)


@pytest.mark.parametrize("key", OTHER)
def test_every_value_changes_the_rendering(helm, key):
    needs = NEEDS.get(key, [])
    assert helm.template(settings=needs) != helm.template(
        settings=needs, json=[f"{key}={OTHER[key]}"]
    )


@pytest.mark.parametrize(
    "size",
    [
        "1e9",
        "1E9",
        "1.5Gi",
        "0.5Ti",
        ".5Gi",
        "1.Gi",
        "+1Gi",
        "8589934592",
        "8e9",
        "500M",
        "1P",
        "1Ei",
        "1500000000m",
    ],
)
def test_quantities_are_those_of_kubernetes(helm, size):
    for setting in (
        f"resources.limits.memory={json.dumps(size)}",
        *([f"resources.limits.memory={size}"] if size[-1].isdigit() else []),
    ):
        (container,) = programs.the(helm.template(json=[setting]), "Deployment")["spec"][
            "template"
        ]["spec"]["containers"]
        rendered = container["resources"]["limits"]["memory"]
        assert rendered == size or float(rendered) == float(size)
