"""Two pods of a pool share computed chunks through a Mooncake pool. The plug-ins beside larderd
contribute the memory of the Mooncake pool."""

from __future__ import annotations

import pytest
from test_shared import computed_here_loaded_there

from harness import cluster, engine_pod, product

PORT = 50051


@pytest.fixture(scope="module")
def image(up):
    cluster.program("load", "larder-mooncake")


def master() -> list[dict]:
    """Mooncake's master, as its users deploy it, and its Service."""
    container = {
        "name": "master",
        "image": product.MOONCAKE_IMAGE,
        "command": [
            "/opt/larder/mooncake/mooncake_master",
            "--rpc_address",
            "0.0.0.0",
            "--rpc_port",
            str(PORT),
        ],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
    }
    labels = {"app": "master"}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "master"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "master"},
            "spec": {"selector": labels, "ports": [{"port": PORT}]},
        },
    ]


def start(namespace):
    namespace.apply(
        product.backend(
            "shared",
            type="Mooncake",
            endpoints=[f"master.{namespace.name}.svc:{PORT}"],
            mooncake={"contribute": "256Mi"},
        ),
        product.pool("cache", backendRef={"name": "shared"}),
        *engine_pod.engine("llama", "cache", replicas=2),
    )


def test_pods_share_through_mooncake(image, larder, namespace):
    namespace.apply(*master())
    namespace.wait_ready("master")
    start(namespace)
    computed_here_loaded_there(namespace)
    product.wait_condition(namespace, "cachebackend", "shared", "Ready")
    product.wait_condition(namespace, "cachepool", "cache", "PortsGuarded")
    print(namespace.kubectl("get", "cachebackends,networkpolicies", "-o", "wide"))


def test_engines_start_without_the_master(image, larder, namespace):
    """The plug-in runs and reaches no master: engines serve, and the backend's status says why."""
    start(namespace)
    namespace.wait_ready("llama", 2, 400)
    found = product.wait_condition(namespace, "cachebackend", "shared", "Ready", "False")
    assert found["reason"] == "NotBySidecars"
    namespace.apply(*master())
    product.wait_condition(namespace, "cachebackend", "shared", "Ready")
