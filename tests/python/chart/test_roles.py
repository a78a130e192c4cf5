"""The operator's rights in the chart: this list, word for word, and no right that a reviewer of
roles would question."""

import re

import programs
import pytest

# Behind each right stands the place in the operator's sources that needs the right.
CLUSTER = {
    # informers of webhook and reconcilers; the finalizer larder.dev/free-memory
    ("larder.dev", "cachepools"): "get list watch patch",
    ("larder.dev", "cachebackends"): "get list watch",
    ("larder.dev", "cachepools/status"): "patch",  # applied
    ("larder.dev", "cachebackends/status"): "patch",
    # the attached engines; the annotation larder.dev/config of running pods
    ("", "pods"): "list watch patch",
    # the webhook: the label larder.dev/pool, ids of OpenShift
    ("", "namespaces"): "get list watch",
    ("", "limitranges"): "list watch",  # the webhook: would the namespace take the pod
    ("", "resourcequotas"): "list watch",
    ("node.k8s.io", "runtimeclasses"): "get",  # the webhook: the class of a pool with transfer
    # the webhook: the class of a pool with disk.volume: ephemeral, or the default class
    ("storage.k8s.io", "storageclasses"): "get list",
    ("", "nodes"): "list",  # huge pages
    ("apps", "daemonsets"): "get list watch create patch delete",  # placement Node: applied, pruned
    # managed backends: applied, pruned
    ("apps", "statefulsets"): "get list watch create patch delete",
    ("", "configmaps"): "get list watch create patch delete",
    ("", "services"): "get list watch create patch delete",
    ("policy", "poddisruptionbudgets"): "get list watch create patch delete",
    ("networking.k8s.io", "networkpolicies"): "get list watch create patch delete",
    ("events.k8s.io", "events"): "create patch",
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "larder",
    ): "get list watch update",  # caBundle
}
OWN = {  # in the release's namespace
    ("coordination.k8s.io", "leases", "larder-operator"): "get update",
    ("coordination.k8s.io", "leases"): "create",
    ("", "secrets", "larder-webhook-tls"): "get list watch create patch",
}


def granted(rules):
    """{(group, resource[, name]): verbs} of a role's rules."""
    found = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [None]):
                    key = (group, resource) + ((name,) if name else ())
                    assert key not in found, f"{key} stands in two rules"
                    found[key] = " ".join(rule["verbs"])
    return found


def role(text, kind, name):
    (one,) = [one for one in programs.of_kind(text, kind) if one["metadata"]["name"] == name]
    return one


def test_the_cluster_role_has_exactly_these_rights(rendered):
    assert granted(role(rendered, "ClusterRole", "larder-operator")["rules"]) == CLUSTER
    (binding,) = programs.of_kind(rendered, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "larder-operator"


def test_the_role_of_its_namespace_has_exactly_these_rights(rendered):
    found = {}
    for one in programs.of_kind(rendered, "Role"):
        assert one["metadata"]["namespace"] == "larder-system"
        found |= granted(one["rules"])
    assert found == OWN


def test_cert_manager_takes_the_rights_to_certificates_away(helm):
    text = helm.template(settings=["webhook.certManager.enabled=true"])
    everything = [
        rule
        for kind in ("Role", "ClusterRole")
        for one in programs.of_kind(text, kind)
        for rule in one["rules"]
    ]
    assert not [
        rule
        for rule in everything
        if {"secrets", "mutatingwebhookconfigurations"} & set(rule["resources"])
    ]


@pytest.mark.parametrize(
    "golden", ["defaults", "everything", "cert-manager", "long-name", "nothing-optional"]
)
def test_no_wildcard_and_no_foreign_secret(helm, golden):
    values = programs.ROOT / "tests" / "golden" / "chart" / golden / "values.yaml"
    text = helm.template(values=None if golden == "defaults" else values)
    for kind in ("ClusterRole", "Role"):
        for one in programs.of_kind(text, kind):
            for rule in one["rules"]:
                assert "nonResourceURLs" not in rule
                assert "*" not in str(rule), (one["metadata"]["name"], rule)
                assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
                if "secrets" in rule["resources"]:
                    assert kind == "Role" and not {"delete", "deletecollection"} & set(
                        rule["verbs"]
                    )
                    # Of one name alone: the API server then wants that name in the request.
                    own = [
                        name.endswith("-webhook-tls") for name in rule.get("resourceNames", [""])
                    ]
                    assert own == [True] or not {"list", "watch"} & set(rule["verbs"])


def test_backend_secrets_are_read_where_the_values_say_and_by_name(helm):
    text = helm.template(
        json=[
            'backendSecrets=[{"namespace": "models", "names": ["a", "b"]}, {"namespace": '
            '"research"}]'
        ]
    )
    roles = {
        one["metadata"]["namespace"]: granted(one["rules"])
        for one in programs.of_kind(text, "Role")
        if "backend" in one["metadata"]["name"]
    }
    assert roles == {
        "models": {("", "secrets", "a"): "get", ("", "secrets", "b"): "get"},
        "research": {("", "secrets"): "get"},
    }
    bindings = [
        one for one in programs.of_kind(text, "RoleBinding") if "backend" in one["metadata"]["name"]
    ]
    assert {one["metadata"]["namespace"] for one in bindings} == {"models", "research"}
    for one in bindings:
        (subject,) = one["subjects"]
        assert subject["name"] == "larder-operator" and subject["namespace"] == "larder-system"


def test_certificates_of_peers_are_written_under_their_names_alone(helm):
    text = helm.template(json=['peerSecrets=[{"namespace": "models", "pools": ["chat", "code"]}]'])
    (one,) = [one for one in programs.of_kind(text, "Role") if "peer" in one["metadata"]["name"]]
    assert one["metadata"]["namespace"] == "models"
    assert granted(one["rules"]) == {
        ("", "secrets", "larder-chat-peers"): "get create patch",
        ("", "secrets", "larder-code-peers"): "get create patch",
    }
    (binding,) = [
        one for one in programs.of_kind(text, "RoleBinding") if "peer" in one["metadata"]["name"]
    ]
    assert binding["metadata"]["namespace"] == "models"
    assert [one["name"] for one in binding["subjects"]] == ["larder-operator"]


def test_each_role_is_bound_to_the_operator_alone(rendered):
    bindings = programs.of_kind(rendered, "RoleBinding")
    assert {one["roleRef"]["name"] for one in bindings} == {
        one["metadata"]["name"] for one in programs.of_kind(rendered, "Role")
    }
    for one in bindings:
        assert one["subjects"] == [
            {"kind": "ServiceAccount", "name": "larder-operator", "namespace": "larder-system"}
        ]


CALLS = {  # of k8s::ApiClient -> verbs of roles
    "get": {"get"},
    "list": {"list"},
    "watch": {"watch"},
    "create": {"create"},
    "replace": {"update"},
    "apply": {"create", "patch"},
    "merge": {"patch"},
    "remove": {"delete"},
}


def calls(operator):
    """{(group, plural): verbs} of calls in the operator's sources with a named kind:
    `client.get(resources::kPods, ...)`."""
    header = (operator / "k8s" / "api_client.h").read_text()
    kinds = {
        name: (group, plural)
        for name, group, plural in re.findall(
            r'Resource (k\w+)\{"([^"]*)", "[^"]*", "([^"]*)"', header
        )
    }
    found = {}
    for path in operator.rglob("*.cc"):
        for verb, name in re.findall(
            rf"[.>]({'|'.join(CALLS)})\(\s*(?:k8s::)?(?:resources::)?(k[A-Z]\w+),", path.read_text()
        ):
            if name in kinds:
                found.setdefault(kinds[name], set()).update(CALLS[verb])
    return found


def test_every_call_in_the_operators_sources_is_granted():
    allowed = {}
    # the last: backendSecrets
    for key, verbs in list(CLUSTER.items()) + list(OWN.items()) + [(("", "secrets"), "get")]:
        allowed.setdefault(key[:2], set()).update(verbs.split())
    for kind, verbs in calls(programs.ROOT / "operator").items():
        assert verbs <= allowed.get(kind, set()), (
            f"{kind}: {verbs - allowed.get(kind, set())} is called and not granted"
        )


def test_the_search_for_calls_finds_them(tmp_path):
    (tmp_path / "k8s").mkdir()
    (tmp_path / "k8s" / "api_client.h").write_text(
        'inline const Resource kPods{"", "v1", "pods", "Pod"};'
    )
    (tmp_path / "a.cc").write_text(
        "client_->remove(\n    k8s::resources::kPods, ns); client.merge(resources::kPods, ns);"
    )
    assert calls(tmp_path) == {("", "pods"): {"delete", "patch"}}
