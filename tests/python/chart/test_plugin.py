"""`kubectl larder`, run like a user's: kubectl finds the plug-in in PATH, and the plug-in asks a
real API server with the real operator."""

import contextlib
import json
import os
import socket
import subprocess

import operator_process
import programs
import pytest
import yaml
from cluster import eventually
from engine_pod import engine_pod, injected, made_anew
from harness.larderd import Larderd

from larder import Client

NAMESPACE = "plugged"
POOL = """
apiVersion: larder.dev/v1alpha1
kind: CachePool
metadata: {name: chat}
spec: {memory: {size: 1Gi}}
"""


class Plugin:
    """The user's shell: kubectl and kubectl-larder in PATH."""

    def __init__(self, cluster, folder):
        self.env = {
            **cluster.env,
            "PATH": f"{folder}:{programs.Path(cluster.program).parent}:{os.environ['PATH']}",
        }
        (folder / "kubectl-larder").symlink_to(
            programs.Path(os.environ["LARDER_TEST_BIN"]) / "kubectl-larder"
        )

    def __call__(self, *words, stdin=None):
        """(exit status, standard output, standard error)"""
        done = subprocess.run(
            ["kubectl", "larder", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env=self.env,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def reasons(self, pod, namespace=NAMESPACE):
        status, out, err = self("why", pod, "-n", namespace, "-o", "json")
        assert status in (0, 1), err
        return [finding["reason"] for finding in json.loads(out)["findings"]]


def apply(cluster, thing, namespace=NAMESPACE):
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=thing)


def no_engine(name):
    pod = engine_pod(name)
    pod["spec"]["containers"][0].update(image="nginx", command=["nginx"])
    return pod


@pytest.fixture(scope="module")
def plugin(cluster, tmp_path_factory):
    return Plugin(cluster, tmp_path_factory.mktemp("bin"))


@pytest.fixture(scope="module")
def world(cluster, plugin, tmp_path_factory):
    """Pods that were made before the operator ran, and after; the operator runs on."""
    if operator_process.own_address() is None:
        pytest.skip(
            "this machine has no address but loopback: the API server could not reach the webhook"
        )
    cluster.namespace(NAMESPACE)
    before = plugin("status", "-n", NAMESPACE)
    with cluster.installed():
        apply(cluster, yaml.safe_load(POOL))
        apply(cluster, engine_pod("early"))
        early = plugin.reasons("early")
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
            apply(cluster, engine_pod("plain", other="annotation"))
            apply(cluster, engine_pod("lost", **{"larder.dev/pool": "chta"}))
            apply(cluster, no_engine("web"))
            apply(cluster, engine_pod("system"), namespace="kube-system")
            yield {"before": before, "early": early, "operator": operator}


def test_a_missing_installation_is_reported_with_instructions(world):
    status, _, err = world["before"]
    assert status == 2
    assert "Larder is not installed" in err and "helm install" in err


def test_why_a_pod_was_not_injected(world, plugin):
    assert world["early"] == ["NoAuthority"]  # the chart was there, the operator was not
    assert plugin.reasons("early")[0] in ("WebhookWasDown", "MadeBeforeInstall")
    assert plugin.reasons("plain") == ["NoAnnotation"]
    assert plugin.reasons("lost") == ["LeftAlone"]
    assert plugin.reasons("web") == ["LeftAlone"]
    assert plugin.reasons("system", "kube-system")[-1] == "NamespaceExcluded"
    status, out, _ = plugin("why", "lost", "-n", NAMESPACE)
    assert status == 1
    assert 'there is no CachePool "chta" in namespace "plugged"' in out
    status, _, err = plugin("why", "nobody", "-n", NAMESPACE)
    assert status == 2 and "there is no pod nobody" in err


def test_a_pool_created_later_is_distinguished_from_a_missing_one(world, plugin, cluster):
    apply(cluster, {**yaml.safe_load(POOL), "metadata": {"name": "chta"}})
    try:
        assert plugin.reasons("lost") == ["PoolMadeLater"]
    finally:
        cluster.kubectl("delete", "cachepool", "chta", "-n", NAMESPACE)


def test_status_and_pods(world, plugin):
    status, out, _ = plugin("status", "-n", NAMESPACE)
    assert status == 1
    assert (
        "chat" in out
        and "Is it helping?" in out
        and "annotated pods have no cache" in out
        and "plugged/lost" in out
    )
    status, out, _ = plugin("pods", "-n", NAMESPACE, "-o", "json")
    assert status == 1
    pods = {one["pod"]: one for one in json.loads(out)["pods"]}
    assert "plain" not in pods
    assert pods["llm"]["injected"] and not pods["web"]["injected"]
    assert pods["lost"]["findings"][0]["reason"] == "LeftAlone"
    status, out, _ = plugin("pods", "-n", NAMESPACE)
    assert out.splitlines()[0].split() == [
        "POD",
        "POOL",
        "INJECTED",
        "ATTACHED",
        "HITS",
        "MEMORY",
        "REASON",
    ]


def test_missing_permissions_are_reported_in_kubectls_words(world, plugin):
    status, out, err = plugin("pods", "-n", NAMESPACE, "--as=system:serviceaccount:default:nobody")
    assert (status, out) == (2, "")
    assert "forbidden" in err and "cachepools" in err


def port_is_free(address, port):
    with contextlib.closing(socket.socket()) as asking:
        try:
            asking.bind((address, port))
            return True
        except OSError:
            return False


def test_a_real_larderd_is_asked_through_the_api_server(world, plugin, cluster, tmp_path):
    address = operator_process.own_address()
    if not port_is_free(address, 9464):
        pytest.skip(f"something listens on {address}:9464, the port of larderd in pods")
    containers = [
        {
            "name": "larder",
            "ready": True,
            "restartCount": 0,
            "image": "x",
            "imageID": "",
            "started": True,
        }
    ]
    change = {
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "initContainerStatuses": containers,
        }
    }
    cluster.kubectl(
        "patch",
        "pod",
        "llm",
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps(change),
    )
    assert plugin.reasons("llm") == ["LarderdNotAsked"]  # no larderd answers there yet
    binary = programs.Path(os.environ["LARDER_TEST_BIN"]) / "larderd"
    with Larderd(
        binary, tmp_path, f"plugged-{os.getpid()}", size="64MiB", listen=f"{address}:9464"
    ) as larderd:
        larderd.wait_ready()
        assert plugin.reasons("llm")[0] in ("NeverAttached", "EngineStarting")
        with Client(larderd.socket, "test") as client:
            client.set_namespace("engine: test\nchunk_tokens: 128\n", "m", 128, [(4096, 2, 1)])
            assert client.wait_attached(10_000)
            client.report_request(1000, 512, 1000)
            eventually(lambda: plugin.reasons("llm") == ["Hits"])
            status, out, err = plugin("pods", "-n", NAMESPACE)
            (line,) = [line for line in out.splitlines() if line.startswith("llm ")]
            assert line.split()[:5] == ["llm", "chat", "yes", "yes", "51%"], out + err
            status, out, err = plugin("top", "-n", NAMESPACE, "--once", "--interval", "1")
            assert status == 0 and "llm" in out, out + err


def test_an_unavailable_webhook_is_reported(world, plugin, cluster):
    """The last test: the operator is gone then."""
    world["operator"].stop()
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
    apply(cluster, engine_pod("late"))
    assert not injected(cluster, NAMESPACE, "late")
    assert plugin.reasons("late") == ["WebhookDown"]
