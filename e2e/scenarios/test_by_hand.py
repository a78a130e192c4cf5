"""Before any operator: larderd, the payload and an engine in a pod written by hand."""

from __future__ import annotations

import pytest

from harness import by_hand, engine_pod
from harness.cluster import condition


@pytest.mark.pod_security("restricted")
def test_pod_by_hand_is_warm(namespace):
    namespace.apply(
        *by_hand.with_larder(
            engine_pod.engine("llama", None, security=engine_pod.RESTRICTED), "hand"
        )
    )
    (pod,) = namespace.wait_ready("llama")
    prompt = engine_pod.prompt()
    cold = engine_pod.answer(namespace, "llama", prompt)
    engine_pod.forget(pod)
    assert cold.cached_tokens == 0
    assert engine_pod.is_warm(engine_pod.answer(namespace, "llama", prompt), cold.token_ids)
    assert condition(pod, "Ready")["status"] == "True"
