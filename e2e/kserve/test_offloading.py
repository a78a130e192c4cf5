"""KServe's own offloading and Larder's annotation at one service: the pod has one of the two, and
says which and why."""

from __future__ import annotations

import json

from test_serve import sample

from harness import kserve_local, product
from harness.cluster import wait_until

# this node has no GPU: the test reads the pods without running
GPU = {"limits": {"nvidia.com/gpu": "1"}}


LABELS = {"app.kubernetes.io/name": "qwen-llm"}


def with_offloading() -> dict:
    service = kserve_local.llm_inference_service(sample("llminferenceservice"))
    service["spec"]["kvCacheOffloading"] = {"cpu": "1Gi"}
    service["spec"]["template"]["containers"][0]["resources"] = GPU
    return service


def test_offloading_is_named_and_left_alone(models):
    models.apply(with_offloading())
    (pod,) = wait_until("a pod", lambda: models.pods(LABELS), 60)
    why = pod["metadata"]["annotations"]["larder.dev/not-injected"]
    assert "kvCacheOffloading" in why and "; remove" in why
    assert not product.injected(models, pod["metadata"]["name"])
    owner = pod["metadata"]["ownerReferences"][0]["name"]
    wait_until(
        "an Event on the owner with the reason",
        lambda: [one for one in models.events(owner) if "kvCacheOffloading" in one["message"]],
        30,
    )

    # The remedy works: without kvCacheOffloading the next pod has a cache.
    models.kubectl(
        "patch",
        "llminferenceservice",
        "qwen-llm",
        "--type",
        "json",
        "-p",
        json.dumps([{"op": "remove", "path": "/spec/kvCacheOffloading"}]),
    )
    wait_until(
        "an injected pod",
        lambda: [
            one for one in models.pods(LABELS) if product.injected(models, one["metadata"]["name"])
        ],
        60,
    )
