"""The operator dies, is away, is upgraded, is uninstalled: serving pods go on serving, and new pods
start all the same."""

from __future__ import annotations

import os
import signal
import time

import pytest

from harness import cluster, containers, engine_pod, product
from harness.cluster import Namespace, kubectl, throughout, wait_until

TAKE_OVER_S = 20
REVIEW_S = 5  # the chart's timeout of a review


@pytest.fixture
def system(larder):
    """The operator's own namespace. Afterwards the product is installed as before."""
    yield Namespace(product.SYSTEM)
    product.install()


def leading_pod() -> str:
    return wait_until("a leader", product.leader, 30).split("_")[0]


def attached(namespace, pool: str) -> int:
    return namespace.get("cachepool", pool).get("status", {}).get("pods", {}).get("attached", 0)


@pytest.fixture
def warm(system, namespace):
    """Asks a serving pod an earlier prompt: the answer is warm, from the same containers, in any
    state of the operator."""
    namespace.apply(product.pool("cache"), *engine_pod.engine("llama", "cache"))
    (pod,) = namespace.wait_ready("llama")
    name, prompt = pod["metadata"]["name"], engine_pod.prompt()
    cold = engine_pod.answer(namespace, "llama", prompt)

    def ask() -> None:
        engine_pod.forget(pod)
        assert engine_pod.is_warm(engine_pod.answer(namespace, "llama", prompt), cold.token_ids)
        assert [one["metadata"]["uid"] for one in namespace.pods("llama")] == [
            pod["metadata"]["uid"]
        ]
        assert containers.restart_count(namespace, name, "vllm") == 0

    return ask


def runs_without(namespace, name: str) -> None:
    """The annotated pod has no cache, and runs."""
    assert not product.injected(namespace, name)
    wait_until(
        f"{name} runs", lambda: namespace.get("pod", name)["status"]["phase"] == "Running", 60
    )


# covers F-246
def test_leader_killed(system, namespace, warm):
    containers.kill(system, leading_pod(), "operator")
    killed = time.monotonic()
    namespace.apply(product.pool("after"))
    product.wait_condition(namespace, "cachepool", "after", "Ready", timeout_s=TAKE_OVER_S)
    print(f"another acts after {time.monotonic() - killed:.1f} s")
    warm()


# covers F-248
def test_webhook_down(system, namespace):
    namespace.apply(product.pool("cache"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    system.kubectl("scale", "deployment", "-l", product.OPERATOR, "--replicas=0")
    # terminating pods answer for some seconds
    wait_until("no operator", lambda: not system.get("pod"), 60)
    namespace.apply(engine_pod.bare_pod("without", "cache"))
    runs_without(namespace, "without")
    product.install()
    namespace.apply(engine_pod.bare_pod("with", "cache"))
    assert product.injected(namespace, "with")


# covers F-248
def test_webhook_hangs(system, namespace):
    namespace.apply(product.pool("cache"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    hung = [
        containers.main_process(system, pod["metadata"]["name"], "operator")
        for pod in system.get("pod")
    ]
    for process in hung:
        os.kill(process, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        namespace.apply(engine_pod.bare_pod("without", "cache"))
        assert time.monotonic() - begun < REVIEW_S + 5
        runs_without(namespace, "without")
    finally:
        for process in hung:
            os.kill(process, signal.SIGCONT)
    wait_until("the webhook answers again", product.answers, 60)


def test_pods_serve_without_operator(system, namespace, warm):
    with throughout(warm):
        product.install("logLevel=debug")  # an upgrade with new pods of the operator
        product.uninstall()
    warm()
    assert kubectl("get", "crd", "cachepools.larder.dev", "-o", "name")
    assert namespace.get("cachepool", "cache")
    product.install()
    wait_until(
        "the operator that came back counts the pod", lambda: attached(namespace, "cache") == 1, 90
    )
    warm()


def test_api_server_restarted(system, namespace):
    namespace.apply(product.pool("before"))
    product.wait_condition(namespace, "cachepool", "before", "Ready")
    cluster.program("restart", "apiserver")
    namespace.apply(product.pool("after"))
    product.wait_condition(namespace, "cachepool", "after", "Ready", timeout_s=60)
    namespace.apply(engine_pod.bare_pod("engine", "after"))
    assert product.injected(namespace, "engine")


# covers F-247
def test_watches_cut(system, namespace):
    """Every connection of the leader to the API server breaks: the watches go on from their
    places."""
    namespace.apply(product.pool("before"))
    product.wait_condition(namespace, "cachepool", "before", "Ready")
    service = cluster.Namespace("default").get("service", "kubernetes")["spec"]["clusterIP"]
    assert containers.cut_connections(system, leading_pod(), "operator", f"{service}:443") > 0
    namespace.apply(product.pool("after"))
    product.wait_condition(namespace, "cachepool", "after", "Ready", timeout_s=30)
    namespace.apply(engine_pod.bare_pod("engine", "after"))
    assert product.injected(namespace, "engine")
    assert containers.restart_count(system, leading_pod(), "operator") == 0
