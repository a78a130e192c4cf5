"""The rights of the operator's account, asked of the API server itself."""

import json
import subprocess

import pytest
from cluster import OPERATOR, eventually
from test_roles import CLUSTER, OWN


@pytest.fixture(scope="module")
def installed(cluster):
    cluster.namespace("models")
    with cluster.installed(
        "--set-json", 'backendSecrets=[{"namespace": "models", "names": ["cache-password"]}]'
    ):
        yield cluster


def rules(cluster, account, namespace):
    """{(group, resource, name): {verbs}} of an account in a namespace, as the authorizer sees the
    rights."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    asked = [
        "create",
        "--raw",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "--as",
        account,
        "-f",
        "-",
    ]
    found = {}
    for rule in json.loads(cluster.kubectl(*asked, stdin=json.dumps(review)))["status"][
        "resourceRules"
    ]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames") or [""]:
                    found.setdefault((group, resource, name), set()).update(rule["verbs"])
    return found


def granted(cluster, namespace):
    """The operator's rights beyond the rights of every account."""
    anybody = rules(cluster, "system:serviceaccount:larder-system:anybody", namespace)
    operator = rules(cluster, OPERATOR, namespace)
    return {
        key: verbs - anybody.get(key, set())
        for key, verbs in operator.items()
        if verbs - anybody.get(key, set())
    }


def expected(*tables):
    found = {}
    for table in tables:
        for key, verbs in table.items():
            found.setdefault(key if len(key) == 3 else key + ("",), set()).update(verbs.split())
    return found


def test_the_operator_is_granted_exactly_the_listed_rights(installed):
    eventually(lambda: granted(installed, "default") == expected(CLUSTER))
    assert granted(installed, "larder-system") == expected(CLUSTER, OWN)
    assert granted(installed, "models") == expected(
        CLUSTER, {("", "secrets", "cache-password"): "get"}
    )


REFUSED = [
    ("list", "secrets", "-A"),
    ("list", "secrets", "-n", "larder-system"),
    ("get", "secrets/other", "-n", "larder-system"),
    ("get", "secrets/other", "-n", "models"),
    ("list", "secrets", "-n", "models"),
    ("create", "secrets", "-n", "models"),
    ("create", "secrets", "-n", "larder-system"),
    ("create", "pods", "-n", "models"),
    ("delete", "pods", "-n", "models"),
    ("create", "pods/exec", "-n", "models"),
    ("update", "cachepools", "-n", "models"),
    ("patch", "cachebackends", "-n", "models"),
    ("delete", "cachepools", "-n", "models"),
    ("update", "mutatingwebhookconfigurations/other"),
    ("delete", "mutatingwebhookconfigurations/larder"),
    ("patch", "nodes"),
    ("create", "deployments", "-n", "models"),
    ("create", "rolebindings", "-n", "models"),
    ("create", "clusterrolebindings"),
    ("create", "serviceaccounts/token", "-n", "larder-system"),
    ("update", "leases/other", "-n", "larder-system"),
    ("update", "leases/larder-operator", "-n", "models"),
    ("*", "*"),
]


@pytest.mark.parametrize("what", REFUSED, ids=" ".join)
def test_the_operator_lacks_other_rights(installed, what):
    done = subprocess.run(
        [installed.program, "auth", "can-i", *what, "--as", OPERATOR],
        env=installed.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "no" and done.returncode == 1, done.stderr


def test_the_question_can_be_answered_with_yes(installed):
    assert (
        installed.kubectl(
            "auth", "can-i", "get", "secrets/cache-password", "-n", "models", "--as", OPERATOR
        ).strip()
        == "yes"
    )


def pod(cluster):
    spec = {"containers": [{"name": "c", "image": "before"}]}
    one = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "guarded", "namespace": "models", "labels": {"a": "b"}},
        "spec": spec,
    }
    one["metadata"]["annotations"] = {
        "larder.dev/config": "before",
        "larder.dev/old": "x",
        "strange": "x",
    }
    cluster.kubectl("delete", "pod", "guarded", "-n", "models", "--ignore-not-found", "--now")
    cluster.kubectl("create", "-f", "-", stdin=one)


def patch(cluster, change):
    return cluster.merge("/api/v1/namespaces/models/pods/guarded", change, OPERATOR)


GUARDED = {
    "image": (
        {"spec": {"containers": [{"name": "c", "image": "after"}]}},
        "may not change the spec of a pod",
    ),
    "label": ({"metadata": {"labels": {"a": "c"}}}, "may not change labels"),
    "labels gone": ({"metadata": {"labels": None}}, "may not change labels"),
    "finalizer": (
        {"metadata": {"finalizers": ["example.com/a"]}},
        "may not change labels, finalizers",
    ),
    "strange annotation changed": (
        {"metadata": {"annotations": {"strange": "y"}}},
        "no annotations of a pod but larder.dev/*",
    ),
    "strange annotation gone": (
        {"metadata": {"annotations": {"strange": None}}},
        "no annotations of a pod but larder.dev/*",
    ),
    "strange annotation new": (
        {"metadata": {"annotations": {"new": "y"}}},
        "no annotations of a pod but larder.dev/*",
    ),
}


def test_the_operator_changes_only_its_own_annotations_of_a_pod(installed):
    pod(installed)
    change, _ = GUARDED["strange annotation new"]

    def refused():
        """The policy counts once the API server has seen the policy; until then the change is made,
        and taken back."""
        if "no annotations of a pod" in patch(installed, change):
            return True
        pod(installed)
        return False

    eventually(refused)
    assert (
        patch(
            installed,
            {
                "metadata": {
                    "annotations": {
                        "larder.dev/config": "after",
                        "larder.dev/old": None,
                        "larder.dev/new": "y",
                    }
                }
            },
        )
        == ""
    )
    for wrong, message in GUARDED.values():
        assert message in patch(installed, wrong)
    found = installed.get("pod", "guarded", "-n", "models")["metadata"]["annotations"]
    assert found == {"larder.dev/config": "after", "larder.dev/new": "y", "strange": "x"}
    # Others are not concerned.
    installed.kubectl("annotate", "pod", "guarded", "-n", "models", "strange=z", "--overwrite")
