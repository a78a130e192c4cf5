"""Two pods of a pool share computed chunks through a backend: a Redis of the user's own with TLS,
or a Valkey of the operator's."""

from __future__ import annotations

import time

import pytest

from harness import engine_pod, product, redis_pod

# This model computes a prompt in a quarter of a second. On a busy machine a load takes longer, and
# Larder lets the engine compute. A longer prompt does not help: behind 4,000 tokens vLLM's own
# prefix cache changes the next words of this model with random weights.
TRIES = 20
MOST_PAUSE_S = 5
PASSWORD = "not a secret: a test's"


def computed_here_loaded_there(namespace):
    """A computed chunk is written to the backend in the background, at some time: each try asks for
    another prompt and waits longer."""
    one, other = namespace.wait_ready("llama", 2, 400)
    for seed in range(TRIES):
        prompt = engine_pod.prompt(seed)
        cold = engine_pod.answer_of_pod(one, prompt)
        assert cold.cached_tokens == 0
        time.sleep(min(seed + 1, MOST_PAUSE_S))
        warm = engine_pod.answer_of_pod(other, prompt)
        # a computed part would be rounded differently
        if warm.cached_tokens >= engine_pod.whole_chunks(warm):
            assert warm.token_ids == cold.token_ids
            return
    pytest.fail(f"no prompt of {TRIES} prompts that one pod computed was warm in the other")


def test_existing_redis_with_tls(larder, namespace):
    certificates = redis_pod.certificates(
        "redis", f"redis.{namespace.name}.svc", f"redis.{namespace.name}"
    )
    namespace.apply(
        redis_pod.secret("redis-tls", **certificates),
        redis_pod.secret("redis-password", password=PASSWORD.encode()),
        *redis_pod.redis("redis", "redis-tls", PASSWORD),
    )
    namespace.wait_ready("redis")
    namespace.apply(
        product.backend(
            "shared",
            endpoints=[f"redis.{namespace.name}.svc:6379"],
            password={"name": "redis-password", "key": "password"},
            tls={"enabled": True, "caSecret": "redis-tls"},
        ),
        product.pool("cache", backendRef={"name": "shared"}),
        *engine_pod.engine("llama", "cache", replicas=2),
    )
    computed_here_loaded_there(namespace)


def test_managed_valkey(larder, namespace):
    namespace.apply(
        product.backend(
            "shared",
            managed={"image": engine_pod.IMAGE, "imagePullPolicy": "Never", "memory": "512Mi"},
        ),
        product.pool("cache", backendRef={"name": "shared"}),
    )
    product.wait_condition(namespace, "cachebackend", "shared", "Ready")
    print(namespace.kubectl("get", "cachebackends", "-o", "wide"))
    namespace.apply(*engine_pod.engine("llama", "cache", replicas=2))
    computed_here_loaded_there(namespace)
