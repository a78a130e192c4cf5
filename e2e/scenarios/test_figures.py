"""Larder's addition to a pod's start, and the time of an installation: build/bench/e2e.json."""

from __future__ import annotations

import statistics
import time

from harness import engine_pod, goals, product
from harness.cluster import ROOT, is_ready, wait_until

ROUNDS = 3
MOST_ADDED_S = 3


def times_of(namespace, name: str, annotated: bool) -> dict[str, float]:
    """Seconds from the pod's creation to the start of its engine's container, and to the first
    token of a short prompt; the same pod with and without the annotation."""
    pod = engine_pod.bare_pod(name, "cache" if annotated else None)
    pod["spec"]["containers"] = [engine_pod.engine_container()]
    begin = time.monotonic()
    namespace.apply(pod)

    def running() -> bool:
        statuses = namespace.get("pod", name)["status"].get("containerStatuses", [])
        return any("running" in one["state"] or "terminated" in one["state"] for one in statuses)

    def ready() -> dict | None:
        found = namespace.get("pod", name)
        return found if is_ready(found) else None

    wait_until("the engine's container starts", running, 60)
    started = time.monotonic() - begin
    assert product.injected(namespace, name) == annotated
    engine = wait_until("the engine is ready", ready, 240)
    asked = time.monotonic() - begin
    token = asked + engine_pod.answer_of_pod(engine, "Once upon a time").ttft_s
    namespace.kubectl("delete", "pod", name, "--now")
    return {"container_s": started, "first_token_s": token}


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def installed_after(namespace) -> float:
    """Seconds from `helm install` to a pool that is Ready. The product was away before."""
    product.uninstall()
    begin = time.monotonic()
    product.install()
    namespace.apply(product.pool("first"))
    product.wait_condition(namespace, "cachepool", "first", "Ready")
    return time.monotonic() - begin


def test_figures(larder, namespace):
    install_s = installed_after(namespace)
    namespace.apply(product.pool("cache"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    plain, annotated = [], []
    for number in range(ROUNDS):  # in turns, so that both see the same load of the machine
        plain.append(times_of(namespace, f"plain-{number}", False))
        annotated.append(times_of(namespace, f"annotated-{number}", True))
    without, added = (
        medians(plain),
        {name: value - medians(plain)[name] for name, value in medians(annotated).items()},
    )
    figures = [
        goals.figure("e2e.install_s", install_s),
        goals.figure("e2e.plain_first_token_s", without["first_token_s"]),
        goals.goal("e2e.added_start_s", added["first_token_s"], "<=", MOST_ADDED_S),
        goals.figure("e2e.plain_container_start_s", without["container_s"]),
        goals.figure("e2e.added_container_start_s", added["container_s"]),
    ]
    goals.write(
        ROOT / "build" / "bench" / "e2e.json",
        "e2e",
        [{"plain": a, "annotated": b} for a, b in zip(plain, annotated)],
        figures,
    )
    goals.print_goals(figures)
