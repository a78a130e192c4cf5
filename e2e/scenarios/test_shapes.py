"""Pods of real users: the engine among several containers, beside a connector of the user's own,
behind a mesh."""

from __future__ import annotations

import json
import socket

import pytest

from harness import cluster, containers, engine_pod, product
from harness.cluster import wait_until

FOLDER = "/tmp/example"
EXAMPLE = {
    "kv_connector": "ExampleConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"shared_storage_path": FOLDER},
}
# A container that may be vLLM by the name of its image.
TOOLS = {"name": "tools", "image": engine_pod.TOOLS_IMAGE, "args": ["--watch=/models"]}
PORTS = (9464, 9465)  # metrics of larderd, and its supervisor
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
HANDLERS = {"exec", "httpGet", "tcpSocket", "grpc"}


@pytest.fixture(scope="module")
def images(up):
    cluster.program("load", "vllm-openai")
    cluster.program("load", "vllm-tools")


def composed() -> list[dict]:
    """vLLM by its image's entrypoint, with a connector of the user's own, beside TOOLS."""
    deployment, service = engine_pod.engine("llama", "cache", "entrypoint")
    spec = deployment["spec"]["template"]["spec"]
    spec["containers"][0]["args"] += ["--kv-transfer-config", json.dumps(EXAMPLE)]
    spec["containers"].insert(0, TOOLS)
    return [deployment, service]


def connectors(container: dict) -> list[str]:
    """Of the one MultiConnector that the args ask for."""
    args = container["args"]
    assert args.count("--kv-transfer-config") == 1
    config = json.loads(args[args.index("--kv-transfer-config") + 1])
    assert config["kv_connector"] == "MultiConnector"
    return [one["kv_connector"] for one in config["kv_connector_extra_config"]["connectors"]]


def handlers(pod: dict) -> set[str]:
    """The requests of the injected containers' probes."""
    ours = [one for one in pod["spec"]["initContainers"] if one["name"].startswith("larder")]
    return {key for one in ours for probe in PROBES for key in HANDLERS & one.get(probe, {}).keys()}


# covers F-218
def test_composed_engine_among_several_is_warm(images, larder, namespace):
    namespace.apply(product.pool("cache"), *composed())
    (pod,) = namespace.wait_ready("llama")
    name = pod["metadata"]["name"]
    made = {one["name"]: one for one in pod["spec"]["containers"]}
    assert connectors(made["vllm"]) == ["ExampleConnector", "LarderConnector"]
    assert made["tools"]["args"] == TOOLS["args"] and "env" not in made["tools"]

    prompt = engine_pod.prompt()
    cold = engine_pod.answer(namespace, "llama", prompt)
    assert cold.cached_tokens == 0
    namespace.exec(name, "vllm", "rm", "-r", FOLDER)  # a warm answer now comes from Larder
    engine_pod.forget(pod)
    assert engine_pod.is_warm(engine_pod.answer(namespace, "llama", prompt), cold.token_ids)
    assert containers.restart_count(namespace, name, "vllm") == 0

    # A mesh redirects the connections to all ports of a pod. larderd's container still starts.
    assert handlers(pod) == {"exec"}
    with containers.ports_taken(namespace, name, "vllm", *PORTS):
        with pytest.raises(TimeoutError):
            socket.create_connection((pod["status"]["podIP"], PORTS[0]), timeout=2)
        restarts = containers.kill(namespace, name, "larder")
        containers.wait_restarted(namespace, name, "larder", restarts)


# covers F-239
def test_connector_in_an_array_is_left_alone(larder, namespace):
    """The injector cannot know all words of the array. The pod runs with the user's connector."""
    pod = engine_pod.bare_pod("engine", "cache", "array")
    (container,) = pod["spec"]["containers"]
    container["env"].append({"name": "KV", "value": json.dumps(EXAMPLE)})
    namespace.apply(product.pool("cache"), pod)
    made = namespace.get("pod", "engine")
    print(made["metadata"]["annotations"]["larder.dev/not-injected"])
    assert not product.injected(namespace, "engine")
    assert made["spec"]["containers"][0]["command"] == container["command"]
    wait_until(
        "vLLM names the user's connector",
        lambda: "ExampleConnector" in namespace.logs("engine", "vllm"),
        120,
    )
