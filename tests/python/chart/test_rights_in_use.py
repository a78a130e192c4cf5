"""The real operator with the chart's rights: the API server refuses no request, and the operator
uses all of its rights."""

import json
import time

import operator_process
import programs
import pytest
import yaml
from cluster import eventually
from engine_pod import engine_pod, made_anew
from test_roles import CLUSTER, OWN

NAMESPACE = "used"
SELDOM = {  # not seen in this test, and why the operator needs the rights
    ("events.k8s.io", "events", "patch"): "the same event again: its count",
    (
        "larder.dev",
        "cachebackends",
        "get",
    ): "the webhook, for a pool with a backend that is new to the webhook",
    ("", "namespaces", "get"): "the webhook, for a namespace that is new to the webhook",
    ("coordination.k8s.io", "leases", "create"): "seen only where this cluster has no lease yet",
    # An API server that streams lists is asked for watches alone.
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "list",
    ): "where lists are not streamed",
    ("", "secrets", "list"): "where lists are not streamed",
}
OBJECTS = """
apiVersion: larder.dev/v1alpha1
kind: CachePool
metadata: {name: chat}
spec: {memory: {size: 1Gi, hugepages: 2Mi}, backendRef: {name: existing}}
---
apiVersion: larder.dev/v1alpha1
kind: CachePool
metadata: {name: by-node}
spec: {placement: Node, memory: {size: 1Gi}}
---
apiVersion: larder.dev/v1alpha1
kind: CacheBackend
metadata: {name: existing}
spec: {endpoints: ["127.0.0.1:1"], password: {name: password}}
---
apiVersion: larder.dev/v1alpha1
kind: CacheBackend
metadata: {name: managed}
spec: {managed: {memory: 1Gi}}
"""


@pytest.fixture(scope="module")
def asked(cluster, tmp_path_factory):
    """(all requests, the number of those by operators of other tests before)."""
    if not operator_process.program().exists():
        pytest.skip(f"no {operator_process.program()} (make build)")
    if operator_process.own_address() is None:
        pytest.skip(
            "this machine has no address but loopback: the API server could not reach the webhook"
        )
    earlier = len(requests(cluster))
    cluster.namespace(NAMESPACE)
    values = json.dumps([{"namespace": NAMESPACE, "names": ["password"]}])
    with cluster.installed("--set-json", f"backendSecrets={values}"):
        with operator_process.running(cluster, tmp_path_factory.mktemp("operator")) as process:
            exercise(cluster)
            wait_for_use(cluster, process)
        yield requests(cluster), earlier


@pytest.fixture(scope="module")
def used(asked):
    return asked[0]


@pytest.fixture(scope="module")
def own(asked):
    return asked[0][asked[1] :]


def apply(cluster, *objects):
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=list(objects))


def exercise(cluster):
    """Each event that makes the operator use a right."""
    cluster.kubectl(
        "create", "secret", "generic", "password", "-n", NAMESPACE, "--from-literal=password=x"
    )
    apply(cluster, *yaml.safe_load_all(OBJECTS))
    eventually(
        lambda: (
            "caBundle"
            in cluster.get("mutatingwebhookconfiguration", "larder")["webhooks"][0]["clientConfig"]
        )
    )
    eventually(lambda: made_anew(cluster, NAMESPACE, "engine"), 60)
    # No node has huge pages for the pod, says a scheduler: the operator looks at the nodes.
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes: Insufficient hugepages-2Mi",
    }
    status(cluster, {"phase": "Pending", "conditions": [unscheduled]})
    # Settings that a running larderd takes over: the operator changes the pod's annotation.
    cluster.kubectl(
        "patch",
        "cachepool",
        "chat",
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        '{"spec": {"backendWrite": {"policy": "popular"}}}',
    )
    # A pod of a pool that is not there: an Event says so.
    apply(cluster, engine_pod("other", **{"larder.dev/pool": "absent"}))
    leave_strays(cluster)


def status(cluster, change):
    cluster.kubectl(
        "patch",
        "pod",
        "engine",
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": change}),
    )


def leave_strays(cluster):
    """Copies of the operator's objects, under unwanted names: the operator removes the copies."""
    for kind in (
        "daemonset",
        "statefulset",
        "configmap",
        "service",
        "poddisruptionbudget",
        "networkpolicy",
    ):
        eventually(lambda kind=kind: made(cluster, kind), 60)
        (one, *_) = made(cluster, kind)
        kept = {key: one["metadata"][key] for key in ("labels", "ownerReferences")}
        stray = {**one, "metadata": {**kept, "name": "stray", "namespace": NAMESPACE}}
        stray.pop("status", None)
        for address in ("clusterIP", "clusterIPs"):
            stray.get("spec", {}).pop(address, None)
        cluster.kubectl("create", "-f", "-", stdin=stray)


def made(cluster, kind):
    return cluster.get(kind, "-n", NAMESPACE, "-l", "app.kubernetes.io/managed-by=larder-operator")[
        "items"
    ]


def requests(cluster):
    """[(group, resource, verb, namespace, code)] of all that the operator asked for."""
    found = []
    for line in cluster.audit.read_text().splitlines():
        event = json.loads(line)
        where = event.get("objectRef")
        if event["stage"] not in ("ResponseComplete", "ResponseStarted") or not where:
            continue
        resource = "/".join(filter(None, (where["resource"], where.get("subresource"))))
        code = event["responseStatus"].get("code", 0)
        # Applying a missing object needs the right to create the object, and is one request: a
        # patch.
        for verb in [event["verb"]] + (
            ["create"] if event["verb"] == "patch" and code == 201 else []
        ):
            found.append(
                (where.get("apiGroup", ""), resource, verb, where.get("namespace", ""), code)
            )
    return found


def expected():
    granted = {
        (key[0], key[1], verb)
        for table in (CLUSTER, OWN)
        for key, verbs in table.items()
        for verb in verbs.split()
    }
    return granted | {("", "secrets", "get")}


def wait_for_use(cluster, process):
    """Until every right but the seldom ones has been used, two minutes at most; the test then names
    the unused rights."""
    deadline = time.monotonic() + 120
    while (
        expected() - set(SELDOM) - {one[:3] for one in requests(cluster)}
        and time.monotonic() < deadline
    ):
        assert process.child.poll() is None, process.tail()
        time.sleep(1)


def test_nothing_is_refused(own):
    assert own
    assert sorted({one for one in own if one[4] == 403}) == []


def test_every_right_is_used(used):
    assert sorted(expected() - set(SELDOM) - {one[:3] for one in used}) == []


def test_secrets_are_read_where_the_chart_says(own):
    assert {one[3] for one in own if one[1] == "secrets"} <= {"larder-system", NAMESPACE}
