"""The steps of a KServe user: one annotation; and the result."""

from __future__ import annotations

import pytest
import yaml

from harness import cluster, engine_pod, kserve, kserve_local
from harness.cluster import ROOT, wait_until
from larder.completions import hit_tokens

SAMPLES = ROOT / "manifests" / "samples" / "kserve"


def sample(name: str) -> dict:
    return yaml.safe_load((SAMPLES / f"{name}.yaml").read_text())


def shown(namespace) -> bool:
    return namespace.get("cachepool", "chat").get("status", {}).get("hitRatio", "0%") != "0%"


CASES = {  # local form; labels of KServe's pods, port, Service; name of the model
    "inferenceservice": (
        kserve_local.inference_service,
        {"app": "isvc.qwen-predictor"},
        8080,
        "qwen-predictor",
        "qwen",
    ),
    "llminferenceservice": (
        kserve_local.llm_inference_service,
        {"app.kubernetes.io/name": "qwen-llm"},
        8000,
        "qwen-llm-kserve-workload-svc",
        "qwen",
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_annotated_service_is_warm(models, ask_twice, kind):
    local, labels, port, service, model = CASES[kind]
    models.apply(local(sample(kind)))
    (pod,) = models.wait_ready(labels, timeout_s=420)
    assert "larder.dev/not-injected" not in pod["metadata"]["annotations"]
    assert any(one["name"] == "larder" for one in pod["spec"]["initContainers"])
    cold, warm = ask_twice(models, pod, port, service, model)
    print(
        f"{kind}: {warm.prompt_tokens} tokens, {warm.cached_tokens} of them hit; first token after "
        f"{cold.ttft_s:.3f} s, then {warm.ttft_s:.3f} s"
    )
    wait_until(
        "the pool shows the hits",
        lambda: shown(models),
        60,
        lambda: models.kubectl("get", "cachepool", "-o", "yaml"),
    )
    print(models.kubectl("get", "cachepools"))


@pytest.fixture(scope="session")
def huggingface_image(controllers):
    cluster.program("load", "huggingfaceserver")


def test_annotated_huggingface_service_is_warm(models, huggingface_image):
    """KServe's own server of its own version, on the vLLM that KServe pins, from an image of the
    same entrypoint, folders and variables. Two other prompts drive the first one out of vLLM's own
    cache."""
    models.apply(
        kserve_local.huggingface_runtime(
            kserve.published_runtime(models, "kserve-huggingfaceserver")
        )
    )
    models.apply(kserve_local.huggingface_service(sample("inferenceservice")))
    (pod,) = models.wait_ready({"app": "isvc.qwen-predictor"}, timeout_s=420)
    assert "larder.dev/not-injected" not in pod["metadata"]["annotations"]
    (engine,) = pod["spec"]["containers"]
    assert "command" not in engine, "the image's entrypoint is to start it"
    url, metrics = f"http://{models.address('qwen-predictor')}/openai", engine_pod.url_of(pod, 8080)
    cold = engine_pod.answer_at(url, "qwen", engine_pod.prompt(0))
    for other in (1, 2):
        engine_pod.answer_at(url, "qwen", engine_pod.prompt(other))
    own, external = hit_tokens(metrics)
    warm = engine_pod.answer_at(url, "qwen", engine_pod.prompt(0))
    assert cold.cached_tokens == own == external == 0
    assert hit_tokens(metrics) == (0, engine_pod.whole_chunks(warm))
    assert warm.token_ids == cold.token_ids
    print(
        f"huggingface: {warm.prompt_tokens} tokens, {warm.cached_tokens} of them hit; first token "
        f"after {cold.ttft_s:.3f} s, then {warm.ttft_s:.3f} s"
    )
    wait_until(
        "the pool shows the hits",
        lambda: shown(models),
        60,
        lambda: models.kubectl("get", "cachepool", "-o", "yaml"),
    )
    print(models.kubectl("get", "cachepools"))
