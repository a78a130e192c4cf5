"""The webhook's certificates are replaced under load, and no review fails meanwhile. The
certificates are deleted, and pods have their caches a second later."""

from __future__ import annotations

import base64
import itertools
import json
import pathlib
import ssl
import subprocess
import tempfile
import threading
import time

import pytest

from harness import engine_pod, product
from harness.cluster import (
    ROOT,
    ClusterError,
    Namespace,
    served_certificate,
    throughout,
    wait_until,
)

SECRET = "larder-webhook-tls"
REVIEWERS = 3
REPLICAS, PORT = 2, 9443  # of the operator
END = "-----END CERTIFICATE-----"
ROTATED_S = 240  # an authority is in every caBundle for a minute before its first leaf
AWAY_S = 1  # without caches after a deletion of the Secret: docs/guides/gitops.md
MADE_ANEW_S, WATCHED_S = 30, 5
SERVICE = f"larder-webhook.{product.SYSTEM}"
NAMES = f"DNS:{SERVICE}.svc,DNS:{SERVICE},DNS:larder-webhook,DNS:{SERVICE}.svc.cluster.local"


def old_certificates() -> dict[str, str]:
    """The Secret's values with an authority that has passed two thirds of its life, and a
    certificate of this authority."""
    script = (
        f'. {ROOT}/tests/component/kube/pki.sh; aged_authority ca 300 65; certificate tls ca '
        f'/CN={SERVICE} serverAuth "{NAMES}"'
    )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["bash", "-ec", script], check=True, env={"pki": folder, "PATH": "/usr/bin:/bin"}
        )
        return {
            name: base64.b64encode((pathlib.Path(folder) / name).read_bytes()).decode()
            for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")
        }


@pytest.fixture
def aged(larder):
    """The product with an old authority, before any rotation."""
    system = Namespace(product.SYSTEM)
    system.kubectl("scale", "deployment", "-l", product.OPERATOR, "--replicas=0")
    wait_until("no operator", lambda: not system.get("pod"), 60)
    old = old_certificates()
    system.kubectl("patch", "secret", SECRET, "--type=merge", "-p", json.dumps({"data": old}))
    product.install()
    yield system, old


def reviewed(namespace, number: int) -> bool:
    """Whether an annotated pod gets its cache; a dry run leaves no pod behind."""
    pod = engine_pod.bare_pod(f"engine-{number}", "cache")
    made = json.loads(
        namespace.kubectl(
            "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(pod)
        )
    )
    return any(one["name"] == "larder" for one in made["spec"].get("initContainers", []))


def first_of(pem: str) -> bytes:
    """The first certificate of a chain."""
    return ssl.PEM_cert_to_DER_cert(pem[: pem.index(END) + len(END)])


def served(pod: dict) -> bytes:
    """The certificate that this replica of the operator shows to its clients."""
    return served_certificate(pod, PORT)


class Reviews:
    """Counted; several threads may ask."""

    def __init__(self, namespace):
        self.asked, self.failed = 0, []
        self._namespace, self._lock = namespace, threading.Lock()

    def ask(self) -> None:
        with self._lock:
            self.asked += 1
            number = self.asked
        try:
            if not reviewed(self._namespace, number):
                self.failed.append(number)
        except ClusterError as error:
            self.failed.append(f"{number}: {error}")


def test_certificates_rotate_under_load(aged, namespace):
    system, old = aged
    namespace.apply(product.pool("cache"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    wait_until("the webhook answers", lambda: reviewed(namespace, 0), 30)
    seen = set()

    def rotated() -> bool:
        held = system.get("secret", SECRET)["data"]
        seen.add(held["tls.crt"])
        return held["ca.crt"] != old["ca.crt"] and held["tls.crt"] != old["tls.crt"]

    reviews = Reviews(namespace)
    with throughout(reviews.ask, REVIEWERS):
        wait_until("another authority, and its certificate", rotated, ROTATED_S)
        new = first_of(base64.b64decode(system.get("secret", SECRET)["data"]["tls.crt"]).decode())
        replicas = system.get("pod")
        assert len(replicas) == REPLICAS
        wait_until(
            "every replica serves it", lambda: all(served(pod) == new for pod in replicas), 60
        )
        after = reviews.asked + 40
        wait_until("reviews by it", lambda: reviews.asked >= after, 60)
    print(f"{reviews.asked} reviews, {len(seen)} certificates, {len(reviews.failed)} failed")
    assert not reviews.failed
    assert old["tls.crt"] in seen


# covers F-237
def test_certificate_deleted(larder, namespace):
    """Like GitOps tools, which prune unknown objects. Reviews that begin AWAY_S later give a
    cache."""
    namespace.apply(product.pool("cache"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    wait_until("the webhook answers", lambda: reviewed(namespace, 0), 30)
    system = Namespace(product.SYSTEM)
    system.kubectl("delete", "secret", SECRET)
    deleted, back, without = time.monotonic(), None, []
    for number in itertools.count(1):
        begun = time.monotonic()
        if back and begun > back + WATCHED_S:
            break
        if not reviewed(namespace, number):
            without.append(round(begun - deleted, 2))
        if not back and system.kubectl("get", "secret", SECRET, "--ignore-not-found"):
            back = time.monotonic()
        assert begun < deleted + MADE_ANEW_S
    print(
        f"made anew in {back - deleted:.1f} s; {number - 1} reviews, "
        f"without a cache began {without}"
    )
    assert [late for late in without if late >= AWAY_S] == []

    system.kubectl("delete", "secret", SECRET)
    time.sleep(AWAY_S)
    namespace.apply(engine_pod.bare_pod("engine", "cache"))
    assert product.injected(namespace, "engine")
