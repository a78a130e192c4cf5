"""The operator dies, is away, is upgraded, is uninstalled: pods that serve go on serving, and new ones start all the same."""

from __future__ import annotations

import time

import pytest

from harness import cluster, containers, engine_pod, product
from harness.cluster import Namespace, kubectl, wait_until

TAKE_OVER_S = 20


@pytest.fixture
def system(larder):
    """The operator's own namespace. Afterwards the product is installed as it was."""
    yield Namespace(product.SYSTEM)
    product.install()


def attached(namespace, pool: str) -> int:
    return namespace.get("cachepool", pool).get("status", {}).get("pods", {}).get("attached", 0)


def test_leader_killed(system, namespace):
    leader = wait_until("a leader", product.leader, 30)
    containers.kill(system, leader.split("_")[0], "operator")
    killed = time.monotonic()
    namespace.apply(product.pool("after"))
    product.wait_condition(namespace, "cachepool", "after", "Ready", timeout_s=TAKE_OVER_S + 10)
    assert time.monotonic() - killed < TAKE_OVER_S + 10


def test_webhook_down(system, namespace):
    namespace.apply(product.pool("cache"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    system.kubectl("scale", "deployment", "-l", product.OPERATOR, "--replicas=0")
    wait_until("no operator", lambda: not system.get("pod"), 60)  # they answer for some seconds after they were told to go
    namespace.apply(engine_pod.bare_pod("without", "cache"))
    assert not product.injected(namespace, "without")
    product.install()
    namespace.apply(engine_pod.bare_pod("with", "cache"))
    assert product.injected(namespace, "with")


def test_pods_serve_without_operator(system, namespace):
    namespace.apply(product.pool("cache"), *engine_pod.engine("llama", "cache"))
    (pod,) = namespace.wait_ready("llama")
    prompt = engine_pod.prompt()
    cold = engine_pod.answer(namespace, "llama", prompt)

    def warm() -> None:
        engine_pod.forget(pod)
        answer = engine_pod.answer(namespace, "llama", prompt)
        assert answer.token_ids == cold.token_ids and answer.cached_tokens >= engine_pod.whole_chunks(answer)

    product.install("logLevel=debug")  # an upgrade: other pods of the operator
    warm()
    product.uninstall()
    warm()
    assert kubectl("get", "crd", "cachepools.larder.dev", "-o", "name")
    assert namespace.get("cachepool", "cache")
    product.install()
    wait_until("the operator that came back counts the pod", lambda: attached(namespace, "cache") == 1, 90)
    warm()
    (after,) = namespace.pods("llama")
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert containers.restart_count(namespace, pod["metadata"]["name"], "vllm") == 0


def test_api_server_restarted(system, namespace):
    namespace.apply(product.pool("before"))
    product.wait_condition(namespace, "cachepool", "before", "Ready")
    cluster.program("restart", "apiserver")
    namespace.apply(product.pool("after"))
    product.wait_condition(namespace, "cachepool", "after", "Ready", timeout_s=60)
    namespace.apply(engine_pod.bare_pod("engine", "after"))
    assert product.injected(namespace, "engine")
