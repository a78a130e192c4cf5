"""A namespace asks for its engines' caches by a label. A LimitRange or a ResourceQuota costs a pod
the cache, and never the start."""

from __future__ import annotations

import pytest
from test_operator import runs_without
from test_serve import ask_twice

from harness import engine_pod, product
from harness.cluster import kubectl, wait_until

# An engine of these scenarios requests 2Gi of memory and has a limit of 6Gi.
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "team"},
    "spec": {
        "limits": [
            {"type": "Container", "min": {"cpu": "100m"}},
            {"type": "Pod", "max": {"memory": "8Gi"}},
        ]
    },
}
# Room for one engine with a cache of 512Mi and three engines without, but not for a second cache.
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "share"},
    "spec": {"hard": {"requests.memory": "9Gi"}},
}
BEFORE_THE_LAST = "6984Mi"  # three engines, one cache, and LITTLE
LITTLE = {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}


@pytest.fixture
def team(larder, namespace):
    """The namespace asks for caches of the pool `cache`, and has limits and a quota."""
    namespace.apply(LIMITS, QUOTA, product.pool("cache"), product.pool("wide", "4Gi"))
    product.wait_condition(namespace, "cachepool", "cache", "Ready")
    kubectl("label", "namespace", namespace.name, "larder.dev/pool=cache")
    return namespace


def annotations(namespace, name: str) -> dict[str, str]:
    return namespace.get("pod", name)["metadata"].get("annotations", {})


def told(namespace, name: str) -> list[str]:
    """The operator's Events of the pod."""
    return [
        one["message"]
        for one in namespace.events(name)
        if one["reportingComponent"] == "larder-operator"
    ]


def left_alone(namespace, name: str, word: str) -> None:
    """The pod runs without a cache; annotation and Event give the reason, which has this word."""
    why = annotations(namespace, name)["larder.dev/not-injected"]
    print(why)
    assert word in why
    wait_until("an Event with the reason", lambda: word in "".join(told(namespace, name)), 30)
    runs_without(namespace, name)


def used(namespace) -> str:
    return namespace.get("resourcequota", "share")["status"]["used"]["requests.memory"]


# covers F-219, F-220
def test_namespace_asks_within_its_limits(team):
    team.apply(*engine_pod.engine("llama", None))
    (pod,) = team.wait_ready("llama")
    ask_twice(team, "llama")
    payload = next(one for one in pod["spec"]["initContainers"] if one["name"] == "larder-payload")
    assert payload["resources"]["requests"]["cpu"] == "100m"  # 10m, raised to the minimum

    declines, other = (engine_pod.bare_pod(name, None) for name in ("declines", "other"))
    declines["metadata"]["annotations"] = {"larder.dev/inject": "false"}
    sleeps = {"command": ["sleep"], "args": ["infinity"], "resources": LITTLE}
    other["spec"]["containers"][0] |= sleeps
    team.apply(declines, other)
    runs_without(team, "declines")
    runs_without(team, "other")
    assert not any(key.startswith("larder.dev/") for key in annotations(team, "other"))
    assert not told(team, "other")

    team.apply(engine_pod.bare_pod("wide", "wide"))  # the annotation wins over the label
    left_alone(team, "wide", "LimitRange team")
    wait_until(
        "the quota counts all pods", lambda: used(team) == BEFORE_THE_LAST, 30, lambda: used(team)
    )
    team.apply(engine_pod.bare_pod("last", None))
    left_alone(team, "last", "ResourceQuota share")
