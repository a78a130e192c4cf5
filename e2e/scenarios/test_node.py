"""Placement Node: one larderd for all pods of a node, which share its memory without any
backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cluster, containers, engine_pod, product
from harness.cluster import wait_until

OLDER = "localhost/older:e2e"  # cluster.sh load older
TODAYS = "localhost/larder:e2e"


@pytest.fixture
def pair(request, larder, namespace):
    """Two engines on the node, and a prompt that the first has computed. The parameter: more of the
    pool's spec."""
    namespace.apply(product.pool("node", placement="Node", **getattr(request, "param", {})))
    product.wait_condition(namespace, "cachepool", "node", "Ready")
    namespace.apply(*engine_pod.engine("llama", "node", replicas=2))
    one, other = namespace.wait_ready("llama", 2, 400)
    prompt = engine_pod.prompt()
    cold = engine_pod.answer_of_pod(one, prompt)
    assert cold.cached_tokens == 0
    yield namespace, one, other, prompt, cold
    # Before the namespace: a pool deleted together with its namespace leaves memory on the node.
    namespace.kubectl("delete", "cachepool", "node", "--ignore-not-found", "--timeout=150s")


@pytest.fixture
def older_image():
    cluster.program("load", "older")


def shim_of(namespace, pod) -> str:
    """A digest of the library that this pod's engine has loaded."""
    return namespace.exec(
        pod["metadata"]["name"], "vllm", "sha256sum", "/larder/python/larder/liblarder.so"
    ).split()[0]


def memory_left(namespace) -> list[str]:
    """The pool's files on this machine, which is the node: arena, index, locks."""
    return sorted(file.name for file in Path("/dev/shm/larder", namespace.name, "node").glob("*"))


def daemons(namespace) -> list[str]:
    """The pods of larderd without a request to end."""
    return [
        pod["metadata"]["name"]
        for pod in namespace.get("pod")
        if "deletionTimestamp" not in pod["metadata"]
        and any(c["name"] == "larder" for c in pod["spec"]["containers"])
    ]


def test_pods_of_a_node_share(pair):
    namespace, _, other, prompt, cold = pair
    assert engine_pod.is_warm(engine_pod.answer_of_pod(other, prompt), cold.token_ids)

    # Kill larderd: the memory stays, and the engines find the next larderd.
    (name,) = daemons(namespace)
    restarts = containers.kill(namespace, name, "larder")
    containers.wait_restarted(namespace, name, "larder", restarts)

    def warm_again() -> bool:
        engine_pod.forget(other)
        return engine_pod.is_warm(engine_pod.answer_of_pod(other, prompt), cold.token_ids)

    wait_until("warm again", warm_again, 30)
    # Delete the pool: the memory is freed, and the engines continue.
    assert memory_left(namespace)
    namespace.kubectl("delete", "cachepool", "node", "--timeout=120s")
    assert memory_left(namespace) == []
    assert not [event for event in namespace.events("node") if event["reason"] == "MemoryNotFreed"]
    assert engine_pod.answer_of_pod(other, prompt).token_ids == cold.token_ids
    for pod in namespace.pods("llama"):
        assert containers.restart_count(namespace, pod["metadata"]["name"], "vllm") == 0


@pytest.mark.parametrize("pair", [{"image": OLDER}], indirect=True)
def test_engines_with_an_older_shim(older_image, pair):
    """Engines started before an upgrade bring the old shim; the pool's larderd is the new one, and
    is also restarted."""
    namespace, one, other, prompt, cold = pair
    before = daemons(namespace)
    namespace.kubectl(
        "patch", "cachepool", "node", "--type=merge", "-p", json.dumps({"spec": {"image": TODAYS}})
    )
    wait_until(
        "the node's larderd is of the new image", lambda: set(daemons(namespace)) - set(before), 120
    )
    product.wait_condition(namespace, "cachepool", "node", "Ready")

    # The older shim stores at the new larderd, and loads chunks of the earlier one.
    engine_pod.wait_attached(other)
    engine_pod.forget(other)
    assert engine_pod.is_warm(engine_pod.answer_of_pod(other, prompt), cold.token_ids)
    theirs = engine_pod.prompt(1)
    stored = engine_pod.answer_of_pod(other, theirs)
    assert stored.cached_tokens == 0

    namespace.kubectl("delete", "pod", one["metadata"]["name"], "--now")
    newer = next(
        pod
        for pod in namespace.wait_ready("llama", 2, 400)
        if pod["metadata"]["uid"] != other["metadata"]["uid"]
    )
    assert shim_of(namespace, newer) != shim_of(namespace, other)
    # Both shims are served side by side. A version may change the names of KV, so that the newer
    # engine misses the chunks of the older one, once: see CHANGELOG.md.
    for asked, answered in ((prompt, cold), (theirs, stored)):
        engine_pod.answer_of_pod(newer, asked)

        def warm_again(asked=asked, answered=answered) -> bool:
            engine_pod.forget(newer)
            return engine_pod.is_warm(engine_pod.answer_of_pod(newer, asked), answered.token_ids)

        wait_until("the newer engine's chunks are found", warm_again, 30)
