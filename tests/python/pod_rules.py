"""Rules by which other programs move, scale, admit and back up pods, each read in its program's
source in November 2026.

A rule returns the reason why the program leaves the pod in place, or None if the program goes
on."""

import math
import re
from fractions import Fraction

SUFFIXES = {
    "": 1,
    "m": Fraction(1, 1000),
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
}
AUTOSCALER = "cluster-autoscaler.kubernetes.io/"
EVICT = "descheduler.alpha.kubernetes.io/evict"


def amount(quantity):
    number, suffix = re.fullmatch(r"([\d.]+)(\w*)", str(quantity)).groups()
    return Fraction(number) * SUFFIXES[suffix]


def annotation(pod, name):
    return (pod["metadata"].get("annotations") or {}).get(name, "")


def volumes(pod):
    return pod["spec"].get("volumes") or []


def owner(pod):
    return next(
        (
            one["kind"]
            for one in pod["metadata"].get("ownerReferences") or []
            if one.get("controller")
        ),
        None,
    )


def covering(pod, budgets):
    labels = pod["metadata"].get("labels") or {}
    return [
        one for one in budgets if one["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ]


def refused_eviction(pod, budgets, replicas):
    """pkg/registry/core/pod/storage/eviction.go, getExpectedPodCount of
    pkg/controller/disruption/disruption.go in kubernetes/kubernetes: all pods of the owner are
    ready."""
    found = covering(pod, budgets)
    if len(found) > 1:
        return "more than one PodDisruptionBudget"
    for budget in found:
        most, least = budget["spec"].get("maxUnavailable"), budget["spec"].get("minAvailable", 0)
        most, least = (
            math.ceil(replicas * float(one[:-1]) / 100) if str(one).endswith("%") else one
            for one in (most, least)
        )
        if (replicas - least if most is None else most) < 1:
            return "the disruption budget has no room"
    return None


def holding_volumes(pod, memory_is_local=False):
    """Releases of the cluster-autoscaler before 1.27 count an emptyDir in memory as local
    (`memory_is_local`)."""
    listed = annotation(pod, AUTOSCALER + "safe-to-evict-local-volumes").split(",")

    def is_local(one):
        return (
            "hostPath" in one
            or "emptyDir" in one
            and (memory_is_local or (one["emptyDir"] or {}).get("medium") != "Memory")
        )

    return [one["name"] for one in volumes(pod) if is_local(one) and one["name"] not in listed]


def autoscaler_keeps(pod, budgets=(), replicas=1, memory_is_local=False):
    """cluster-autoscaler: simulator/drainability/rules/rules.go and utils/drain/drain.go in
    kubernetes/autoscaler; FAQ.md, "What types of pods can prevent CA from removing a node?"."""
    if (
        annotation(pod, "kubernetes.io/config.mirror")
        or owner(pod) == "DaemonSet"
        or annotation(pod, AUTOSCALER + "safe-to-evict") == "true"
    ):
        return None
    if owner(pod) is None:
        return "no controller"
    if pod["metadata"].get("namespace") == "kube-system" and not covering(pod, budgets):
        return "a pod of kube-system without a budget"
    if annotation(pod, AUTOSCALER + "safe-to-evict") == "false":
        return "safe-to-evict is false"
    if holding_volumes(pod, memory_is_local):
        return "local storage"
    return refused_eviction(pod, budgets, replicas)


def drain_refuses(pod, flags, budgets=(), replicas=1):
    """kubectl drain: pkg/drain/filters.go in kubernetes/kubectl. An emptyDir of any medium is local
    storage, a hostPath is not."""
    if owner(pod) == "DaemonSet":
        return None if "--ignore-daemonsets" in flags else "managed by a DaemonSet"
    if any("emptyDir" in one for one in volumes(pod)) and "--delete-emptydir-data" not in flags:
        return "local storage"
    if owner(pod) is None and "--force" not in flags:
        return "no controller"
    return refused_eviction(pod, budgets, replicas)


def descheduler_protections(pod):
    """descheduler: the protections of pkg/framework/plugins/defaultevictor/defaultevictor.go in
    kubernetes-sigs/descheduler that hold the pod: the four default ones, and the extra ones for
    claims."""
    if EVICT in (pod["metadata"].get("annotations") or {}):
        return set()
    held = {
        "FailedBarePods": owner(pod) is None,
        "DaemonSetPods": owner(pod) == "DaemonSet",
        "SystemCriticalPods": pod["spec"].get("priorityClassName", "").startswith("system-"),
        "PodsWithLocalStorage": any("emptyDir" in one or "hostPath" in one for one in volumes(pod)),
        "PodsWithPVC": any("persistentVolumeClaim" in one for one in volumes(pod)),
        "PodsWithResourceClaims": bool(pod["spec"].get("resourceClaims")),
    }
    return {name for name, holds in held.items() if holds}


def native_sidecars(pod):
    return [
        one
        for one in pod["spec"].get("initContainers") or []
        if one.get("restartPolicy") == "Always"
    ]


def requests(container):
    """With the defaults of the API server: without a request, the limit of a container is its
    request."""
    resources = container.get("resources") or {}
    return {
        name: amount(one)
        for name, one in (
            (resources.get("limits") or {}) | (resources.get("requests") or {})
        ).items()
    }


def hpa_lacks(pod, resource, container=None):
    """HorizontalPodAutoscaler, a target of type Utilization: calculatePodRequestsFromContainers of
    pkg/controller/podautoscaler/replica_calculator.go in kubernetes/kubernetes. `container`: type
    ContainerResource."""
    running = [
        one
        for one in pod["spec"]["containers"] + native_sidecars(pod)
        if container in (None, one["name"])
    ]
    if not running:
        return f"container {container} not found"
    return next(
        (
            f"missing request for {resource} in {one['name']}"
            for one in running
            if resource not in requests(one)
        ),
        None,
    )


def vpa_scales(pod, policies=(), sidecars=False):
    """VerticalPodAutoscaler: names of the containers that get other requests.
    vertical-pod-autoscaler/docs/sidecar-containers.md in kubernetes/autoscaler: every container
    without a policy, no init container. `sidecars`: the feature gate NativeSidecar (KEP 8905)."""
    modes = {one["containerName"]: one.get("mode", "Auto") for one in policies}
    containers = pod["spec"]["containers"] + (native_sidecars(pod) if sidecars else [])
    return {
        one["name"] for one in containers if modes.get(one["name"], modes.get("*", "Auto")) != "Off"
    }


def pod_requests(pod):
    """Of the whole pod, as the scheduler and Kueue count: PodRequests of
    k8s.io/component-helpers/resource/helpers.go. Each init container runs beside the earlier native
    sidecars."""

    def plus(one, other):
        return {name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()}

    start, running = {}, {}
    for one in pod["spec"].get("initContainers") or []:
        now = plus(running, requests(one))
        if one.get("restartPolicy") == "Always":
            running = now
        start = {
            name: max(start.get(name, 0), now.get(name, 0)) for name in start.keys() | now.keys()
        }
    for one in pod["spec"]["containers"]:
        running = plus(running, requests(one))
    return {
        name: max(start.get(name, 0), running.get(name, 0))
        for name in start.keys() | running.keys()
    }


def kueue_refuses(pod, quota):
    """Kueue: findFlavorForPodSets of pkg/scheduler/flavorassigner/flavorassigner.go in
    kubernetes-sigs/kueue. `quota`: of a ClusterQueue."""
    for name, wanted in sorted(pod_requests(pod).items()):
        if name not in quota:
            return f"resource {name} unavailable in ClusterQueue"
        if wanted > quota[name]:
            return f"insufficient quota for {name}"
    return None


def velero_reads(pod, all_volumes):
    """Velero's file system backup: GetVolumesByPod of pkg/util/podvolume/pod_volume.go in
    vmware-tanzu/velero. `all_volumes`: the setting defaultVolumesToFsBackup."""
    if not all_volumes:
        return set(filter(None, annotation(pod, "backup.velero.io/backup-volumes").split(",")))
    left_out = annotation(pod, "backup.velero.io/backup-volumes-excludes").split(",")
    read = [
        one
        for one in volumes(pod)
        if not one.keys() & {"hostPath", "secret", "configMap", "projected", "downwardAPI"}
    ]
    return {
        one["name"]
        for one in read
        if one["name"] not in left_out and not one["name"].startswith("default-token")
    }


def on_openshift(pod, namespace):
    """Why the constraint restricted-v2 refuses the pod: bindata/bootkube/scc-manifests in
    openshift/cluster-kube-apiserver-operator, pkg/securitycontextconstraints in
    openshift/apiserver-library-go. Fields that the constraint fills in are free, and so are
    runAsGroup and supplementalGroups. csi and ephemeral volumes came with later releases of the
    constraint."""
    spec, of_pod = pod["spec"], pod["spec"].get("securityContext") or {}
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            return field
    for volume in volumes(pod):
        (kind,) = set(volume) - {"name"}
        if kind not in (
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ):
            return f"volume {volume['name']}: {kind}"
    users, groups = (
        namespace["metadata"]["annotations"][f"openshift.io/sa.scc.{kind}"]
        for kind in ("uid-range", "supplemental-groups")
    )
    first, count = map(int, users.split("/"))
    if of_pod.get("fsGroup", (group := int(groups.split("/")[0]))) != group:
        return f"fsGroup {of_pod['fsGroup']}"
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        own = of_pod | (container.get("securityContext") or {})
        name, capabilities = container["name"], own.get("capabilities") or {}
        if not first <= own.get("runAsUser", first) < first + count:
            return f"{name}: runAsUser {own['runAsUser']}"
        for field in ("privileged", "allowPrivilegeEscalation"):
            if own.get(field):
                return f"{name}: {field}"
        if set(capabilities.get("add") or []) - {"NET_BIND_SERVICE"}:
            return f"{name}: capabilities"
        if (own.get("seccompProfile") or {}).get("type", "RuntimeDefault") != "RuntimeDefault":
            return f"{name}: seccompProfile"
        if own.get("seLinuxOptions"):
            return f"{name}: seLinuxOptions"
        if any(port.get("hostPort") for port in container.get("ports") or []):
            return f"{name}: hostPort"
    return None
