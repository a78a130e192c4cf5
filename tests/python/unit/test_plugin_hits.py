"""`kubectl larder why`, of two real larderd whose engines do not share. A kubectl that serves files
stands for the cluster, and passes requests to a pod's larderd on to the real one."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.larderd import Larderd

from larder import Client

BIN = Path(os.environ["LARDER_TEST_BIN"])
FIELDS = {"engine": "test", "dtype": "bfloat16", "chunk_tokens": "128", "none_hash": "11"}
KUBECTL = """#!{python}
import http.client, json, pathlib, socket, sys
words = sys.argv[1:]
folder = pathlib.Path(__file__).parent
state = json.loads((folder / "state.json").read_text())
def found():
    if words[:2] == ["get", "--raw"] and "/proxy/" in words[2]:
        pod = words[2].split("/pods/")[1].split(":")[0]
        connection = http.client.HTTPConnection("localhost", timeout=5)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(state["larderds"][pod])
        connection.request("GET", "/v1/status")
        return connection.getresponse().read().decode()
    if words[:2] == ["get", "--raw"]:
        return json.dumps({{"metadata": {{}}, "items": list(state["pods"].values())}})
    if words[:2] == ["get", "pod"]:
        return json.dumps(state["pods"][words[2]])
    if words[:2] == ["get", "cachepools.larder.dev"]:
        return json.dumps(state["pool"])
    sys.exit("Error from server (NotFound): " + " ".join(words))
print(found())
"""


def text(**changed):
    return "".join(f"{name}: {value}\n" for name, value in {**FIELDS, **changed}.items())


def pod(name):
    return {
        "metadata": {
            "name": name,
            "namespace": "models",
            "uid": name,
            "labels": {"larder.dev/pool": "chat"},
            "annotations": {"larder.dev/pool": "chat", "larder.dev/injected": "0.1.0/chat"},
        },
        "spec": {
            "containers": [{"name": "vllm"}],
            "initContainers": [{"name": "larder-payload"}, {"name": "larder"}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "containerStatuses": [{"name": "vllm", "ready": True}],
            "initContainerStatuses": [{"name": "larder", "ready": True}],
        },
    }


class World:
    def __init__(self, folder):
        self.folder = folder
        (folder / "kubectl").write_text(KUBECTL.format(python=sys.executable))
        (folder / "kubectl").chmod(0o755)
        (folder / "kubectl-larder").symlink_to(BIN / "kubectl-larder")
        pool = {
            "metadata": {"name": "chat", "namespace": "models"},
            "spec": {"backendRef": {"name": "shared"}},
        }
        self.state = {"pods": {}, "larderds": {}, "pool": pool}

    def add(self, name, larderd):
        self.state["pods"][name] = pod(name)
        self.state["larderds"][name] = larderd.admin_socket
        (self.folder / "state.json").write_text(json.dumps(self.state))

    def why(self, name):
        env = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        command = [str(self.folder / "kubectl-larder"), "why", name, "-n", "models", "-o", "json"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=env, check=False
        )
        assert done.returncode in (0, 1), done.stderr
        return {finding["reason"]: finding for finding in json.loads(done.stdout)["findings"]}

    def wait_for(self, name, reason):
        """larderd reads the engines' reports about twice a second."""
        deadline = time.monotonic() + 60
        while reason not in (found := self.why(name)):
            assert time.monotonic() < deadline, found
            time.sleep(0.2)
        return found


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    with (
        Larderd(BIN / "larderd", tmp_path / "a", f"why-a-{os.getpid()}", size="64MiB") as a,
        Larderd(BIN / "larderd", tmp_path / "b", f"why-b-{os.getpid()}", size="64MiB") as b,
    ):
        for name, larderd in (("llm-a", a), ("llm-b", b)):
            larderd.wait_ready()
            made.add(name, larderd)
        made.sockets = {"llm-a": a.socket, "llm-b": b.socket}
        yield made


def attach(world, name, fingerprint):
    client = Client(world.sockets[name], "test engine")
    client.set_namespace(fingerprint, "m", 128, [(4096, 2, 1)])
    assert client.wait_attached(10_000)
    return client


def test_a_missing_engine_is_reported(world):
    assert list(world.why("llm-a")) == ["NeverAttached"]


def test_an_engine_that_has_not_named_its_weights(world):
    """The engine attaches without a namespace."""
    with attach(world, "llm-a", "") as client:
        assert list(world.why("llm-a")) == ["WeightsBeingRead"]
        client.add_namespace(text(), 1000)
        world.wait_for("llm-a", "NoRequests")


def test_another_hash_seed_is_called_by_its_name(world):
    with attach(world, "llm-a", text()), attach(world, "llm-b", text(none_hash="22")):
        finding = world.wait_for("llm-b", "OtherHashSeed")["OtherHashSeed"]
        assert "PYTHONHASHSEED" in finding["todo"]
        assert "none_hash: 11 -> 22" in finding["message"] and "llm-a" in finding["message"]


def test_the_fields_that_differ_are_named(world):
    with (
        attach(world, "llm-a", text()),
        attach(world, "llm-b", text(dtype="float16", chunk_tokens="256")),
    ):
        message = world.wait_for("llm-b", "OtherNamespace")["OtherNamespace"]["message"]
        assert "dtype" in message and "chunk_tokens" in message and "bfloat16 -> float16" in message


def test_one_shared_namespace_has_no_finding(world):
    with attach(world, "llm-a", text()), attach(world, "llm-b", text()) as client:
        world.wait_for("llm-b", "SameNamespace")
        client.report_request(1280, 640, 1000)
        found = world.wait_for("llm-b", "Hits")
        assert set(found) == {"SameNamespace", "Hits"}


def test_short_prompts_are_distinguished_from_unrepeated_ones(world):
    with attach(world, "llm-a", text()) as short, attach(world, "llm-b", text()) as long:
        for _ in range(10):
            short.report_request(100, 0, 1000)
            long.report_request(4000, 0, 1000)
        assert (
            "128 tokens" in world.wait_for("llm-a", "PromptsTooShort")["PromptsTooShort"]["message"]
        )
        assert "NeverRepeated" in world.wait_for("llm-b", "NeverRepeated")


def test_salted_prompts_are_distinguished_from_unrepeated_ones(world):
    with attach(world, "llm-a", text()) as salted, attach(world, "llm-b", text()) as plain:
        for number in range(10):
            salted.report_request(4000, 0, 1000, salted=number < 9)
            plain.report_request(4000, 0, 1000)
        finding = world.wait_for("llm-a", "Salted")["Salted"]
        assert finding["message"].startswith("9 of 10 requests carried a cache_salt"), finding
        assert "NeverRepeated" in world.wait_for("llm-b", "NeverRepeated")
        assert "Salted" not in world.why("llm-b")
