"""docs/get-started/kubernetes.md followed from top to bottom, then the commands of three guides:
kubectl larder, the passwords of a backend, the removal. The samples are those that run on this
machine. Left out are commands that need a registry, Docker or Krew."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from harness import cluster, engine_pod, product
from harness.cluster import wait_until

DOCS = cluster.ROOT / "docs"
PAGE = (DOCS / "get-started" / "kubernetes.md").read_text()
PLUGIN, BACKEND, REMOVE = (
    (DOCS / "guides" / f"{name}.md").read_text()
    for name in ("kubectl-larder", "share-a-backend", "upgrade-remove")
)
NAMESPACE = "models"
ELSEWHERE = ("docker ", "make ", "kubectl krew")
IMAGE = "registry.example/platform/larder"
HERE = " ".join(f"--set {value}" for value in product.IMAGE)
WITHOUT_HELM = "manifests/rendered"  # a block of commands in place of helm install
DELETE = "kubectl delete -f manifests/rendered/larder.yaml"  # in place of helm uninstall


def blocks(text: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


def hour() -> str:
    return PAGE[PAGE.index("\n## 1. ") : PAGE.index("\n## Next")]


def commands(found: list[str]) -> list[str]:
    lines = "".join(found).splitlines()
    return [line for line in lines if line and not line.startswith(ELSEWHERE)]


@pytest.fixture
def reader(larder, tmp_path):
    """A checkout with the files of the page, and a cluster without Larder. Afterwards the product
    is installed as before."""
    product.uninstall()
    _remove()
    cluster.kubectl("delete", "namespace", product.SYSTEM, "--ignore-not-found")
    samples = tmp_path / "manifests" / "samples"
    samples.mkdir(parents=True)
    (tmp_path / "charts").symlink_to(cluster.ROOT / "charts")
    (tmp_path / "manifests" / "rendered").symlink_to(cluster.ROOT / "manifests" / "rendered")
    pool = yaml.safe_load((cluster.ROOT / "manifests" / "samples" / "pool.yaml").read_text())
    pool["spec"]["memory"]["size"] = "512Mi"
    (samples / "pool.yaml").write_text(yaml.safe_dump(pool))
    (samples / "vllm.yaml").write_text(yaml.safe_dump_all(engine_pod.engine("chat", "chat")))
    yield Reader(tmp_path)
    _remove()
    product.install()


def _remove() -> None:
    """The namespace of the page's engine, if it is there."""
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")
    engine_pod.remove_volumes(cluster.Namespace(NAMESPACE))


class Reader:
    """Runs the page's command, in `folder`, with the programs of this build in PATH."""

    def __init__(self, folder):
        self.env = {**cluster.ENV, "PATH": f"{folder / 'bin'}:{cluster.ENV['PATH']}"}
        (folder / "bin").mkdir()
        plugin = cluster.ROOT / "build" / "release" / "bin" / "kubectl-larder"
        (folder / "bin" / "kubectl-larder").symlink_to(plugin)
        self.folder = folder

    def follow(self, command: str) -> str:
        local = command.replace(f"--set image.repository={IMAGE}", HERE)
        local = local.replace(f"{IMAGE}:0.1.0", "localhost/larder:e2e")
        done = subprocess.run(
            ["bash", "-c", local],
            cwd=self.folder,
            env=self.env,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        print(f"$ {command}\n{done.stdout}")
        return done.stdout


def ask() -> None:
    """As users of the page's engine would, so that step 5 has figures."""
    ns = cluster.Namespace(NAMESPACE)
    for _ in range(2):
        engine_pod.answer(ns, "chat", engine_pod.prompt())
        for pod in ns.pods("chat"):
            engine_pod.forget(pod)


def test_the_first_hour(reader):
    steps = [one for one in blocks(hour()) if WITHOUT_HELM not in one]
    said = {}
    for command in commands(steps):
        if command.endswith("get cachepools"):
            ask()
            wait_until("the pool has its figures", lambda: "%" in reader.follow(command), 60)
        said[command] = reader.follow(command)
        if command == f"kubectl create namespace {NAMESPACE}":
            cluster.Namespace(NAMESPACE).apply(*engine_pod.claims(NAMESPACE))
    (status,) = [text for command, text in said.items() if "larderctl" in command]
    assert "hit" in status, status
    passwords = [block for block in blocks(BACKEND) if block.startswith("helm upgrade")]
    assert len(passwords) == 1
    for command in commands(blocks(PLUGIN) + passwords + blocks(REMOVE)):
        reader.follow(command)


def test_without_helm(reader):
    (block,) = [one for one in blocks(hour()) if WITHOUT_HELM in one]
    for command in commands([block]):
        reader.follow(command)
    rollout = "kubectl -n larder-system rollout status deployment/larder-operator"
    assert f"\n{rollout}\n" in PAGE
    reader.follow(rollout)
    wait_until("the webhook answers", product.answers, 60)
    assert f"`{DELETE}`" in REMOVE
    reader.follow(DELETE)
