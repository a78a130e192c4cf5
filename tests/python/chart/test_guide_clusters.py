"""Commands of guides for other clusters, unchanged, against a real API server. No kubelet and no
operator runs here: pods stay Pending, and the webhook gives no answer."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import programs
import pytest
from cluster import eventually
from engine_pod import engine_pod

GUIDES = programs.ROOT / "docs" / "guides"
ONLY = ("helm ", "kubectl ")  # of the guides' lines


def commands(guide):
    """The command lines of a guide for helm and kubectl."""
    text = (GUIDES / guide).read_text()
    lines = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines()
    return [line for line in lines if line.startswith(ONLY)]


def inline(guide, begin):
    """The commands of a guide's sentences and tables that begin so."""
    text = re.sub(r"```.*?```", "", (programs.ROOT / "docs" / guide).read_text(), flags=re.DOTALL)
    found = [one for one in re.findall(r"`([^`\n]+)`", text) if one.startswith(begin)]
    assert found, f"{guide} has no `{begin}`"
    return list(dict.fromkeys(found))


@pytest.fixture(scope="module")
def follow(cluster):
    """follow(command): the output, in a checkout with helm and kubectl in PATH."""
    folders = {
        str(Path(program).parent)
        for program in (cluster.program, cluster.helm.program)
        if "/" in program
    }
    env = {**cluster.helm.env, "PATH": ":".join([*folders, cluster.env["PATH"]])}

    def run(command):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=programs.ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def remove(cluster):
    if "larder" in cluster.helm("list", "-q", "-n", "larder-system").split():
        cluster.uninstall()
    cluster.remove_definitions()


@pytest.fixture
def empty(cluster):
    """A cluster without the chart, which the test installs."""
    yield cluster
    remove(cluster)


@pytest.fixture(scope="module")
def objects(cluster):
    """A cluster with the chart and with objects as the guides name them: pool, backend, pod,
    node."""
    cluster.install()
    cluster.kubectl(
        "wait",
        "--for=condition=Established",
        "--timeout=120s",
        "crd/cachepools.larder.dev",
        "crd/cachebackends.larder.dev",
    )
    cluster.namespace("models")
    made = [
        {
            "apiVersion": "larder.dev/v1alpha1",
            "kind": "CachePool",
            "metadata": {"name": "chat"},
            "spec": {"memory": {"size": "1Gi"}},
        },
        {
            "apiVersion": "larder.dev/v1alpha1",
            "kind": "CacheBackend",
            "metadata": {"name": "shared"},
            "spec": {"endpoints": ["a:1"]},
        },
        engine_pod("llm"),
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}},
    ]
    cluster.kubectl("apply", "-n", "models", "-f", "-", stdin=made)
    yield cluster
    cluster.kubectl(
        "delete", "-n", "models", "--wait=false", "--grace-period=0", "--force", "pod/llm"
    )
    cluster.kubectl("delete", "node", "node-1")
    remove(cluster)


def operator(cluster):
    return cluster.get("deployment", "larder-operator", "-n", "larder-system")["spec"]["template"][
        "spec"
    ]


def port(cluster):
    (container,) = operator(cluster)["containers"]
    return {one["name"]: one["containerPort"] for one in container["ports"]}["webhook"]


def test_an_unreachable_webhook_is_counted(empty, follow):
    probe, count, *_ = commands("control-plane.md")
    empty.install()
    empty.namespace("models")

    def counted():
        assert "(server dry run)" in follow(probe)  # the pod starts nevertheless
        return "fail_open_count" in follow(f"{count} || true")

    eventually(counted)
    assert follow(count)


def test_the_webhook_listens_where_a_firewall_is_open(empty, follow):
    _, _, upgrade, *_ = commands("control-plane.md")
    empty.install("--set", "replicas=3")
    follow(upgrade)
    assert port(empty) == 10250
    assert (
        empty.get("deployment", "larder-operator", "-n", "larder-system")["spec"]["replicas"] == 3
    )


def test_the_operator_goes_into_the_nodes_network(empty, follow):
    *_, label, upgrade = commands("control-plane.md")
    empty.install()
    follow(label)
    follow(upgrade)
    assert port(empty) == 10260 and operator(empty)["hostNetwork"]
    follow(label.replace("=privileged", "-"))


def test_every_image_comes_from_the_mirror(empty, follow):
    (install,) = commands("closed-networks.md")
    mirror = dict(one.split("=", 1) for one in shlex.split(install) if "=" in one)[
        "global.imageRegistry"
    ]
    follow(install)
    (container,) = operator(empty)["containers"]
    assert container["image"].startswith(f"{mirror}/larder:")


def test_openshift_chooses_the_operators_user(empty, follow):
    (install,) = commands("openshift.md")
    follow(install)
    context = operator(empty)["securityContext"]
    assert context and not {"runAsUser", "runAsGroup"} & set(context)


def test_kubectl_explains_pools_and_backends(objects, follow):
    pages = {
        "get-started/kubernetes.md": "memory",
        "guides/disk.md": "hostPath",
        "guides/share-a-backend.md": "sentinel",
    }
    for page, field in pages.items():
        for command in inline(page, "kubectl explain"):
            assert field in follow(command), command


def test_kubectl_alone_shows_pools_pods_and_backends(objects, follow):
    commands = inline("guides/desktops.md", "kubectl -n models get") + inline(
        "guides/desktops.md", "kubectl -n models describe"
    )
    assert {one.split()[4] for one in commands} == {
        "cachepools",
        "cachepool",
        "pods",
        "pod",
        "cachebackend",
    }
    for command in commands:
        said = follow(command.replace("POD", "llm").replace("NAME", "shared"))
        assert "chat" in said or "llm" in said or "shared" in said, command


def test_the_questions_of_troubleshooting_have_answers(objects, follow):
    page = "guides/troubleshooting.md"
    (webhook,) = inline(page, "kubectl get mutatingwebhookconfiguration")
    assert "clientConfig" in follow(webhook)
    (endpoints,) = inline(page, "kubectl -n larder-system get endpointslices")
    follow(endpoints)
    (pods,) = inline(page, "kubectl describe pod")
    assert "llm" in follow(f"{pods} -n models")


def test_commands_show_conditions_and_nodes(objects, follow):
    fits = {
        "type": "SizesFit",
        "status": "True",
        "reason": "Fit",
        "message": "8Gi of 9Gi",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = json.dumps({"status": {"conditions": [fits]}})
    objects.kubectl(
        "patch",
        "cachepool",
        "chat",
        "-n",
        "models",
        "--subresource=status",
        "--type=merge",
        "-p",
        patch,
    )
    (command,) = inline("guides/quotas.md", "kubectl -n models get cachepool chat")
    assert follow(command) == "8Gi of 9Gi"
    status = json.dumps({"status": {"allocatable": {"hugepages-2Mi": "8Gi"}}})
    objects.kubectl("patch", "node", "node-1", "--subresource=status", "--type=merge", "-p", status)
    (command,) = inline("guides/huge-pages.md", "kubectl get node NODE")
    assert "hugepages-2Mi" in follow(command.replace("NODE", "node-1"))


def test_peers_get_a_role_for_their_certificate(objects, follow):
    page = "peers-kubernetes.md"
    (upgrade,) = [line for line in commands(page) if line.startswith("helm upgrade")]
    follow(upgrade)
    role = json.loads(
        objects.kubectl("get", "role", "larder-operator-peer-secrets", "-n", "models", "-o", "json")
    )
    (secrets,) = role["rules"]
    assert secrets["resources"] == ["secrets"] and "chat" in secrets["resourceNames"][0]


def test_the_operator_is_restarted(objects, follow):
    (command,) = inline("guides/upgrade-remove.md", "kubectl -n larder-system rollout restart")
    follow(command)
    template = objects.get("deployment", "larder-operator", "-n", "larder-system")["spec"][
        "template"
    ]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


def test_a_pool_of_nodes_is_deleted_without_the_operator(objects, follow):
    page = "guides/upgrade-remove.md"
    objects.kubectl(
        "patch",
        "cachepool",
        "chat",
        "-n",
        "models",
        "--type=merge",
        "-p",
        '{"metadata": {"finalizers": ["larder.dev/free-memory"]}}',
    )
    (delete,) = inline(page, "kubectl delete cachepool")
    follow(f"{delete} chat -n models --wait=false")
    assert "chat" in objects.kubectl("get", "cachepools", "-n", "models", "-o", "name")
    (patch,) = inline(page, "kubectl patch cachepool POOL")
    follow(patch.replace("POOL", "chat").replace("NAMESPACE", "models"))
    assert "chat" not in objects.kubectl("get", "cachepools", "-n", "models", "-o", "name")


def test_the_chart_is_packaged(follow, tmp_path):
    (command,) = inline("guides/gitops.md", "helm package")
    follow(f"{command} charts/larder --destination {tmp_path}")
    assert list(tmp_path.glob("larder-*.tgz"))
