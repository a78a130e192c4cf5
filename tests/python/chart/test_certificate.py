"""The webhook's certificate after changes by GitOps tools, Helm and people: back within a second,
by the chart's own rights.

Pods made without the certificate get no cache, and a sync makes its pods in the same second."""

import json
import time

import operator_process
import programs
import pytest
from cluster import POOL, eventually
from engine_pod import made_anew

CONFIGURATION = ("mutatingwebhookconfiguration", "larder")
SECRET = ("secret", "larder-webhook-tls", "-n", "larder-system")
MOST = 1.0  # seconds


@pytest.fixture(scope="module")
def running(cluster, tmp_path_factory):
    if not operator_process.program().exists():
        pytest.skip(f"no {operator_process.program()} (make build)")
    if operator_process.own_address() is None:
        pytest.skip(
            "this machine has no address but loopback: the API server could not reach the webhook"
        )
    cluster.namespace("synced")
    with (
        cluster.installed(),
        operator_process.running(cluster, tmp_path_factory.mktemp("operator")) as process,
    ):
        eventually(lambda: bundle(cluster))
        cluster.kubectl(
            "apply", "-n", "synced", "-f", "-", stdin={**POOL, "metadata": {"name": "chat"}}
        )
        eventually(lambda: made_anew(cluster, "synced", "engine"))
        yield process


def bundle(cluster):
    """The caBundle of all entries; "" if one entry has no caBundle."""
    found = cluster.kubectl("get", *CONFIGURATION, "--ignore-not-found", "-o", "json")
    entries = json.loads(found)["webhooks"] if found.strip() else []
    bundles = {one["clientConfig"].get("caBundle", "") for one in entries}
    return bundles.pop() if len(bundles) == 1 else ""


def whole(cluster):
    """Whether there is a certificate, of an authority that the API server is told."""
    found = cluster.get(
        "secrets", "-n", "larder-system", "--field-selector=metadata.name=larder-webhook-tls"
    )["items"]
    return (
        bool(found)
        and bool(found[0]["data"].get("tls.crt"))
        and bundle(cluster) == found[0]["data"]["ca.crt"]
    )


def manifest(helm):
    return programs.the(helm.template(), "MutatingWebhookConfiguration")


def replace(cluster, helm):
    cluster.kubectl("replace", "-f", "-", stdin=manifest(helm))


def make_again(cluster, helm):
    cluster.kubectl("delete", *CONFIGURATION)
    cluster.kubectl("create", "-f", "-", stdin=manifest(helm))


def force(cluster, helm):
    cluster.upgrade("--force", "--set", "webhook.timeoutSeconds=6")


def strip(cluster, helm):
    cluster.kubectl(
        "patch",
        *CONFIGURATION,
        "--type=json",
        "-p",
        '[{"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"}]',
    )


@pytest.mark.parametrize("act", [replace, make_again, force, strip], ids=lambda act: act.__name__)
# covers F-237
def test_the_authority_is_back(running, cluster, helm, act):
    before = bundle(cluster)
    assert before
    act(cluster, helm)
    began = time.monotonic()
    eventually(lambda: bundle(cluster) == before, 15)
    took = time.monotonic() - began
    print(f"{act.__name__}: back after {took:.2f} s")
    assert took <= MOST
    eventually(lambda: made_anew(cluster, "synced", "engine"), 15)


# covers F-237
def test_a_deleted_secret_is_made_anew(running, cluster):
    before = cluster.get(*SECRET)["data"]
    cluster.kubectl("delete", *SECRET)
    began = time.monotonic()
    eventually(
        lambda: whole(cluster) and cluster.get(*SECRET)["data"]["tls.crt"] != before["tls.crt"], 15
    )
    took = time.monotonic() - began
    print(f"deleted Secret: back after {took:.2f} s")
    assert took <= MOST
    # The certificate is served as soon: the next pod has its cache (the API server learns of the
    # caBundle by a watch of its own).
    eventually(lambda: made_anew(cluster, "synced", "engine"), 5)
