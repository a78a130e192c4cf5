"""Larder as a user installs it: the chart, pools, backends."""

from __future__ import annotations

import json

from harness.cluster import DEFAULT_WAIT_S, ROOT, Namespace, condition, kubectl, run, wait_until

RELEASE, SYSTEM = "larder", "larder-system"
OPERATOR = "app.kubernetes.io/name=larder"
CHART = str(ROOT / "charts" / "larder")
MOONCAKE_IMAGE = "localhost/larder-mooncake:e2e"  # cluster.sh load larder-mooncake
IMAGE = [
    "image.repository=localhost/larder",
    "image.tag=e2e",
    "image.pullPolicy=Never",
    f"mooncake.image={MOONCAKE_IMAGE}",
]


def install(*values: str) -> None:
    """helm install, or upgrade; returns when every replica is ready and the API server reaches one.
    values: as for --set."""
    settings = [word for value in (*IMAGE, *values) for word in ("--set", value)]
    run(
        "helm",
        "upgrade",
        "--install",
        RELEASE,
        CHART,
        "-n",
        SYSTEM,
        "--create-namespace",
        "--wait",
        "--timeout",
        "120s",
        *settings,
    )
    # later than a ready pod: caBundle and Service must follow
    wait_until("the webhook answers", answers, 60)


def uninstall() -> None:
    """Pools, backends and running pods stay."""
    run(
        "helm",
        "uninstall",
        RELEASE,
        "-n",
        SYSTEM,
        "--ignore-not-found",
        "--wait",
        "--timeout",
        "60s",
    )


def answers() -> bool:
    """A pod, never made, that asks for a missing pool: the webhook's answer names the missing
    pool."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asks", "annotations": {"larder.dev/pool": "none"}},
        "spec": {"containers": [{"name": "vllm", "image": "none"}]},
    }
    return "larder.dev/not-injected" in kubectl(
        "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(pod)
    )


def leader() -> str:
    """The name of the pod that holds the lease."""
    lease = json.loads(kubectl("-n", SYSTEM, "get", "lease", "larder-operator", "-o", "json"))
    return lease["spec"].get("holderIdentity", "")


def injected(ns: Namespace, pod: str) -> bool:
    return any(
        one["name"] == "larder" for one in ns.get("pod", pod)["spec"].get("initContainers", [])
    )


def pool(name: str, memory: str | dict = "512Mi", **spec) -> dict:
    """`memory`: the size of the pool's memory, or all memory fields."""
    return {
        "apiVersion": "larder.dev/v1alpha1",
        "kind": "CachePool",
        "metadata": {"name": name},
        "spec": {"memory": memory if isinstance(memory, dict) else {"size": memory}} | spec,
    }


def backend(name: str, **spec) -> dict:
    return {
        "apiVersion": "larder.dev/v1alpha1",
        "kind": "CacheBackend",
        "metadata": {"name": name},
        "spec": spec,
    }


def wait_condition(
    ns: Namespace,
    kind: str,
    name: str,
    what: str,
    status: str = "True",
    timeout_s: float = DEFAULT_WAIT_S,
) -> dict:
    """The condition once it has this status; a failure tells the conditions of that moment."""

    def found() -> dict:
        there = condition(ns.get(kind, name), what)
        return there if there.get("status") == status else {}

    return wait_until(
        f"{kind} {name}: {what} is {status}",
        found,
        timeout_s,
        lambda: json.dumps(ns.get(kind, name).get("status", {}).get("conditions", [])),
    )
