"""The chart against a real API server: every object is accepted, and installing, upgrading,
removing and coming back lose no object."""

import json
import re

import programs
import pytest
import yaml
from cluster import POOL, eventually

GOLDEN = programs.ROOT / "tests" / "golden" / "chart"
# kinds without definitions in this API server
STRANGERS = ("cert-manager.io/", "monitoring.coreos.com/")


def rendered_files():
    return [programs.RENDERED] + sorted(GOLDEN.glob("*/rendered.yaml"))


@pytest.mark.parametrize("path", rendered_files(), ids=lambda path: path.parent.name)
def test_every_object_is_accepted(cluster, path):
    known = [
        one
        for one in programs.objects(path.read_text())
        if not one["apiVersion"].startswith(STRANGERS)
    ]
    for namespace in {one["metadata"].get("namespace", "default") for one in known}:
        cluster.namespace(namespace)
    said = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=known)
    assert said.count("(server dry run)") == len(known)


def webhook(cluster):
    return cluster.get("mutatingwebhookconfiguration", "larder")["webhooks"][0]


def test_upgrade_and_rollback_leave_the_authority_that_the_operator_wrote(cluster, certificate):
    with cluster.installed():
        assert "caBundle" not in webhook(cluster)["clientConfig"]
        patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": certificate}]
        cluster.kubectl(
            "patch",
            "mutatingwebhookconfiguration",
            "larder",
            "--type=json",
            "--field-manager=larder-operator",
            "-p",
            json.dumps(patch),
        )
        cluster.upgrade("--set", "webhook.timeoutSeconds=7")
        assert (
            webhook(cluster)["timeoutSeconds"] == 7
            and webhook(cluster)["clientConfig"]["caBundle"] == certificate
        )
        # as in docs/guides/upgrade-remove.md
        cluster.upgrade("--reset-then-reuse-values", "--set", "replicas=3")
        assert (
            webhook(cluster)["timeoutSeconds"] == 7
            and webhook(cluster)["clientConfig"]["caBundle"] == certificate
        )
        cluster.helm("rollback", "larder", "1", "-n", "larder-system")
        assert (
            webhook(cluster)["timeoutSeconds"] == 5
            and webhook(cluster)["clientConfig"]["caBundle"] == certificate
        )


def test_a_removed_release_leaves_the_pools_and_its_return_finds_them(cluster):
    with cluster.installed():
        cluster.kubectl("apply", "-f", "-", stdin=POOL)
        uid = cluster.get("cachepool", "pool")["metadata"]["uid"]
        said = cluster.uninstall()
        assert "cachepools.larder.dev" in said  # helm names the kept objects
        assert cluster.get("cachepool", "pool")["metadata"]["uid"] == uid
        for kind in (
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "clusterroles",
            "clusterrolebindings",
        ):
            assert not [
                one
                for one in cluster.get(kind)["items"]
                if one["metadata"]["name"].startswith("larder")
            ], kind
        assert not cluster.get(
            "all,roles,rolebindings,networkpolicies,pdb,serviceaccounts", "-n", "larder-system"
        )["items"]
        cluster.install()
        assert cluster.get("cachepool", "pool")["metadata"]["uid"] == uid
        cluster.upgrade("--set", "replicas=3")
        assert cluster.get("cachepool", "pool")["metadata"]["uid"] == uid


def test_another_release_takes_the_definitions_over_when_it_is_told_to(cluster):
    with cluster.installed():
        cluster.kubectl("apply", "-f", "-", stdin=POOL)
        uid = cluster.get("cachepool", "pool")["metadata"]["uid"]
        cluster.uninstall()
        said = cluster.install(release="second", namespace="second", fails=True)
        assert "cannot be imported into the current release" in said
        cluster.install("--take-ownership", release="second", namespace="second")
        assert cluster.get("cachepool", "pool")["metadata"]["uid"] == uid
        cluster.uninstall("second", "second")
        cluster.install("--set", "crds.install=false", release="third", namespace="second")
        assert cluster.get("cachepool", "pool")["metadata"]["uid"] == uid
        cluster.uninstall("third", "second")


@pytest.mark.parametrize("release", ["a" * 53, "1.larder"])
def test_any_release_name_installs(cluster, release):
    with cluster.installed(release=release, namespace="named"):
        assert cluster.get("deployments", "-n", "named")["items"]


def test_the_notes_hold_a_pool_that_the_api_server_takes(cluster):
    with cluster.installed() as said:
        (pool,) = re.findall(r"<<EOF\n(.*?)\nEOF\n", said, re.DOTALL)
        cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_load(pool))
        assert len([line for line in pool.splitlines() if line.strip()]) <= 10
        assert "image.repository=REGISTRY/larder" in said and "vm.nr_hugepages" in said
    with cluster.installed("--set", "image.repository=registry.example/larder") as said:
        assert "image.repository=" not in said


def test_the_operator_is_accepted_where_pods_are_restricted(cluster, rendered):
    cluster.namespace("restricted", {"pod-security.kubernetes.io/enforce": "restricted"})
    template = programs.the(rendered, "Deployment")["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": "operator"},
        "spec": template["spec"],
    }
    cluster.kubectl("apply", "--dry-run=server", "-n", "restricted", "-f", "-", stdin=pod)
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    assert "violates PodSecurity" in cluster.kubectl(
        "apply", "--dry-run=server", "-n", "restricted", "-f", "-", stdin=pod, fails=True
    )


def fails_open(cluster):
    """The API server counts the objects, as docs/guides/control-plane.md says."""
    return re.search(
        "fail_open_count.*pods.larder.dev.*[1-9]", cluster.kubectl("get", "--raw", "/metrics")
    )


def reviews(cluster, namespace, annotations):
    """Whether the API server asks the webhook for a pod: no process answers at the webhook's
    Service, which is an error with failurePolicy Fail."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    try:
        cluster.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=pod)
    except AssertionError as error:
        assert "pods.larder.dev" in str(error)
        return True
    return False


def test_the_webhook_is_asked_for_annotated_pods_outside_of_excluded_namespaces(cluster):
    cluster.namespace("models")
    with cluster.installed():
        # no process answers, and the pod starts nevertheless
        assert not reviews(cluster, "models", {"larder.dev/pool": "a"})
        eventually(
            lambda: not reviews(cluster, "models", {"larder.dev/pool": "a"}) and fails_open(cluster)
        )
        patch = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]
        cluster.kubectl(
            "patch",
            "mutatingwebhookconfiguration",
            "larder",
            "--type=json",
            "-p",
            json.dumps(patch),
        )
        eventually(lambda: reviews(cluster, "models", {"larder.dev/pool": "a"}))
        assert not reviews(cluster, "models", {})
        assert not reviews(cluster, "models", {"larder.dev/other": "a"})
        assert not reviews(cluster, "larder-system", {"larder.dev/pool": "a"})
        assert not reviews(cluster, "kube-system", {"larder.dev/pool": "a"})
