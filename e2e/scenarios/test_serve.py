"""The steps of a user: helm install, a pool of ten lines, one annotation; and the result."""

from __future__ import annotations

import pytest

from harness import containers, engine_pod, product
from harness.cluster import ROOT, kubectl, wait_until


def ask_twice(namespace, service, seed=0):
    """Through the Service, vLLM's own cache emptied in between: the second answer is warm and the
    same."""
    prompt = engine_pod.prompt(seed)
    cold = engine_pod.answer(namespace, service, prompt)
    for pod in namespace.pods(service):
        engine_pod.forget(pod)
    assert cold.cached_tokens == 0
    assert engine_pod.is_warm(engine_pod.answer(namespace, service, prompt), cold.token_ids)


def test_annotated_engine_is_warm(larder, namespace):
    namespace.apply(product.pool("cache"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    namespace.apply(*engine_pod.engine("llama", "cache"))
    (pod,) = namespace.wait_ready("llama")
    assert "larder.dev/not-injected" not in pod["metadata"]["annotations"]
    ask_twice(namespace, "llama")

    def shown() -> bool:
        status = namespace.get("cachepool", "cache").get("status", {})
        return status.get("pods", {}).get("attached") == 1 and status.get("hitRatio", "0%") != "0%"

    wait_until(
        "kubectl get cachepool shows the pod and its hits",
        shown,
        60,
        lambda: namespace.kubectl("get", "cachepool", "-o", "yaml"),
    )
    print(namespace.kubectl("get", "cachepools"))

    # Delete the pool: a running pod keeps its cache.
    namespace.kubectl("delete", "cachepool", "cache", "--timeout=30s")
    assert containers.restart_count(namespace, pod["metadata"]["name"], "vllm") == 0
    ask_twice(namespace, "llama", seed=1)


@pytest.mark.pod_security("restricted")
def test_restricted_namespace(larder, namespace):
    namespace.apply(
        product.pool("cache"), *engine_pod.engine("llama", "cache", security=engine_pod.RESTRICTED)
    )
    namespace.wait_ready("llama")
    ask_twice(namespace, "llama")


@pytest.mark.parametrize("form", ["script", "eval"])
def test_forms_of_command(larder, namespace, form):
    namespace.apply(product.pool("cache"), *engine_pod.engine("llama", "cache", form))
    namespace.wait_ready("llama")
    ask_twice(namespace, "llama")


def test_explained(larder):
    text = kubectl("explain", "cachepool.spec.memory.size")
    assert "Memory" in text and "8Gi" in text


def test_huge_pages(larder, namespace):
    """The cluster has 64 pages of 2 MiB; larderd gets the pages, and its engine needs no such
    page."""
    namespace.apply(
        product.pool("huge", memory={"size": "96Mi", "hugepages": "2Mi"}),
        *engine_pod.engine("llama", "huge"),
    )
    (pod,) = namespace.wait_ready("llama")
    ask_twice(namespace, "llama")
    larderd = next(one for one in pod["spec"]["initContainers"] if one["name"] == "larder")
    assert larderd["resources"]["limits"]["hugepages-2Mi"] == "96Mi"


def test_the_samples_together(larder, namespace):
    """kubectl apply -f FOLDER goes by the files' names: the pool is there before the pods that ask
    for the pool. The pods' image and GPU are not here."""
    namespace.kubectl("apply", "-f", str(ROOT / "manifests" / "samples"))
    pods = wait_until("two pods", lambda: len(found := namespace.pods("chat")) == 2 and found, 60)
    assert all(product.injected(namespace, pod["metadata"]["name"]) for pod in pods)
