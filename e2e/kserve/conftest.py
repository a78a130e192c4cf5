"""KServe's controllers for all tests of this folder, in the cluster that the scenarios use."""

from __future__ import annotations

import pytest

from harness import cluster, engine_pod, kserve, kserve_local, product
from scenarios.conftest import larder, namespace, up  # noqa: F401: fixtures


@pytest.fixture(scope="session")
def controllers(larder, tmp_path_factory):  # noqa: F811
    with kserve.KServe(
        cluster.STATE / "admin.kubeconfig", tmp_path_factory.mktemp("kserve")
    ) as running:
        yield running


@pytest.fixture
def models(namespace, controllers):  # noqa: F811
    """A namespace with a pool and KServe's vLLM runtime for this machine; the services go before
    the controllers do."""
    assert controllers.alive(), "KServe's controllers are not running"
    namespace.apply(product.pool("chat"), kserve_local.runtime(kserve.published_runtime(namespace)))
    yield namespace
    assert controllers.alive(), "KServe's controllers ended during the test"
    namespace.kubectl("delete", "inferenceservices,llminferenceservices", "--all", "--timeout=60s")


@pytest.fixture
def ask_twice():
    """Through the service, vLLM's own cache emptied in between: the second answer is warm and the
    same. Returns both answers."""

    def ask(namespace, pod, port, service, model, seed=0):
        prompt = engine_pod.prompt(seed)
        cold = engine_pod.answer_at(f"http://{namespace.address(service)}", model, prompt)
        engine_pod.forget(pod, port)
        warm = engine_pod.answer_at(f"http://{namespace.address(service)}", model, prompt)
        assert cold.cached_tokens == 0
        assert engine_pod.is_warm(warm, cold.token_ids)
        return cold, warm

    return ask
