"""The webhook's certificates are replaced under load: no review fails meanwhile."""

from __future__ import annotations

import base64
import json
import pathlib
import subprocess
import tempfile

import pytest

from harness import engine_pod, product
from harness.cluster import ROOT, Namespace, wait_until

SECRET = "larder-webhook-tls"
ROTATED_S = 240  # an authority waits a minute in every caBundle before a certificate of it is served
SERVICE = f"larder-webhook.{product.SYSTEM}"
NAMES = f"DNS:{SERVICE}.svc,DNS:{SERVICE},DNS:larder-webhook,DNS:{SERVICE}.svc.cluster.local"


def old_certificates() -> dict[str, str]:
    """The Secret's values with an authority of which more than two thirds of its life are over, and a certificate of it."""
    script = f'. {ROOT}/tests/component/kube/pki.sh; aged_authority ca 300 65; certificate tls ca /CN={SERVICE} serverAuth "{NAMES}"'
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["bash", "-ec", script], check=True, env={"pki": folder, "PATH": "/usr/bin:/bin"})
        return {name: base64.b64encode((pathlib.Path(folder) / name).read_bytes()).decode() for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")}


@pytest.fixture
def aged(larder):
    """The product as it is when its authority has grown old: nothing was rotated yet."""
    system = Namespace(product.SYSTEM)
    system.kubectl("scale", "deployment", "-l", product.OPERATOR, "--replicas=0")
    wait_until("no operator", lambda: not system.get("pod"), 60)
    old = old_certificates()
    system.kubectl("patch", "secret", SECRET, "--type=merge", "-p", json.dumps({"data": old}))
    product.install()
    yield system, old


def reviewed(namespace, number: int) -> bool:
    """Whether an annotated pod gets its cache; a dry run leaves nothing behind."""
    pod = engine_pod.bare_pod(f"engine-{number}", "cache")
    made = json.loads(namespace.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(pod)))
    return any(one["name"] == "larder" for one in made["spec"].get("initContainers", []))


def test_certificates_rotate_under_load(aged, namespace):
    system, old = aged
    namespace.apply(product.pool("cache"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    wait_until("the webhook answers", lambda: reviewed(namespace, 0), 30)
    asked, failed, seen = 0, [], set()

    def rotated() -> bool:
        nonlocal asked
        asked += 1
        if not reviewed(namespace, asked):
            failed.append(asked)
        held = system.get("secret", SECRET)["data"]
        seen.add(held["tls.crt"])
        return held["ca.crt"] != old["ca.crt"] and held["tls.crt"] != old["tls.crt"]

    wait_until("another authority, and a certificate of it", rotated, ROTATED_S)
    for _ in range(40):  # and the replicas load it, one after the other
        rotated()
    print(f"{asked} reviews, {len(seen)} certificates, {len(failed)} failed")
    assert not failed
    assert old["tls.crt"] in seen
