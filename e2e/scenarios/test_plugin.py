"""`kubectl larder` in the user's shell. The test reads its reports about serving pods, a pod left
alone, pods not made yet, and the memory that pods need."""

from __future__ import annotations

import http.client
import itertools
import json
import ssl

import pytest
from test_serve import ask_twice

from harness import engine_pod, product
from harness.cluster import STATE, container_status, wait_until
from harness.plugin import API_NAME, TRACED_S, Plugin

METRICS_PORT = 9464
BROWSER = {"Host": "evil.example", "Accept-Encoding": "gzip, deflate, br"}


@pytest.fixture
def plugin(namespace, tmp_path):
    return Plugin(namespace, tmp_path)


def written(tmp_path, *objects: dict) -> str:
    path = tmp_path / "given.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return str(path)


def test_plugin(larder, namespace, plugin, tmp_path):
    namespace.apply(
        product.pool("cache"),
        *engine_pod.engine("llama", "cache"),
        engine_pod.bare_pod("lost", "cahce"),
    )
    (pod,) = namespace.wait_ready("llama")
    name = pod["metadata"]["name"]
    ask_twice(namespace, "llama")
    ask_twice(namespace, "llama", seed=1)

    said = plugin.until("yes        yes", "pods")
    assert "lost" in said
    of_pods = {one["pod"]: one for one in plugin.json("pods")["pods"]}
    assert of_pods[name]["attached"] and of_pods[name]["larderd"]["tokensHit"] > 0
    assert not of_pods["lost"]["injected"]

    status, said = plugin("why", name)
    assert status == 0 and "has a cache" in said, said
    status, said = plugin("why", "lost")
    assert status == 1 and "cahce" in said, said
    assert "lost" in plugin.until("Is it helping?  yes", "status")  # by the operator's last look
    status, said = plugin("top", "--once")
    assert status == 0 and name in said, said

    trace = tmp_path / "trace.jsonl"
    # new prompts, which vLLM's own cache lacks
    prompts = map(engine_pod.prompt, itertools.count(2))

    def recorded() -> bool:
        engine_pod.answer(namespace, "llama", next(prompts))
        return trace.stat().st_size > 0

    with plugin.tracing(name, trace):
        wait_until("a request is recorded", recorded, TRACED_S)
    status, said = plugin("simulate", str(trace), "--sizes", "64MiB,512MiB")
    print(said)
    assert status == 0 and "%" in said, said


def test_check_before_a_rollout(larder, namespace, plugin, tmp_path):
    """The API server reports the pods that it would make, and makes no pod."""
    namespace.apply(product.pool("cache"), product.pool("wide", "4Gi"))
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "team"},
            "spec": {"limits": [{"type": "Pod", "max": {"memory": "8Gi"}}]},
        }
    )
    product.wait_condition(namespace, "cachepool", "wide", "Ready")
    deployment, service = engine_pod.engine("llama", "cache")
    status, said = plugin("check", "-f", written(tmp_path, deployment, service))
    print(said)
    assert status == 0, said
    assert f"Deployment {namespace.name}/llama: the pods get a cache of pool cache." in said
    assert "+    name: larder-payload" in said

    status, said = plugin("check", "-f", written(tmp_path, *engine_pod.engine("llama", "wide")))
    assert status == 1 and "LimitRange team" in said, said
    status, said = plugin("check", "-f", written(tmp_path, *engine_pod.engine("llama", "cahce")))
    assert status == 1 and "NoSuchPool" in said, said
    assert not namespace.get("pod") and not namespace.get("deployment")


def passed_on(path: str, **headers: str) -> int:
    """The status of a request that the API server passes on for a client with these headers."""
    trusted = ssl.create_default_context(cafile=str(STATE / "pki" / "ca.crt"))
    trusted.load_cert_chain(STATE / "pki" / "admin.crt", STATE / "pki" / "admin.key")
    api_server = http.client.HTTPSConnection("127.0.0.1", 6443, timeout=10, context=trusted)
    return status_of(api_server, path, **headers)


def status_of(connection: http.client.HTTPConnection, path: str, **headers: str) -> int:
    connection.putrequest("GET", path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


# covers F-124
def test_larderd_answers_the_api_server_under_any_name(larder, namespace, plugin):
    """larderd refuses an unknown Host; the API server passes its own name on."""
    namespace.apply(product.pool("cache"), engine_pod.bare_pod("engine", "cache"))

    def ready() -> bool:
        return container_status(namespace.get("pod", "engine"), "larder")["ready"]

    wait_until("larderd is ready", ready, 60)
    address = namespace.get("pod", "engine")["status"]["podIP"]
    proxied = f"/api/v1/namespaces/{namespace.name}/pods/engine:{METRICS_PORT}/proxy/v1/status"

    assert json.loads(plugin.kubectl("get", "--raw", proxied))
    assert json.loads(plugin.kubectl("get", "--raw", proxied, "--disable-compression"))
    assert passed_on(proxied, Host=API_NAME) == 200  # curl: no Accept-Encoding
    assert passed_on(proxied, **{"Host": API_NAME, "Accept-Encoding": "gzip"}) == 200

    # A web page whose name resolves to the pod or to `kubectl proxy` (DNS rebinding).
    assert passed_on(proxied, **BROWSER) == 421
    larderd = http.client.HTTPConnection(address, METRICS_PORT, timeout=10)
    assert status_of(larderd, "/v1/status", **{"X-Forwarded-Uri": proxied, **BROWSER}) == 421
    assert status_of(larderd, "/v1/status", Host=address) == 200
