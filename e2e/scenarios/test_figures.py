"""What Larder adds to a pod's start and what an installation takes: build/bench/e2e.json."""

from __future__ import annotations

import time

from harness import engine_pod, goals, product
from harness.cluster import ROOT, wait_until

ROUNDS = 3
MOST_ADDED_S = 3


def started_after(namespace, name: str, annotated: bool) -> float:
    """Seconds from the pod's creation to the start of its engine's container; the same pod with and without the annotation."""
    pod = engine_pod.bare_pod(name, "cache")
    if not annotated:
        pod["metadata"]["annotations"] = {}
    begin = time.monotonic()
    namespace.apply(pod)

    def running() -> bool:
        statuses = namespace.get("pod", name)["status"].get("containerStatuses", [])
        return any("running" in one["state"] or "terminated" in one["state"] for one in statuses)

    wait_until("the engine's container starts", running, 60)
    took = time.monotonic() - begin
    assert product.injected(namespace, name) == annotated
    namespace.kubectl("delete", "pod", name, "--now")
    return took


def test_added_start(larder, namespace):
    namespace.apply(product.pool("cache"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    plain, annotated = [], []
    for number in range(ROUNDS):  # in turns: the machine's mood is the same for both
        plain.append(started_after(namespace, f"plain-{number}", False))
        annotated.append(started_after(namespace, f"annotated-{number}", True))
    added = sorted(annotated)[ROUNDS // 2] - sorted(plain)[ROUNDS // 2]
    figures = [goals.figure("e2e.plain_start_s", sorted(plain)[ROUNDS // 2]), goals.goal("e2e.added_start_s", added, "<=", MOST_ADDED_S)]
    goals.write(ROOT / "build" / "bench" / "e2e.json", "e2e", [{"plain_s": a, "annotated_s": b} for a, b in zip(plain, annotated)], figures)
    goals.print_goals(figures)
    assert added <= MOST_ADDED_S
