"""Pods with a cache and the operator's objects under the rules of programs that evict, scale, admit
and back up pods (pod_rules.py). The pages are docs/guides/autoscalers.md and
docs/guides/backups.md. A pod is compared with the same pod before the injection."""

import copy
import re

import pytest
import yaml
from golden_pods import injected
from pod_rules import (
    AUTOSCALER,
    EVICT,
    autoscaler_keeps,
    covering,
    descheduler_protections,
    drain_refuses,
    holding_volumes,
    hpa_lacks,
    kueue_refuses,
    native_sidecars,
    pod_requests,
    refused_eviction,
    requests,
    velero_reads,
    vpa_scales,
)

SCHEDULING = (
    "nodeSelector affinity tolerations topologySpreadConstraints schedulingGates "
    "priorityClassName schedulerName resourceClaims"
).split()


def of_a_controller(pod, kind="ReplicaSet"):
    """In a controller's form: the cases are single pods."""
    return pod | {
        "metadata": pod["metadata"] | {"ownerReferences": [{"kind": kind, "controller": True}]}
    }


@pytest.fixture(scope="module")
def pods(root):
    """(name, pod before, pod after)."""
    found = [
        (name, of_a_controller(before), of_a_controller(after))
        for name, before, after in injected(root)
    ]
    assert len(found) > 90
    return found


@pytest.fixture(scope="module")
def objects(root):
    """(file, object) of all that the operator and the chart make."""
    files = [
        *sorted((root / "tests/unit/operator/desired/golden").glob("*.out.yaml")),
        root / "manifests/rendered/larder.yaml",
    ]
    return [
        (file.name, one)
        for file in files
        for one in yaml.safe_load_all(file.read_text())
        if isinstance(one, dict) and "kind" in one
    ]


@pytest.fixture(scope="module")
def guide(root):
    return (root / "docs/guides/autoscalers.md").read_text()


def workloads(objects, kind):
    """(file, pod of the workload, replicas of the workload)."""
    of_kind = [(file, one) for file, one in objects if one["kind"] == kind]
    owner = {"Deployment": "ReplicaSet"}.get(kind, kind)
    assert of_kind
    return [
        (
            file,
            of_a_controller({"metadata": {}} | one["spec"]["template"], owner),
            one["spec"].get("replicas", 1),
        )
        for file, one in of_kind
    ]


def budgets(objects, file=None):
    return [
        one for of, one in objects if one["kind"] == "PodDisruptionBudget" and file in (None, of)
    ]


def usual(pods):
    (pod,) = [copy.deepcopy(after) for name, _, after in pods if name == "usual"]
    return pod


def larderd(pod):
    """Of placement Sidecar; None of placement Node."""
    return next(
        (
            one
            for one in native_sidecars(pod) + pod["spec"]["containers"]
            if one["name"] == "larder"
        ),
        None,
    )


def ours(pod):
    """The containers of Larder that run beside the engine, by name."""
    return {
        one["name"]: one
        for one in native_sidecars(pod) + pod["spec"]["containers"]
        if one["name"] in ("larder", "larder-mooncake", "larder-infinistore")
    }


@pytest.mark.parametrize("memory_is_local", [False, True])
def test_the_autoscaler_moves_what_it_moved_before(pods, memory_is_local):
    movable = 0
    for name, before, after in pods:
        reason = autoscaler_keeps(before, memory_is_local=memory_is_local)
        assert autoscaler_keeps(after, memory_is_local=memory_is_local) == reason, name
        assert holding_volumes(after, memory_is_local) == holding_volumes(
            before, memory_is_local
        ), name
        movable += reason is None
    assert movable > 60
    wrong = usual(pods)
    del wrong["metadata"]["annotations"][AUTOSCALER + "safe-to-evict-local-volumes"]
    assert autoscaler_keeps(wrong, memory_is_local=memory_is_local) == "local storage"
    assert holding_volumes(wrong, memory_is_local) == (
        ["larder-run", "larder-memory"] if memory_is_local else []
    ) + ["larder-payload"]


def test_the_autoscaler_rule_knows_the_other_reasons(pods):
    pod = usual(pods)
    assert autoscaler_keeps(pod | {"metadata": {}}) == "no controller"
    pod["metadata"]["annotations"][AUTOSCALER + "safe-to-evict"] = "false"
    assert autoscaler_keeps(pod) == "safe-to-evict is false"
    assert (
        autoscaler_keeps(pod | {"metadata": pod["metadata"] | {"namespace": "kube-system"}})
        == "a pod of kube-system without a budget"
    )
    assert autoscaler_keeps(of_a_controller(pod, "DaemonSet")) is None


def test_another_node_takes_the_pod_as_before(pods):
    """No constraint and no port of the node: FAQ.md of the cluster-autoscaler, "cannot be moved
    elsewhere due to scheduling constraints"."""

    def constraints(pod):
        spec = pod["spec"]
        containers = spec["containers"] + native_sidecars(pod)
        ports = [
            port
            for one in containers
            for port in one.get("ports") or []
            if spec.get("hostNetwork") or "hostPort" in port
        ]
        return {name: spec.get(name) for name in SCHEDULING} | {"ports": ports}

    for name, before, after in pods:
        assert constraints(after) == constraints(before), name
    wrong = usual(pods)
    wrong["spec"]["hostNetwork"] = True
    assert constraints(wrong)["ports"]


def test_a_drain_as_the_guide_writes_it_passes(pods, objects, guide):
    (command,) = re.findall(r"`kubectl drain NODE (.*?)`", guide)
    flags = command.split()
    for name, before, after in pods:
        assert drain_refuses(after, flags) == drain_refuses(before, flags) is None, name
        assert drain_refuses(after, ["--ignore-daemonsets"]) == "local storage", name
    for kind in ("DaemonSet", "StatefulSet", "Deployment"):
        for file, pod, replicas in workloads(objects, kind):
            assert drain_refuses(pod, flags, budgets(objects, file), replicas) is None, file
            assert drain_refuses(pod, flags[:1]) == (
                "local storage" if kind == "StatefulSet" else None
            ), file
    assert (
        drain_refuses(of_a_controller(usual(pods), "DaemonSet"), ["--delete-emptydir-data"])
        == "managed by a DaemonSet"
    )
    assert drain_refuses(usual(pods) | {"metadata": {}}, flags) == "no controller"


def test_larders_budgets_let_a_pod_go_and_cover_no_engine(pods, objects):
    for kind in ("StatefulSet", "Deployment"):
        for file, pod, replicas in workloads(objects, kind):
            (budget,) = covering(pod, budgets(objects, file))
            assert refused_eviction(pod, [budget], replicas) is None, file
            assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow", file
            blocking = {"spec": {"selector": budget["spec"]["selector"], "minAvailable": "50%"}}
            assert refused_eviction(pod, [blocking], 1) == "the disruption budget has no room"
            assert (
                refused_eviction(pod, [budget, blocking], replicas)
                == "more than one PodDisruptionBudget"
            )
    for name, _, after in pods:
        assert not covering(after, budgets(objects)), name


def test_the_autoscaler_and_the_operators_own_pods(objects):
    for kind in ("DaemonSet", "Deployment", "StatefulSet"):
        for file, pod, replicas in workloads(objects, kind):
            assert autoscaler_keeps(pod, budgets(objects, file), replicas) is None, file


def test_the_descheduler_evicts_only_without_the_protection_that_the_guide_names(pods, guide):
    (named,) = re.findall(r"podProtections: \{defaultDisabled: \[(.*?)\]\}", guide)
    for name, before, after in pods:
        was, now = descheduler_protections(before), descheduler_protections(after)
        assert now - was <= {named}, name
        assert named in now, name
    for change in (
        {"priorityClassName": "system-node-critical"},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {}}]},
    ):
        wrong = usual(pods)
        wrong["spec"] |= change
        assert descheduler_protections(wrong) - descheduler_protections(usual(pods)), change
    wrong["metadata"]["annotations"][EVICT] = "true"
    assert EVICT in guide and not descheduler_protections(wrong)


def test_an_hpa_finds_every_request_that_it_found_before(pods):
    def with_requests(pod, of):
        """The pod where the containers of the pod `of`, the user's, have requests."""
        pod = copy.deepcopy(pod)
        for one in pod["spec"]["containers"] + native_sidecars(pod):
            if one["name"] in {
                user["name"] for user in of["spec"]["containers"] + native_sidecars(of)
            }:
                one["resources"] = {"limits": {"cpu": "8", "memory": "64Gi"}}
        return pod

    for name, before, after in pods:
        for resource in ("cpu", "memory"):
            assert hpa_lacks(after, resource) == hpa_lacks(before, resource), name
            assert hpa_lacks(with_requests(after, before), resource) is None, name
            for container in before["spec"]["containers"]:
                assert hpa_lacks(after, resource, container["name"]) == hpa_lacks(
                    before, resource, container["name"]
                ), name
    (before,) = [before for name, before, _ in pods if name == "usual"]
    wrong = with_requests(usual(pods), before)
    del larderd(wrong)["resources"]["requests"]["cpu"]
    assert hpa_lacks(wrong, "cpu") == "missing request for cpu in larder"
    assert hpa_lacks(wrong, "cpu", "engine") == "container engine not found"


def test_a_vpa_with_the_policy_of_the_guide_leaves_larderd_alone(pods, objects, guide):
    (text,) = re.findall(r"```yaml\n(containerPolicies:.*?)```", guide, re.DOTALL)
    policies = yaml.safe_load(text)["containerPolicies"]
    for name, before, after in pods:
        for gate in (False, True):
            assert vpa_scales(after, policies, gate) == vpa_scales(before, (), gate), name
        assert ("larder" in vpa_scales(after)) == (larderd(after) in after["spec"]["containers"]), (
            name
        )
        assert ("larder" in vpa_scales(after, (), True)) == (larderd(after) is not None), name
    for file, pod, _ in workloads(objects, "DaemonSet"):
        assert vpa_scales(pod) == set(ours(pod)) and not vpa_scales(pod, policies), file


def test_kueue_counts_larderds_requests_and_no_more(pods, guide):
    names = set()
    for name, before, after in pods:
        was, now = pod_requests(before), pod_requests(after)
        parts = [requests(one) for one in ours(after).values()]
        extra = {resource: now[resource] - was.get(resource, 0) for resource in now}
        if parts:
            expected = {one: sum(part.get(one, 0) for part in parts) for one in now}
            assert extra == expected, name
        names |= {resource for resource in now if extra[resource]}
        assert kueue_refuses(after, {one: was.get(one, 0) + extra[one] for one in now}) is None, (
            name
        )
    assert names == {"cpu", "memory", "ephemeral-storage", "hugepages-2Mi"}
    assert all(f"`{one}`" in guide for one in names | {"hugepages-1Gi"})
    quota = pod_requests(usual(pods))
    assert (
        kueue_refuses(usual(pods), quota | {"memory": 4 * 2**30}) == "insufficient quota for memory"
    )  # memory.size alone is too little
    del quota["cpu"]
    assert kueue_refuses(usual(pods), quota) == "resource cpu unavailable in ClusterQueue"


def test_velero_reads_the_volumes_that_it_read_before(pods, objects):
    claims = 0
    for name, before, after in pods:
        for all_volumes in (False, True):
            assert velero_reads(after, all_volumes) == velero_reads(before, all_volumes), name
        for one in after["spec"]["volumes"]:
            if one["name"].startswith("larder-") and "ephemeral" in one:
                claims += 1
                assert (
                    one["ephemeral"]["volumeClaimTemplate"]["metadata"]["labels"][
                        "velero.io/exclude-from-backup"
                    ]
                    == "true"
                ), name
    assert claims > 2
    wrong = usual(pods)
    del wrong["metadata"]["annotations"]["backup.velero.io/backup-volumes-excludes"]
    assert velero_reads(wrong, True) == {"larder-run", "larder-memory", "larder-payload"}
    # the selector of docs/guides/backups.md leaves these pods out
    for kind in ("DaemonSet", "StatefulSet"):
        for file, pod, _ in workloads(objects, kind):
            assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "larder-operator", (
                file
            )
