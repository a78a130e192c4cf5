"""Mistakes of users: the condition, Event or annotation names the mistake and the remedy, and the
pod starts."""

from __future__ import annotations

import pytest

from harness import engine_pod, product
from harness.cluster import ClusterError, condition, wait_until


def test_no_such_pool(larder, namespace):
    namespace.apply(product.pool("cache"), *engine_pod.engine("llama", "cahce"))
    (pod,) = wait_until("the pod", lambda: namespace.pods("llama"), 30)
    why = pod["metadata"]["annotations"]["larder.dev/not-injected"]
    print(why)
    assert "cahce" in why and "CachePool" in why
    owner = pod["metadata"]["ownerReferences"][0]["name"]
    events = wait_until(
        "an Event on the owner",
        lambda: [e for e in namespace.events(owner) if "cahce" in e["message"]],
        30,
    )
    print(events[0]["message"])
    wait_until(
        "the pod's containers start",
        lambda: namespace.get("pod", pod["metadata"]["name"])["status"]["phase"] == "Running",
        60,
    )


def test_not_an_engine(larder, namespace):
    pod = engine_pod.bare_pod("web", "cache")
    pod["spec"]["containers"][0] |= {"command": ["sleep"], "args": ["infinity"]}
    namespace.apply(product.pool("cache"), pod)
    assert not product.injected(namespace, "web")
    print(namespace.get("pod", "web")["metadata"]["annotations"]["larder.dev/not-injected"])


def test_no_such_backend(larder, namespace):
    namespace.apply(product.pool("cache", backendRef={"name": "nowhere"}))

    def said() -> str:
        conditions = namespace.get("cachepool", "cache").get("status", {}).get("conditions", [])
        return next((one["message"] for one in conditions if "nowhere" in one["message"]), "")

    print(wait_until("a condition that names the backend", said, 30))
    namespace.apply(engine_pod.bare_pod("engine", "cache"))
    assert product.injected(namespace, "engine")  # with only memory


def test_unreachable_backend_is_reported(larder, namespace):
    namespace.apply(product.backend("away", endpoints=[f"away.{namespace.name}.svc:6379"]))
    there = product.wait_condition(namespace, "cachebackend", "away", "Ready", "False", 60)
    print(there["message"])
    assert "away" in there["message"]


def test_no_such_secret(larder, namespace):
    namespace.apply(
        product.backend(
            "locked",
            endpoints=[f"redis.{namespace.name}.svc:6379"],
            password={"name": "missing", "key": "password"},
        )
    )
    # The chart lists no namespace with readable Secrets for the operator.
    there = product.wait_condition(
        namespace, "cachebackend", "locked", "SecretMissing", "Unknown", 60
    )
    print(there["message"])
    assert "Secret missing" in there["message"] and "backendSecrets" in there["message"]


@pytest.fixture
def reading_secrets(larder, namespace):
    """The operator may read the namespace's Secrets."""
    product.install(f"backendSecrets[0].namespace={namespace.name}")
    yield namespace
    product.install()


def test_no_such_secret_where_secrets_may_be_read(reading_secrets):
    namespace = reading_secrets
    namespace.apply(
        product.backend(
            "locked",
            endpoints=[f"redis.{namespace.name}.svc:6379"],
            password={"name": "missing", "key": "password"},
        )
    )
    there = product.wait_condition(namespace, "cachebackend", "locked", "SecretMissing", "True", 60)
    print(there["message"])
    assert there["reason"] == "NotFound" and "missing" in there["message"]


@pytest.mark.parametrize("memory, word", [("8GB", "8Gi"), ("1Ki", "16Mi")])
def test_invalid_sizes_are_refused_with_remedy(larder, namespace, memory, word):
    with pytest.raises(ClusterError, match=word):
        namespace.apply(product.pool("wrong", memory))


def test_limit_below_memory(larder, namespace):
    with pytest.raises(ClusterError, match="resources.limits.memory"):
        namespace.apply(product.pool("wrong", "8Gi", resources={"limits": {"memory": "1Gi"}}))


def test_more_memory_than_any_node_has(larder, namespace):
    namespace.apply(product.pool("wide", "1Ti"), engine_pod.bare_pod("engine", "wide"))

    def said() -> str:
        there = condition(namespace.get("cachepool", "wide"), "PodsReady")
        return (
            there["message"]
            if there.get("reason") == "NotScheduled" and "Insufficient memory" in there["message"]
            else ""
        )

    print(wait_until("the pool says that no node has the memory", said, 60))


def test_missing_huge_pages_are_reported(larder, namespace):
    namespace.apply(product.pool("huge", memory={"size": "8Gi", "hugepages": "2Mi"}))
    namespace.apply(engine_pod.bare_pod("engine", "huge"))  # waits for a node with huge pages
    there = product.wait_condition(namespace, "cachepool", "huge", "HugepagesMissing", "True", 60)
    print(there["message"])
    assert "nr_hugepages" in there["message"]
