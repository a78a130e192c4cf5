"""restricted-v2, OpenShift's constraint for users, before and after the injection: the golden pods
under the rules in Python. chart/test_openshift_rules.py compares these rules with a policy that a
real API server enforces, where one is installed."""

import copy

import pytest
import yaml
from golden_pods import cases
from pod_rules import on_openshift


@pytest.fixture(scope="module")
def pods(root):
    return {name: (before, after) for name, before, after in cases(root) if after is not None}


@pytest.fixture(scope="module")
def namespace(root):
    documents = yaml.safe_load_all(
        (root / "tests" / "golden" / "inject" / "openshift.in.yaml").read_text()
    )
    return next(one for one in documents if one["kind"] == "Namespace")


@pytest.mark.parametrize("name", ["openshift", "platform-ids"])
# covers F-222
def test_openshift_admits_the_pod_before_and_after(name, pods, namespace):
    before, after = pods[name]
    assert {one["name"] for one in after["spec"]["initContainers"]} >= {"larder", "larder-payload"}
    assert (on_openshift(before, namespace), on_openshift(after, namespace)) == (None, None)


def test_openshift_refuses_the_user_of_larderd(pods, namespace):
    """The control: the pod of a namespace without a range."""
    before, after = pods["usual"]
    assert on_openshift(before, namespace) is None
    assert on_openshift(after, namespace) == "larder-payload: runAsUser 65532"


def test_openshift_refuses_placement_node(pods, namespace):
    """docs/guides/openshift.md: hostPath needs another constraint."""
    assert on_openshift(pods["placement-node"][1], namespace).endswith(": hostPath")


WRONG = {
    "hostNetwork": lambda spec, engine: spec.update(hostNetwork=True),
    "hostPID": lambda spec, engine: spec.update(hostPID=True),
    "hostIPC": lambda spec, engine: spec.update(hostIPC=True),
    "fsGroup 7": lambda spec, engine: spec["securityContext"].update(fsGroup=7),
    "vllm: privileged": lambda spec, engine: engine.update(privileged=True),
    "vllm: allowPrivilegeEscalation": lambda spec, engine: engine.update(
        allowPrivilegeEscalation=True
    ),
    "vllm: hostPort": lambda spec, engine: spec["containers"][0].update(
        ports=[{"containerPort": 8000, "hostPort": 8000}]
    ),
    "vllm: seLinuxOptions": lambda spec, engine: engine.update(seLinuxOptions={"level": "s0"}),
    "vllm: capabilities": lambda spec, engine: engine.update(capabilities={"add": ["SYS_PTRACE"]}),
    "vllm: seccompProfile": lambda spec, engine: engine.update(
        seccompProfile={"type": "Unconfined"}
    ),
    "vllm: runAsUser 1000670000": lambda spec, engine: engine.update(runAsUser=1000670000),
}


@pytest.mark.parametrize("why", WRONG)
def test_the_rule_sees_other_faults(why, pods, namespace):
    pod = copy.deepcopy(pods["openshift"][1])
    (engine,) = pod["spec"]["containers"]
    WRONG[why](pod["spec"], engine["securityContext"])
    assert on_openshift(pod, namespace) == why
