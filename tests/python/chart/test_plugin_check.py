"""`kubectl larder check`: a real API server with the real operator reports its changes to pods, and
makes no pod."""

import json

import operator_process
import pytest
import yaml
from cluster import eventually
from engine_pod import engine_pod, made_anew
from test_plugin import POOL, apply, plugin  # noqa: F401: a fixture

NAMESPACE = "checked"

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 3
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}, annotations: {larder.dev/pool: chat}}
    spec:
      containers:
      - {name: vllm, image: vllm/vllm-openai, args: [--model, m], resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 1Gi}}}
"""
LIMITS = """
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Pod, max: {memory: 1200Mi}}]}
"""
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "team"},
    "spec": {"hard": {"limits.memory": "1500Mi"}},
}


@pytest.fixture(scope="module")
def world(cluster, plugin, tmp_path_factory):
    if operator_process.own_address() is None:
        pytest.skip(
            "this machine has no address but loopback: the API server could not reach the webhook"
        )
    cluster.namespace(NAMESPACE)
    with cluster.installed():
        apply(cluster, yaml.safe_load(POOL), NAMESPACE)
        with operator_process.running(cluster, tmp_path_factory.mktemp("operator")) as operator:
            eventually(
                lambda: (
                    "caBundle"
                    in cluster.get("mutatingwebhookconfiguration", "larder")["webhooks"][0][
                        "clientConfig"
                    ]
                )
            )
            eventually(lambda: made_anew(cluster, NAMESPACE, "llm"), 60)
            yield operator


@pytest.fixture
def check(world, plugin, cluster, tmp_path):
    """check(text, *words): (exit status, standard output); at the end no object may have been
    made."""
    before = cluster.kubectl("get", "all", "-A", "-o", "name")

    def ask(text, *words):
        (tmp_path / "given.yaml").write_text(text)
        status, out, err = plugin(
            "check", "-f", str(tmp_path / "given.yaml"), "-n", NAMESPACE, *words
        )
        return status, out or err

    yield ask
    assert cluster.kubectl("get", "all", "-A", "-o", "name") == before


def manifest(**changes):
    """The deployment with changed fields of its pod's spec; a field of None is left out."""
    made = yaml.safe_load(DEPLOYMENT)
    made["spec"]["template"]["spec"].update(changes)
    return made


def reasons(out):
    return [finding["reason"] for one in json.loads(out)["checked"] for finding in one["findings"]]


def test_the_injected_deployment_is_shown(check):
    status, out = check(DEPLOYMENT)
    assert status == 0, out
    assert f"Deployment {NAMESPACE}/llm: the pods get a cache of pool chat." in out
    added = [
        line[1:] for line in out.splitlines() if line.startswith("+") and not line.startswith("+++")
    ]
    removed = [
        line for line in out.splitlines() if line.startswith("-") and not line.startswith("---")
    ]
    assert "    larder.dev/pool: chat" in added and "    name: larder-payload" in added
    assert all(line.endswith("{}") for line in removed), "Larder only adds to such a pod"
    assert "kube-api-access" not in "".join(added) and "uid" not in "".join(added), (
        "values that differ between dry runs are not shown"
    )


def test_the_pods_as_yaml_and_json(check):
    status, out = check(DEPLOYMENT, "-o", "yaml")
    assert status == 0
    pod = yaml.safe_load(out)
    assert pod["kind"] == "Pod" and "larder.dev/injected" in pod["metadata"]["annotations"]
    status, out = check(DEPLOYMENT, "-o", "json")
    assert status == 0
    report = json.loads(out)
    assert report["well"] and report["checked"][0]["verdict"] == "injected"
    assert report["checked"][0]["pod"] == pod, "YAML says what JSON says"


def test_many_documents_of_many_kinds(check):
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": {**manifest()["spec"]["template"]}},
    }
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    claims = [
        {
            "metadata": {"name": "models"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ]
    stateful = {**manifest(), "kind": "StatefulSet"}
    stateful["spec"] = {**stateful["spec"], "serviceName": "llm", "volumeClaimTemplates": claims}
    stateful["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "models", "mountPath": "/models"}
    ]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "llm"},
        "spec": {"ports": [{"port": 80}]},
    }
    web = {**engine_pod("web"), "metadata": {"name": "web"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [engine_pod("other"), web]}
    status, out = check(yaml.safe_dump_all([job, stateful, service, listed]), "-o", "json")
    assert status == 0, out
    assert [(one["kind"], one["verdict"]) for one in json.loads(out)["checked"]] == [
        ("Job", "injected"),
        ("StatefulSet", "injected"),
        ("Pod", "injected"),
        ("Pod", "not-asked"),
    ]


def test_standard_input_and_folders(world, plugin, tmp_path):
    (tmp_path / "a.yaml").write_text(DEPLOYMENT)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b.json").write_text(json.dumps(engine_pod("b")))
    status, out, err = plugin("check", "-f", str(tmp_path), "-R", "-n", NAMESPACE, "-o", "json")
    assert status == 0, err
    assert [one["name"] for one in json.loads(out)["checked"]] == ["llm", "b"]
    status, out, err = plugin(
        "check", "-n", NAMESPACE, "-f", "-", stdin=yaml.safe_dump(engine_pod("piped"))
    )
    assert status == 0, err
    assert f"Pod {NAMESPACE}/piped gets a cache" in out


def test_a_pod_that_the_injector_leaves_alone(check):
    status, out = check(
        yaml.safe_dump(
            manifest(containers=[{"name": "web", "image": "nginx", "command": ["nginx"]}])
        )
    )
    assert status == 1
    assert "! LeftAlone: the injector leaves the pod alone: " in out
    missing = manifest()
    missing["spec"]["template"]["metadata"]["annotations"] = {"larder.dev/pool": "other"}
    pool = {**yaml.safe_load(POOL), "metadata": {"name": "other"}}
    status, out = check(yaml.safe_dump_all([pool, missing]))
    assert status == 1
    assert (
        "! NoSuchPool: " in out
        and "the files create CachePool other: apply CachePool other first" in out
    )


def test_the_annotation_beside_the_template(check):
    wrong = manifest()
    wrong["metadata"]["annotations"] = wrong["spec"]["template"]["metadata"].pop("annotations")
    status, out = check(yaml.safe_dump(wrong), "-o", "json")
    assert status == 1 and reasons(out) == ["AnnotationNotOnTemplate"]


def test_limits_and_quotas_have_their_say(check, cluster):
    apply(cluster, yaml.safe_load(LIMITS), NAMESPACE)
    try:
        status, out = check(DEPLOYMENT)
        assert status == 1
        assert "maximum memory usage per Pod is 1200Mi" in out or "LimitRange" in out, out
    finally:
        cluster.kubectl("delete", "limitrange", "limits", "-n", NAMESPACE)
    apply(cluster, QUOTA, NAMESPACE)
    status_of_quota = json.dumps(
        {"status": {"hard": QUOTA["spec"]["hard"], "used": {"limits.memory": "0"}}}
    )
    cluster.kubectl(
        "patch",
        "resourcequota",
        "team",
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        status_of_quota,
    )
    try:
        status, out = check(DEPLOYMENT)
        assert status == 1
        assert "quota" in out.lower() and "team" in out, out
    finally:
        cluster.kubectl("delete", "resourcequota", "team", "-n", NAMESPACE)


def test_pod_security_refuses_with_its_words(check, cluster):
    cluster.kubectl(
        "label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"
    )
    try:
        status, out = check(DEPLOYMENT)
        assert status == 1
        assert (
            '! PodSecurity: the API server refuses the pod, with Larder and without: pods "llm-'
            in out
        )
        assert 'violates PodSecurity "restricted:latest"' in out and "runAsNonRoot" in out
        strict = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 1000,
        }
        strict["seccompProfile"] = {"type": "RuntimeDefault"}
        made = manifest()
        made["spec"]["template"]["spec"]["containers"][0]["securityContext"] = strict
        status, out = check(yaml.safe_dump(made))
        assert status == 0, out
    finally:
        cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce-")


@pytest.fixture
def node_pool(world, cluster):
    """A pool of placement Node, made before check() counts the objects."""
    made = yaml.safe_load(POOL)
    made["metadata"]["name"] = "by-node"
    made["spec"]["placement"] = "Node"
    apply(cluster, made, NAMESPACE)
    eventually(lambda: "by-node" in cluster.kubectl("get", "ds", "-n", NAMESPACE, "-o", "name"))
    yield "by-node"
    cluster.kubectl("delete", "cachepool", "by-node", "-n", NAMESPACE, "--wait=false")


# covers F-407
def test_pod_security_against_placement_node_leaves_the_pods_alone(node_pool, check, cluster):
    text = DEPLOYMENT.replace("larder.dev/pool: chat", f"larder.dev/pool: {node_pool}")
    status, out = check(text)
    assert status == 0 and "hostPath" in out, out
    cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=baseline")
    try:
        eventually(lambda: "! LeftAlone" in check(text)[1])
        status, out = check(text)
        assert status == 1 and "Pod Security baseline" in " ".join(out.split()), out
        assert "violates PodSecurity" not in out, "the API server takes the pods without a cache"
    finally:
        cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce-")


@pytest.fixture
def class_pool(world, cluster):
    """A pool whose RuntimeClass does not exist, made before check() counts the objects."""
    made = yaml.safe_load(POOL)
    made["metadata"]["name"] = "by-class"
    made["spec"] |= {"transfer": "sidecar", "runtimeClassName": "absent"}
    apply(cluster, made, NAMESPACE)
    yield "by-class"
    cluster.kubectl("delete", "cachepool", "by-class", "-n", NAMESPACE, "--wait=false")


# covers F-430
def test_a_runtime_class_that_does_not_exist(class_pool, check):
    """Of the pool: the pods start without the class. Of the pods: the API server refuses them."""
    text = DEPLOYMENT.replace("larder.dev/pool: chat", f"larder.dev/pool: {class_pool}")
    eventually(lambda: "the pods get a cache" in check(text)[1])
    status, out = check(text)
    assert status == 0, out
    assert "the cluster has no RuntimeClass absent" in " ".join(out.split()), out
    status, out = check(yaml.safe_dump(manifest(runtimeClassName="gone")))
    said = " ".join(out.split())
    assert status == 1
    assert "! NoRuntimeClass: the API server refuses the pod, with Larder and without" in said, out
    assert "create the RuntimeClass, or name another in the pod template" in said, out


@pytest.fixture
def claim_pool(world, cluster):
    """A pool whose disk has a StorageClass that does not exist."""
    made = yaml.safe_load(POOL)
    made["metadata"]["name"] = "by-claim"
    made["spec"]["disk"] = {"size": "10Gi", "volume": "ephemeral", "storageClassName": "slow"}
    apply(cluster, made, NAMESPACE)
    yield "by-claim"
    cluster.kubectl("delete", "cachepool", "by-claim", "-n", NAMESPACE, "--wait=false")


# covers F-451
def test_a_storage_class_that_does_not_exist(claim_pool, check):
    text = DEPLOYMENT.replace("larder.dev/pool: chat", f"larder.dev/pool: {claim_pool}")
    slow = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "slow"},
        "provisioner": "csi.example",
    }
    eventually(lambda: "! LeftAlone" in check(text)[1])
    status, out = check(text)
    assert status == 1 and 'the cluster has no StorageClass "slow"' in " ".join(out.split()), out
    _, out = check(text + "\n---\n" + yaml.safe_dump(slow))
    assert "the files create StorageClass slow" in " ".join(out.split()), out


def test_an_unknown_verdict_exits_with_2(check, plugin, world):
    odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "odd"}}
    status, out = check(yaml.safe_dump_all([manifest(), odd]))
    assert status == 2 and 'no matches for kind "Odd"' in out
    status, _, err = plugin("check", "-f", "/there/is/none.yaml")
    assert status == 2 and "does not exist" in err
    status, _, err = plugin("check")
    assert status == 2 and "which files?" in err
    status, _, err = plugin("check", "llm.yaml")
    assert status == 2 and "files stand behind -f" in err
    status, out = check(DEPLOYMENT, "--as=system:serviceaccount:default:nobody")
    assert status == 2 and "you need the right to create pods" in out


ASKS = "larder.dev/pool=chat"
NGINX = {"name": "web", "image": "nginx", "command": ["nginx"]}


@pytest.fixture
def asking(cluster):
    """The namespace asks for caches of its pods; no template does."""
    cluster.kubectl("label", "namespace", NAMESPACE, ASKS)
    yield yaml.safe_dump(unannotated())
    cluster.kubectl("label", "namespace", NAMESPACE, "larder.dev/pool-")


def unannotated(**changes):
    made = manifest(**changes)
    del made["spec"]["template"]["metadata"]["annotations"]
    return made


def test_a_namespace_that_asks(check, asking, cluster):
    eventually(lambda: check(asking)[0] == 0)
    status, out = check(yaml.safe_dump(unannotated(containers=[NGINX])), "-o", "json")
    assert [one["verdict"] for one in json.loads(out)["checked"]] == ["not-asked"] and reasons(
        out
    ) == ["NotSeenAsEngine"]
    assert json.loads(out)["checked"][0]["findings"][0]["weight"] == "note"


def test_a_namespace_that_asks_while_the_webhook_is_away(check, asking, world, cluster):
    """The last test: the operator is gone then."""
    world.stop()
    port = cluster.get("endpointslice", "larder-webhook-1", "-n", "larder-system")["ports"][0][
        "port"
    ]
    status, out = check(asking)
    assert status == 1
    assert (
        "! WebhookNoAnswer: the namespace asks for caches of pool chat (label larder.dev/pool), "
        "and the webhook gave the API server no answer" in out
    )
    assert f"port {port} of the operator's pods" in out and "9443" not in out, "the port in force"
    # like the cluster's controller
    change = '[{"op": "replace", "path": "/endpoints/0/conditions/ready", "value": false}]'
    cluster.kubectl(
        "patch",
        "endpointslice",
        "larder-webhook-1",
        "-n",
        "larder-system",
        "--type=json",
        "-p",
        change,
    )
    status, out = check(asking)
    assert status == 1 and "! WebhookDown: the namespace asks for caches of pool chat" in out
    assert "A new pod of vLLM now starts without a cache" in out
