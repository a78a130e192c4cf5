"""Peers of a pool. The real operator with the chart's rights makes their objects. Two real larderd
with the operator's configuration and certificates reach each other."""

import base64
import contextlib
import json
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import operator_process
import pytest
from cluster import POOL, eventually
from engine_pod import made_anew
from harness.process import Process

LISTED, UNLISTED, NAME = "peers", "unlisted", "larder-chat-peers"


@pytest.fixture(scope="module")
def peers(cluster, tmp_path_factory):
    if not operator_process.program().exists():
        pytest.skip(f"no {operator_process.program()} (make build)")
    if operator_process.own_address() is None:
        pytest.skip("this machine has no address but loopback")
    values = json.dumps([{"namespace": LISTED, "pools": ["chat"]}])
    cluster.namespace(LISTED)
    cluster.namespace(UNLISTED)
    with (
        cluster.installed("--set-json", f"peerSecrets={values}"),
        operator_process.running(cluster, tmp_path_factory.mktemp("operator")),
    ):
        spec = {"memory": {"size": "16Mi"}, "peers": {}}
        pool = {**POOL, "metadata": {"name": "chat"}, "spec": spec}
        for namespace in (LISTED, UNLISTED):
            cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pool)
        eventually(lambda: exists(cluster, "secret"))
        yield cluster


def exists(cluster, kind):
    return NAME in cluster.kubectl(
        "get", kind, "-n", LISTED, "-o", "name", "--field-selector", f"metadata.name={NAME}"
    )


def condition(cluster, namespace):
    for one in cluster.get("cachepool", "chat", "-n", namespace)["status"]["conditions"]:
        if one["type"] == "PeersReachable":
            return f"{one['status']} {one['reason']}"
    return ""


def data(cluster):
    secret = cluster.get("secret", NAME, "-n", LISTED)
    return {key: base64.b64decode(text) for key, text in secret["data"].items()}


def rules(cluster):
    return len(cluster.get("networkpolicy", NAME, "-n", LISTED)["spec"]["ingress"])


def test_the_operator_makes_service_policy_and_certificates(peers):
    service = peers.get("service", NAME, "-n", LISTED)["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"]
    assert service["selector"] == {"larder.dev/peers": "chat"}
    eventually(lambda: rules(peers) == 2)
    text = subprocess.run(
        ["openssl", "x509", "-noout", "-ext", "subjectAltName,extendedKeyUsage"],
        input=data(peers)["tls.crt"],
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert "DNS:chat.peers.larder" in text and "TLS Web Client Authentication" in text
    owner = peers.get("secret", NAME, "-n", LISTED)["metadata"]["ownerReferences"][0]
    assert owner["kind"] == "CachePool" and owner["controller"]


# covers F-324
def test_a_missing_right_is_reported_and_the_pool_is_ready(peers):
    eventually(lambda: condition(peers, UNLISTED) == "False SecretRefused")
    conditions = peers.get("cachepool", "chat", "-n", UNLISTED)["status"]["conditions"]
    assert {one["type"]: one["status"] for one in conditions}["Ready"] == "True"


# covers F-320
def test_the_policy_follows_a_policy_that_denies_by_default(peers):
    deny = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "deny", "namespace": LISTED},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }
    eventually(lambda: rules(peers) == 2)
    peers.kubectl("apply", "-f", "-", stdin=deny)
    eventually(lambda: rules(peers) == 1, 10)
    peers.kubectl("delete", "networkpolicy", "deny", "-n", LISTED)
    eventually(lambda: rules(peers) == 2, 10)


# covers F-322
def test_a_deleted_secret_is_made_anew(peers):
    before = data(peers)
    peers.kubectl("delete", "secret", NAME, "-n", LISTED)
    eventually(lambda: exists(peers, "secret"), 90)
    assert data(peers)["ca.crt"] != before["ca.crt"]


def reached(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/status", timeout=5) as answer:
        return json.load(answer)["peers"]["servers"]


def start(folder, config, files, ports, name):
    """A larderd with the configuration of a pod: other places and addresses, the same words."""
    home = folder / name
    for below in ("run", "memory", "tls"):
        (home / below).mkdir(parents=True)
    for key in ("ca.crt", "tls.crt", "tls.key"):  # as the volume's items: no ca.key
        (home / "tls" / key).write_bytes(files[key])
    places = {
        "/run/larder": home / "run",
        "/dev/larder": home / "memory",
        "/etc/larder-peers": home / "tls",
        '":9464"': f'"127.0.0.1:{ports[name + " pages"]}"',
        '":9466"': f'"127.0.0.1:{ports[name]}"',
        f"dns:{NAME}.{LISTED}.svc:9466": f"127.0.0.1:{ports['a']},127.0.0.1:{ports['b']}",
    }
    for old, new in places.items():
        assert old in config, old
        config = config.replace(old, str(new))
    (home / "larder.yaml").write_text(config)
    program = operator_process.program().parent / "larderd"
    return Process(name, [str(program), "--config", str(home / "larder.yaml")], {}, home / "log")


def test_two_larderd_reach_each_other_with_the_operators_certificates(peers):
    eventually(lambda: made_anew(peers, LISTED, "engine"), 60)
    pod = peers.get("pod", "engine", "-n", LISTED)
    assert pod["metadata"]["labels"]["larder.dev/peers"] == "chat"
    (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == "larder-peers"]
    (source,) = volume["projected"]["sources"]
    assert source["secret"]["name"] == NAME
    assert "ca.key" not in [one["key"] for one in source["secret"]["items"]]
    config = pod["metadata"]["annotations"]["larder.dev/config"]
    names = ("a", "b", "a pages", "b pages")
    ports = dict(zip(names, operator_process.free_ports(len(names)), strict=True))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        files = data(peers)
        for name in ("a", "b"):
            process = stack.enter_context(start(folder, config, files, ports, name))
        for name in ("a", "b"):
            process.wait_until(
                lambda name=name: reached(ports[f"{name} pages"]) == {"known": 1, "reachable": 1},
                30,
            )
