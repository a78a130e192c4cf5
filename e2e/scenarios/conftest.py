"""Fixtures of the scenarios: the cluster, which must be up, and namespaces of their own."""

from __future__ import annotations

import re

import pytest

from harness import cluster, engine_pod, product


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "pod_security(level): of the test's namespace; privileged without it"
    )


@pytest.fixture(scope="session", autouse=True)
def up() -> None:
    if not (cluster.STATE / "admin.kubeconfig").exists():
        pytest.exit("no cluster here: make e2e-up", returncode=2)
    engine_pod.make_model()


@pytest.fixture(scope="session")
def larder(up):
    """The chart, installed once, and kept for a look at the cluster afterwards."""
    product.install()


@pytest.fixture
def namespace(request):
    """Of the test's own, with the needs of an engine. Its level:
    @pytest.mark.pod_security("restricted")."""
    marker = request.node.get_closest_marker("pod_security")
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:50].strip("-")
    with cluster.Namespace(name, marker.args[0] if marker else "privileged") as ns:
        ns.apply(*engine_pod.claims(ns.name))
        yield ns
        engine_pod.remove_volumes(ns)
