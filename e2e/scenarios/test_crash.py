"""Containers of a pod die, one after the other: every request is answered, cached chunks are there,
and no resource grows."""

from __future__ import annotations

import os
import signal

import pytest

from harness import by_hand, containers, engine_pod, out_of_memory, product
from harness.cluster import condition, wait_until

RESTARTS = 10
POOL_MIB = 512
GROWTH_MIB = 16  # normal growth of an engine and its allocator


@pytest.fixture
def served(larder, namespace):
    """A serving annotated pod, its prompt, and the tokens of its cold answer."""
    namespace.apply(product.pool("cache", f"{POOL_MIB}Mi"), *engine_pod.engine("llama", "cache"))
    (pod,) = namespace.wait_ready("llama")
    prompt = engine_pod.prompt()
    return (
        namespace,
        pod["metadata"]["name"],
        prompt,
        engine_pod.answer(namespace, "llama", prompt).token_ids,
    )


def ask(namespace, prompt, tokens):
    return engine_pod.is_warm(engine_pod.answer(namespace, "llama", prompt), tokens)


def wait_attached(namespace, name, prompt, tokens):
    """The engine stores again, and earlier chunks are there too. Asked by its own address: the
    Service leaves a pod out while a container of the pod is not ready."""
    pod = namespace.get("pod", name)
    engine_pod.wait_attached(pod)
    engine_pod.forget(pod)
    assert engine_pod.is_warm(engine_pod.answer_of_pod(pod, prompt), tokens)


def test_larderd_killed_ten_times(served):
    """With its supervisor, the container's first process: the kubelet starts the container anew."""
    namespace, name, prompt, tokens = served
    before = containers.charged_mib(namespace.get("pod", name))
    for _ in range(RESTARTS):
        restarts = containers.kill(namespace, name, "larder")
        ask(namespace, prompt, tokens)  # while there is no larderd
        containers.wait_restarted(namespace, name, "larder", restarts)
    wait_attached(namespace, name, prompt, tokens)
    pod = namespace.get("pod", name)
    assert containers.restart_count(namespace, name, "vllm") == 0
    assert containers.charged_mib(pod) < before + GROWTH_MIB
    assert containers.charged_mib(pod, "vllm") < before - POOL_MIB + GROWTH_MIB


def test_larderd_killed_under_its_supervisor(served):
    """The supervisor runs larderd again: Kubernetes sees no change, the pod stays in its
    Service."""
    namespace, name, prompt, tokens = served
    for _ in range(RESTARTS):
        both = wait_until(
            "the supervisor has its larderd",
            lambda: (found := containers.processes(namespace, name, "larder"))[1:] and found,
            30,
        )
        supervisor, larderd = both
        os.kill(larderd, signal.SIGKILL)
        ask(namespace, prompt, tokens)
        assert condition(namespace.get("pod", name), "Ready")["status"] == "True"

        def again() -> bool:
            now = containers.processes(namespace, name, "larder")
            return len(now) == 2 and now[0] == supervisor and now[1] != larderd

        wait_until("the supervisor has run larderd again", again, 30)
    wait_attached(namespace, name, prompt, tokens)
    for container in ("larder", "vllm"):
        assert containers.restart_count(namespace, name, container) == 0


def test_larderd_that_cannot_start_lets_the_engine_start(larder, namespace):
    """Memory of a NUMA node that no machine here has. The engine starts after the grace, and the
    pool reports the reason why the cache does not."""
    namespace.apply(
        product.pool("cache", memory={"size": "512Mi", "numa": "99"}),
        *engine_pod.engine("llama", "cache"),
    )
    namespace.wait_ready("llama")
    assert engine_pod.answer(namespace, "llama", engine_pod.prompt()).token_ids
    there = product.wait_condition(namespace, "cachepool", "cache", "PodsReady", "False", 90)
    print(there["message"])
    assert there["reason"] == "DoesNotRun" and "numa" in there["message"].lower()


def test_engine_killed(served):
    namespace, name, prompt, tokens = served
    restarts = containers.kill(namespace, name, "vllm", signal.SIGKILL)
    containers.wait_restarted(namespace, name, "vllm", restarts, 240)
    assert ask(namespace, prompt, tokens)  # the first request hits chunks of the earlier engine
    assert containers.restart_count(namespace, name, "larder") == 0


# covers F-215
def test_engine_out_of_memory(served):
    """The kernel kills one of vLLM's processes, the largest; the pod's larderd and its memory stay,
    and vLLM is started anew."""
    namespace, name, prompt, tokens = served
    restarts = containers.restart_count(namespace, name, "vllm")
    out_of_memory.exhaust(namespace, name, "vllm")
    containers.wait_restarted(namespace, name, "vllm", restarts, 240)
    assert containers.ended_by(namespace.get("pod", name), "vllm") == "OOMKilled"
    assert ask(namespace, prompt, tokens)  # its first request
    assert containers.restart_count(namespace, name, "larder") == 0


# covers F-213, F-214
def test_injected_larderd_out_of_memory(served):
    """The injected container, with its memory taken by another process of its control group. That
    process asks for more until its end. If the kernel is slow to take back larderd's memory, the
    kernel kills the supervisor too, and the kubelet starts the container anew."""
    namespace, name, prompt, tokens = served
    engine = containers.main_process(namespace, name, "vllm")
    out_of_memory.exhaust(namespace, name, "larder")
    ask(namespace, prompt, tokens)  # while there is no larderd
    wait_until(
        "larderd runs beside its supervisor",
        lambda: len(containers.processes(namespace, name, "larder")) == 2,
        60,
    )
    wait_attached(namespace, name, prompt, tokens)
    assert containers.main_process(namespace, name, "vllm") == engine


# covers F-214
def test_larderd_out_of_memory(namespace):
    """A limit below larderd's arena, which the operator would not set: the kernel kills larderd
    again and again, and no other process."""
    namespace.apply(
        *by_hand.with_larder(
            engine_pod.engine("llama", None), "small", POOL_MIB, limit_mib=POOL_MIB // 2
        )
    )

    def killed() -> bool:
        pods = namespace.pods("llama")
        return bool(pods) and containers.ended_by(pods[0], "larder") == "OOMKilled"

    wait_until("larderd is killed for memory", killed, 60)
    name = namespace.pods("llama")[0]["metadata"]["name"]
    wait_until(
        "the engine answers",
        lambda: engine_pod.answer(namespace, "llama", engine_pod.prompt()).token_ids,
        240,
    )
    assert containers.restart_count(namespace, name, "vllm") == 0
