"""The pods of the charts of other stacks, as their own Helm charts render them from manifests/samples/stacks, given to the real webhook.

A dry run: their images and GPUs are not here. What the injector makes of them word for word are goldens (tests/golden/inject/stack-*)."""

from __future__ import annotations

import json

import pytest

from harness import product
from harness.cluster import ROOT, wait_until

GOLDEN = ROOT / "tests" / "golden" / "inject"
STACKS = sorted(path.name.removesuffix(".in.yaml") for path in GOLDEN.glob("stack-*.in.yaml"))


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_gets_its_sidecar(larder, namespace, stack):
    namespace.apply(product.pool("llama"))
    text = (GOLDEN / f"{stack}.in.yaml").read_text().replace("namespace: models", f"namespace: {namespace.name}")
    for account in ("llmd-llm-d-modelservice",):
        text = text.replace(f"serviceAccountName: {account}", "serviceAccountName: default")
    pod = json.loads(namespace.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=text))
    assert "larder.dev/not-injected" not in pod["metadata"]["annotations"]
    assert "larder" in [one["name"] for one in pod["spec"]["initContainers"]]
    words = json.dumps(pod["spec"]["containers"])
    assert "LarderConnector" in words
    assert ("NixlConnector" in words) == ("llm-d" in stack)


def test_the_plain_deployment(larder, namespace):
    """manifests/samples/deployment.yaml as it stands, with its pool and backend."""
    for name in ("backend-managed", "pool", "deployment"):
        namespace.kubectl("apply", "-f", str(ROOT / "manifests" / "samples" / f"{name}.yaml"))
    pods = wait_until("two pods", lambda: len(found := namespace.pods("chat")) == 2 and found, 60)
    assert all(product.injected(namespace, pod["metadata"]["name"]) for pod in pods)
