"""The pods that KServe's live controllers make of services: the injector's golden inputs.

tests/golden/inject/kserve-VERSION-NAME.in.yaml. LARDER_TEST_WRITE_GOLDEN=1 writes the different
ones; op_inject_test writes the outputs."""

import json
import os
from pathlib import Path

import pytest
import yaml
from harness.cluster import ROOT, wait_until
from pod_shape import pod_of_template, shape_of

VERSION = "0.20"
GOLDEN = ROOT / "tests" / "golden" / "inject"
SERVICES = sorted((Path(__file__).parent / "services").glob("*.yaml"))
NAMESPACE = "shapes"
# the number of pods, if not one
PARTS = {"llmisvc-prefill-decode": 2, "llmisvc-offloading-prefill": 2}
TEMPLATES = {"llmisvc-multi-node"}  # a LeaderWorkerSet


@pytest.fixture(scope="module")
def pods(plane):
    """{service: {name of the golden: pod}}. All services are made at once, so the controllers work
    on all of them in parallel."""
    plane.kubectl("create", "namespace", NAMESPACE)
    for path in SERVICES:
        plane.kubectl("-n", NAMESPACE, "apply", "-f", path)
    yield {path.stem: found(plane, path.stem) for path in SERVICES}
    plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def found(plane, service):
    def get(*words):
        return json.loads(plane.kubectl("-n", NAMESPACE, "get", *words, "-o", "json"))

    if service in TEMPLATES:
        sets = wait_until(
            f"a LeaderWorkerSet of {service}", lambda: get("leaderworkersets")["items"], 60
        )
        pieces = sets[0]["spec"]["leaderWorkerTemplate"]
        return {
            f"{service}-{part}": pod_of_template(pieces[f"{part}Template"], service, NAMESPACE)
            for part in ("leader", "worker")
        }
    label = (
        "serving.kserve.io/inferenceservice"
        if service.startswith("isvc")
        else "app.kubernetes.io/name"
    )
    count = PARTS.get(service, 1)

    def all_of_them():
        items = [
            one
            for one in get("pods", "-l", f"{label}={service}")["items"]
            if "router-scheduler" not in one["metadata"]["name"]
        ]
        return items if len(items) == count else None

    items = wait_until(
        f"{count} pods of {service}",
        all_of_them,
        180,
        lambda: json.dumps(get("events")["items"])[-2000:],
    )
    if count == 1:
        return {service: items[0]}

    def role_of(pod):
        name = pod["metadata"]["generateName"].removeprefix(service)
        return "prefill" if "prefill-" in name else "decode"

    return {f"{service}-{role_of(one)}": one for one in items}


@pytest.mark.parametrize("service", [path.stem for path in SERVICES])
def test_pods_are_those_of_the_goldens(plane, pods, service):
    assert plane.kserve.alive(), "KServe's controllers have ended"
    for name, pod in pods[service].items():
        path = GOLDEN / f"kserve-{VERSION}-{name}.in.yaml"
        text = (
            f"# Made by KServe v{VERSION}.0's controllers of "
            f"tests/python/kserve/services/{service}.yaml.\n" + shape_of(pod)
        )
        if os.environ.get("LARDER_TEST_WRITE_GOLDEN"):
            path.write_text(text)
        assert path.exists() and yaml.safe_load(path.read_text()) == yaml.safe_load(text), (
            f"{path} differs: LARDER_TEST_WRITE_GOLDEN=1 writes the file; read the difference"
        )


def test_no_golden_is_left_over(pods):
    made = {f"kserve-{VERSION}-{name}.in.yaml" for parts in pods.values() for name in parts}
    assert {path.name for path in GOLDEN.glob(f"kserve-{VERSION}-*.in.yaml")} == made


@pytest.mark.parametrize("service", [path.stem for path in SERVICES])
def test_the_annotation_reaches_the_pod(pods, service):
    for name, pod in pods[service].items():
        assert pod["metadata"].get("annotations", {}).get("larder.dev/pool") == "llama", name


def test_an_annotation_in_the_metadata_of_an_llm_service_reaches_no_pod(plane, pods):
    """The warning of docs/get-started/kserve.md."""
    service = yaml.safe_load(
        (Path(__file__).parent / "services" / "llmisvc-own-command.yaml").read_text()
    )
    service["metadata"] = {"name": "elsewhere", "annotations": service["spec"].pop("annotations")}
    plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=yaml.safe_dump(service))
    (pod,) = found(plane, "elsewhere").values()
    assert "larder.dev/pool" not in pod["metadata"].get("annotations", {})
