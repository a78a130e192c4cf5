"""The pods of the charts of other stacks, rendered by the stacks' own Helm charts from
manifests/samples/stacks, given to the real webhook.

A dry run: the images and GPUs are not here. The exact results of the injector are goldens
(tests/golden/inject/stack-*)."""

from __future__ import annotations

import json

import pytest

from harness import product
from harness.cluster import ROOT

GOLDEN = ROOT / "tests" / "golden" / "inject"
STACKS = sorted(path.name.removesuffix(".in.yaml") for path in GOLDEN.glob("stack-*.in.yaml"))


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_gets_its_sidecar(larder, namespace, stack):
    namespace.apply(product.pool("llama"))
    text = (
        (GOLDEN / f"{stack}.in.yaml")
        .read_text()
        .replace("namespace: models", f"namespace: {namespace.name}")
    )
    for account in ("llmd-llm-d-modelservice",):
        text = text.replace(f"serviceAccountName: {account}", "serviceAccountName: default")
    pod = json.loads(
        namespace.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=text)
    )
    assert "larder.dev/not-injected" not in pod["metadata"]["annotations"]
    assert "larder" in [one["name"] for one in pod["spec"]["initContainers"]]
    words = json.dumps(pod["spec"]["containers"])
    assert "LarderConnector" in words
    assert ("NixlConnector" in words) == ("llm-d" in stack)
