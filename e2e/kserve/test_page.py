"""docs/get-started/kserve.md, followed from top to bottom: the page's commands, unchanged and in
order. The folder has samples that run on this machine (harness/kserve_local.py)."""

from __future__ import annotations

import re
import subprocess

import yaml
from test_serve import sample

from harness import cluster, engine_pod, kserve, kserve_local, product

PAGE = (cluster.ROOT / "docs" / "get-started" / "kserve.md").read_text()
NAMESPACE = "models"
OURS = " ".join(f"--set {value}" for value in product.IMAGE)


def commands() -> list[str]:
    return [
        line
        for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
        for line in block.splitlines()
        if line
    ]


def folder_of_the_reader(path):
    """A checkout, as far as the page needs one."""
    samples = path / "manifests" / "samples" / "kserve"
    samples.mkdir(parents=True)
    (path / "charts").symlink_to(cluster.ROOT / "charts")
    pool = yaml.safe_load((cluster.ROOT / "manifests/samples/kserve/pool.yaml").read_text())
    pool["spec"]["memory"]["size"] = "512Mi"
    local = {
        "pool": pool,
        "inferenceservice": kserve_local.inference_service(sample("inferenceservice")),
        "llminferenceservice": kserve_local.llm_inference_service(sample("llminferenceservice")),
    }
    for name, one in local.items():
        (samples / f"{name}.yaml").write_text(yaml.safe_dump(one))
    return path


def follow(command: str, folder, tries_s: float = 0) -> str:
    """Like the reader's shell. helm: an upgrade of the installed chart, with the image of this
    machine."""
    command = re.sub(
        r"^helm install (.*) --set image.repository=\S+",
        rf"helm upgrade --install --wait \1 {OURS}",
        command,
    )
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=cluster.ENV,
        capture_output=True,
        text=True,
        timeout=960,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_page_is_followed(larder, controllers, tmp_path):
    folder, said = folder_of_the_reader(tmp_path), {}
    try:
        for command in commands():
            assert controllers.alive(), f"KServe's controllers have ended before: {command}"
            if command.endswith("get cachepools"):
                _ask_both()
            said[command] = follow(command, folder)
            if command == f"kubectl create namespace {NAMESPACE}":
                _prepare()
        (pools,) = [text for command, text in said.items() if command.endswith("get cachepools")]
        assert "chat" in pools
        for deployment in ("qwen-predictor", "qwen-llm-kserve"):
            (status,) = [
                text for command, text in said.items() if f"deploy/{deployment} " in command
            ]
            assert "hit" in status, status
        (reasons,) = [text for command, text in said.items() if "not-injected" in command]
        assert not re.search(r"\t.+", reasons), reasons  # names without content
    finally:
        _remove()


def _prepare() -> None:
    """This machine's substitutes for a registry and a hub."""
    ns = cluster.Namespace(NAMESPACE)
    ns.apply(*engine_pod.claims(NAMESPACE), kserve_local.runtime(kserve.published_runtime(ns)))


def _ask_both() -> None:
    ns = cluster.Namespace(NAMESPACE)
    for service in ("qwen-predictor", "qwen-llm-kserve-workload-svc"):
        for _ in range(2):
            engine_pod.answer_at(f"http://{ns.address(service)}", "qwen", engine_pod.prompt())


def _remove() -> None:
    ns = cluster.Namespace(NAMESPACE)
    ns.kubectl("delete", "inferenceservices,llminferenceservices", "--all", "--timeout=60s")
    ns.__exit__()
    engine_pod.remove_volumes(ns)
