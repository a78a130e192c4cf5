"""All sources of the dashboards, in real processes: an engine over a larderd with memory, disk and
backend, under load; the operator of the installed chart at a real API server; and a Prometheus that
scrapes these programs with the labels of the chart's monitors."""

import contextlib
import json
import os
import random
import sys
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python" / folder) for folder in ("engine", "chart")]

import operator_process  # noqa: E402
import programs  # noqa: E402
from cluster import Cluster, eventually  # noqa: E402
from engines import PATIENCE_S, Engine, prompt, wait_for  # noqa: E402
from expressions import RULES  # noqa: E402
from harness.larderd import Larderd  # noqa: E402
from harness.redis import RedisServer  # noqa: E402
from harness.vllm_server import free_port  # noqa: E402
from prometheus import Prometheus  # noqa: E402

NAMESPACE, POOL = "ml", "chat"
# The same programs with the labels of placement Node: larderd in another pod than the engine.
NODE_NAMESPACE = "ml-node"
# Prompts of 2,000 tokens are 3.75 MiB each: memory has room for five, the disk for all.
PROMPTS, TOKENS, MEMORY = 12, 2000, "24MiB"
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: engine-0, annotations: {larder.dev/pool: chat}}
spec:
  containers:
  - {name: vllm, image: vllm/vllm-openai, args: [--model, m], resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 1Gi}}}
"""
POOL_OBJECT = {
    "apiVersion": "larder.dev/v1alpha1",
    "kind": "CachePool",
    "metadata": {"name": POOL},
    "spec": {"memory": {"size": "1Gi"}},
}


@contextlib.contextmanager
def api_server(folder, helm_home):
    """A real kube-apiserver with the chart installed."""
    script = ROOT / "tests" / "component" / "kube" / "apiserver.sh"
    folder.mkdir()
    helm_home.mkdir()
    homes = {f"HELM_{name}_HOME": str(helm_home) for name in ("CONFIG", "CACHE", "DATA")}
    programs.run(
        [str(script), "up", str(folder)],
        env={**os.environ, "API_FLAGS": "--enable-aggregator-routing=true"},
    )
    try:
        cluster = Cluster(
            folder / "admin.kubeconfig",
            programs.Helm(programs.find_helm(), {**os.environ, **homes}),
        )
        with cluster.installed("--set", "metrics.dashboards.enabled=true"):
            yield cluster
    finally:
        programs.run([str(script), "down", str(folder)])


def apply(cluster, text):
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=list(yaml.safe_load_all(text)))


def exercise_operator(cluster):
    """Makes a pool with a pod whose image is not pulled, and a pod that names a missing pool."""
    cluster.namespace(NAMESPACE)
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=POOL_OBJECT)
    eventually(
        lambda: (
            "caBundle"
            in cluster.get("mutatingwebhookconfiguration", "larder")["webhooks"][0]["clientConfig"]
        )
    )

    def injected():
        cluster.kubectl(
            "delete",
            "pod",
            "engine-0",
            "-n",
            NAMESPACE,
            "--ignore-not-found",
            "--grace-period=0",
            "--force",
        )
        apply(cluster, PODS)
        return (
            "larder.dev/injected"
            in cluster.get("pod", "engine-0", "-n", NAMESPACE)["metadata"]["annotations"]
        )

    eventually(injected, 60)
    waiting = {
        "name": "larder",
        "image": "larder",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
    }
    waiting["state"] = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    status = json.dumps({"status": {"phase": "Pending", "initContainerStatuses": [waiting]}})
    cluster.kubectl(
        "patch",
        "pod",
        "engine-0",
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    )
    lost = PODS.replace("chat", "absent").replace("engine-0", "lost")
    apply(cluster, lost)


def job(name, address, labels, **more):
    """A target like a monitor's; `labels` are those of the pod."""
    return {
        "job_name": name,
        "static_configs": [{"targets": [address], "labels": {"cluster": "test", **labels}}],
        **more,
    }


def monitors_honor_labels():
    """The value of honorLabels in the chart's ServiceMonitor."""
    text = (programs.CHART / "templates" / "servicemonitor.yaml").read_text()
    return "honorLabels: true" in text


def jobs(larderd_address, engine, operator_address):
    pod = {"namespace": NAMESPACE, "pod": "engine-0"}
    return [
        job("larder-sidecars", larderd_address, {**pod, "pool": POOL, "container": "larder"}),
        job("engines", engine.url.removeprefix("http://"), {**pod, "container": "vllm"}),
        job(
            "larder-of-node",
            larderd_address,
            {
                "namespace": NODE_NAMESPACE,
                "pod": "chat-node-x7",
                "pool": POOL,
                "container": "larder",
            },
        ),
        job(
            "engines-of-node",
            engine.url.removeprefix("http://"),
            {"namespace": NODE_NAMESPACE, "pod": "engine-1", "container": "vllm"},
        ),
        job(
            "larder-operator",
            operator_address,
            {"namespace": "larder-system", "pod": "operator-0"},
            honor_labels=monitors_honor_labels(),
        ),
    ]


class Load:
    """A few popular prompts and many others; the engine's own cache is emptied from time to
    time."""

    def __init__(self, engine):
        self._engine = engine
        self._random = random.Random(0)

    def run(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            seed = min(int(self._random.paretovariate(0.7)) - 1, PROMPTS - 1)
            self._engine.ask(prompt(f"load {seed}", TOKENS), 4)
            if self._random.random() < 0.5:
                self._engine.reset()


class World:
    """`started`: the begin of the load, in seconds since 1970."""

    def __init__(self, stack, model, folder):
        self.redis = stack.enter_context(RedisServer(folder / "redis"))
        self.cluster = stack.enter_context(api_server(folder / "apiserver", folder / "helm"))
        operator = stack.enter_context(operator_process.running(self.cluster, folder))
        address = f"127.0.0.1:{free_port()}"
        (folder / "disk").mkdir()
        extra = (
            f"disk:\n  path: {folder}/disk\n  size: 1GiB\n  write: through\nbackend:\n"
            f"  url: {self.redis.url}\n"
        )
        binary = Path(os.environ["LARDER_TEST_BIN"]) / "larderd"
        self.larderd = stack.enter_context(
            Larderd(binary, folder, f"larder-dash-{os.getpid()}", MEMORY, extra, listen=address)
        )
        self.larderd.wait_ready()
        # as the operator sets the label for engines; after larderd, which has a name of its own
        os.environ["LARDER_POOL"] = POOL
        self.engine = stack.enter_context(Engine(model, folder / "larder.sock", folder))
        self.engine.wait_ready()
        self.engine.larderd = self.larderd
        wait_for(
            lambda: len(self.larderd.status()["sessions"]["attached"]) == 2, PATIENCE_S, "attaching"
        )
        metrics = next(
            argument
            for argument in operator.child.args
            if argument.startswith("--metrics-address=")
        ).split("=")[1]
        self.prometheus = stack.enter_context(
            Prometheus(folder / "prometheus", jobs(address, self.engine, metrics), RULES)
        )
        wait_for(
            lambda: (
                {one["health"] for one in self.prometheus.ask("targets")["activeTargets"]} == {"up"}
            ),
            PATIENCE_S,
            "scraping",
        )
        self.started = time.time()

    def exercise(self, seconds):
        load = Load(self.engine)
        load.run(seconds / 3)
        exercise_operator(self.cluster)
        load.run(seconds * 2 / 3)
