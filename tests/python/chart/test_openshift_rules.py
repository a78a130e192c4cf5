"""Pods with caches under the rules of OpenShift's restricted-v2, at a real API server with the real
operator, and the judgement of `kubectl larder check`. restricted_v2.yaml has the rules of the
published object as a policy. docs/guides/openshift.md refers to this test. No OpenShift cluster was
at hand. OpenShift's admission plug-in, which also fills fields in, has not run."""

import copy
import json
from pathlib import Path

import operator_process
import pytest
import yaml
from cluster import eventually
from engine_pod import engine_pod, made_anew
from golden_pods import cases
from pod_rules import on_openshift
from test_plugin import apply, plugin  # noqa: F401: a fixture

NAMESPACE = "constrained"
RANGE = {
    "openshift.io/sa.scc.uid-range": "1000660000/10000",
    "openshift.io/sa.scc.supplemental-groups": "1000660000/10000",
}
SPECS = {
    "chat": {"memory": {"size": "1Gi"}},
    "disk": {"memory": {"size": "1Gi"}, "disk": {"size": "10Gi"}},
    "claim": {
        "memory": {"size": "1Gi"},
        "disk": {"size": "10Gi", "volume": "ephemeral"},
    },
    "pages": {"memory": {"size": "1Gi", "hugepages": "2Mi"}},
    "chosen": {"memory": {"size": "1Gi"}, "podSecurity": {"runAsUser": 1000660005}},
    "nodes": {"memory": {"size": "1Gi"}, "placement": "Node"},
}
# The class of the claim: without a default one the pod would start without a cache.
DEFAULT_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "local",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "example.com/local",
}


@pytest.fixture(scope="module")
def world(cluster, plugin, tmp_path_factory):
    if operator_process.own_address() is None:
        pytest.skip(
            "this machine has no address but loopback: the API server could not reach the webhook"
        )
    cluster.namespace(NAMESPACE, {"test.larder.dev/constraint": "restricted-v2"})
    for key, value in RANGE.items():
        cluster.kubectl("annotate", "namespace", NAMESPACE, f"{key}={value}")
    cluster.kubectl("apply", "-f", "-", stdin=DEFAULT_CLASS)
    with cluster.installed():
        for name, spec in SPECS.items():
            pool = {"apiVersion": "larder.dev/v1alpha1", "kind": "CachePool", "spec": spec}
            apply(cluster, {**pool, "metadata": {"name": name}}, NAMESPACE)
        with operator_process.running(cluster, tmp_path_factory.mktemp("operator")):
            eventually(lambda: made_anew(cluster, NAMESPACE, "first"), 60)
            rules = yaml.safe_load_all(Path(__file__).with_name("restricted_v2.yaml").read_text())
            cluster.kubectl("apply", "-f", "-", stdin=list(rules))
            eventually(lambda: "runAsUser" in refused(cluster, pod(user=7)))
            yield
    cluster.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "--all")
    cluster.kubectl("delete", "storageclass", DEFAULT_CLASS["metadata"]["name"])


def in_python(made):
    """Whether the rules of pod_rules.py, which also run without an API server, admit the pod."""
    return on_openshift(made, {"metadata": {"annotations": RANGE}}) is None


def pod(pool="chat", user=None, **spec):
    made = engine_pod("engine", **{"larder.dev/pool": pool})
    made["spec"].update(spec)
    if user is not None:
        made["spec"]["containers"][0]["securityContext"] = {"runAsUser": user}
    return made


def refused(cluster, made):
    """The API server's refusal of a pod that gets no cache, or has one; "": it is created, in a
    dry run."""
    made = copy.deepcopy(made)
    if "larder.dev/injected" not in made["metadata"]["annotations"]:
        del made["metadata"]["annotations"]
    words = ("create", "-n", NAMESPACE, "--dry-run=server", "-o", "name", "-f", "-")
    try:
        cluster.kubectl(*words, stdin=made)
    except AssertionError as error:
        return str(error)
    return ""


def judged(plugin, tmp_path, made):
    """The verdict of `kubectl larder check` and the reasons that it finds."""
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(made))
    _, out, err = plugin("check", "-f", str(tmp_path / "pod.yaml"), "-n", NAMESPACE, "-o", "json")
    (one,) = json.loads(out or err)["checked"]
    return one["verdict"], [finding["reason"] for finding in one["findings"]], one


SERVED = {
    "plain": pod(),
    "disk": pod("disk"),
    "disk of a claim": pod("claim"),
    "huge pages": pod("pages"),
    "user of the pool": pod("chosen"),
    "user of the range": pod(user=1000660000),
    "last user of the range": pod(user=1000669999),
    "restricted": pod(
        securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    ),
    "groups": pod(securityContext={"fsGroup": 1000660000, "supplementalGroups": [7]}),
}


@pytest.mark.parametrize("name", SERVED)
# covers F-222
def test_a_pod_that_is_admitted_is_admitted_with_its_cache(name, world, cluster, plugin, tmp_path):
    assert refused(cluster, SERVED[name]) == "" and in_python(SERVED[name])
    verdict, reasons, one = judged(plugin, tmp_path, SERVED[name])
    assert verdict == "injected" and "SecurityContextConstraint" not in reasons, one
    names = [each["name"] for each in one["pod"]["spec"]["initContainers"]]
    assert names[:2] == ["larder-payload", "larder"]


# covers F-222
def test_check_names_the_constraint_where_larder_is_refused(world, cluster, plugin, tmp_path):
    """Placement Node needs hostPath, which restricted-v2 refuses (docs/guides/openshift.md)."""
    assert refused(cluster, pod("nodes")) == ""
    verdict, reasons, one = judged(plugin, tmp_path, pod("nodes"))
    assert verdict == "refused" and reasons[0] == "SecurityContextConstraint", one
    assert "because of Larder's additions" in one["findings"][0]["message"]


@pytest.mark.parametrize("name", ["openshift", "platform-ids"])
# covers F-222
def test_the_golden_pods_are_admitted_before_and_after(name, world, cluster, root):
    (pods,) = [(before, after) for case, before, after in cases(root) if case == name]
    for made in pods:
        assert refused(cluster, made) == "" and in_python(made)


def engine(**fields):
    made = pod()
    made["spec"]["containers"][0].update(fields)
    return made


def secured(**context):
    return engine(securityContext=context)


WRONG = [
    ("host namespaces", pod(hostNetwork=True)),
    ("host namespaces", pod(hostPID=True)),
    ("host namespaces", pod(hostIPC=True)),
    ("host ports", engine(ports=[{"containerPort": 8000, "hostPort": 8000}])),
    ("fsGroup", pod(securityContext={"fsGroup": 7})),
    ("runAsUser", pod(user=1000670000)),
    ("volumes", pod(volumes=[{"name": "models", "hostPath": {"path": "/models"}}])),
    ("privileged", secured(privileged=True)),
    ("privileged", secured(allowPrivilegeEscalation=True)),
    ("capabilities", secured(capabilities={"add": ["SYS_PTRACE"]})),
    ("seccomp", secured(seccompProfile={"type": "Unconfined"})),
    ("seLinuxOptions", secured(seLinuxOptions={"level": "s0"})),
]


@pytest.mark.parametrize("why, made", WRONG)
def test_the_rules_refuse_other_faults_with_and_without_larder(
    why, made, world, cluster, plugin, tmp_path
):
    """The control: the policy has each rule."""
    assert not in_python(made)
    assert f"security context constraint: {why}" in refused(cluster, made)
    verdict, reasons, one = judged(plugin, tmp_path, made)
    assert verdict == "refused" and reasons[0] == "SecurityContextConstraint", one
    assert "with Larder and without" in one["findings"][0]["message"]
