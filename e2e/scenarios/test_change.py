"""A pool is changed, a backend's password is replaced: running pods take over the possible changes,
and the pool reports the others."""

from __future__ import annotations

import json

from harness import containers, engine_pod, product, redis_pod
from harness.cluster import wait_until

TAKEN_OVER_S = 150  # a pod sees a changed annotation or Secret after about a minute


def patch(namespace, kind, name, spec):
    namespace.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": spec}))


def test_pool_changed(larder, namespace):
    namespace.apply(
        product.pool("cache", disk={"size": "1Gi"}), *engine_pod.engine("llama", "cache")
    )
    (pod,) = namespace.wait_ready("llama")
    name = pod["metadata"]["name"]
    prompt = engine_pod.prompt()
    cold = engine_pod.answer(namespace, "llama", prompt)

    patch(namespace, "cachepool", "cache", {"disk": {"write": "through"}})
    wait_until(
        "the running larderd has taken the change over",
        lambda: "disk.write" in namespace.logs(name, "larder"),
        TAKEN_OVER_S,
        lambda: namespace.logs(name, "larder", "--tail=5"),
    )
    product.wait_condition(namespace, "cachepool", "cache", "PodsUpToDate", "True")

    patch(namespace, "cachepool", "cache", {"memory": {"size": "256Mi"}})
    there = product.wait_condition(namespace, "cachepool", "cache", "PodsUpToDate", "False")
    print(there["message"])
    assert "restart" in there["message"]
    product.wait_condition(namespace, "cachepool", "cache", "Ready")

    engine_pod.forget(pod)
    assert engine_pod.is_warm(engine_pod.answer(namespace, "llama", prompt), cold.token_ids)
    for container in ("larder", "vllm"):
        assert containers.restart_count(namespace, name, container) == 0


def test_password_replaced(larder, namespace):
    """The Redis comes back with another password, then its Secret is replaced: no pod is started
    anew."""
    namespace.apply(
        redis_pod.secret("redis-password", password=b"first"),
        *redis_pod.redis("redis", password="first"),
    )
    namespace.wait_ready("redis")
    namespace.apply(
        product.backend(
            "shared",
            endpoints=[f"redis.{namespace.name}.svc:6379"],
            password={"name": "redis-password"},
        ),
        product.pool("cache", backendRef={"name": "shared"}),
        *engine_pod.engine("llama", "cache"),
    )
    (pod,) = namespace.wait_ready("llama")
    name = pod["metadata"]["name"]

    def keys(password: str) -> int:
        (server,) = namespace.pods("redis")
        words = namespace.exec(
            server["metadata"]["name"], "redis", "redis-cli", "-a", password, "dbsize"
        ).split()
        return int(words[-1])

    engine_pod.answer(namespace, "llama", engine_pod.prompt(0))
    wait_until("larderd writes to the Redis", lambda: keys("first") > 0, 60)
    namespace.apply(*redis_pod.redis("redis", password="second"))
    namespace.apply(redis_pod.secret("redis-password", password=b"second"))
    namespace.kubectl("rollout", "status", "deployment/redis", "--timeout=60s")
    seeds = iter(range(1, 1000))

    def written_again() -> bool:
        engine_pod.answer(namespace, "llama", engine_pod.prompt(next(seeds)))
        return keys("second") > 0

    wait_until("larderd writes to the Redis with the new password", written_again, TAKEN_OVER_S)
    assert containers.restart_count(namespace, name, "larder") == 0
