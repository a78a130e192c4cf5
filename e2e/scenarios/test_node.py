"""Placement Node: one larderd for all pods of a node, which share its memory without any backend."""

from __future__ import annotations

import pytest

from harness import containers, engine_pod, product
from harness.cluster import wait_until


@pytest.fixture
def pair(larder, namespace):
    """Two engines on the node, and a prompt that the first has computed."""
    namespace.apply(product.pool("node", placement="Node"))
    product.wait_condition(namespace, "cachepool", "node", "Ready")
    namespace.apply(*engine_pod.engine("llama", "node", replicas=2))
    one, other = namespace.wait_ready("llama", 2, 400)
    prompt = engine_pod.prompt()
    cold = engine_pod.answer_of_pod(one, prompt)
    assert cold.cached_tokens == 0
    return namespace, one, other, prompt, cold


def daemon(namespace):
    found = [pod for pod in namespace.get("pod") if any(c["name"] == "larder" for c in pod["spec"]["containers"])]
    assert len(found) == 1
    return found[0]["metadata"]["name"]


def test_pods_of_a_node_share(pair):
    namespace, _, other, prompt, cold = pair
    warm = engine_pod.answer_of_pod(other, prompt)
    assert warm.token_ids == cold.token_ids
    assert warm.cached_tokens >= engine_pod.whole_chunks(warm)

    # Its larderd is killed: the memory outlives it, and the engines find the next one by themselves.
    name = daemon(namespace)
    restarts = containers.kill(namespace, name, "larder")
    containers.wait_restarted(namespace, name, "larder", restarts)

    def warm_again() -> bool:
        engine_pod.forget(other)
        answer = engine_pod.answer_of_pod(other, prompt)
        assert answer.token_ids == cold.token_ids
        return answer.cached_tokens >= engine_pod.whole_chunks(answer)

    wait_until("warm again", warm_again, 30)
    for pod in namespace.pods("llama"):
        assert containers.restart_count(namespace, pod["metadata"]["name"], "vllm") == 0
