"""`kubectl larder` in the user's shell: what it says of pods that serve, of one that was left alone, and how much memory they want."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess

import pytest

from harness import engine_pod, product
from harness.cluster import ENV, ROOT, wait_until
from test_serve import ask_twice

TRACED_S = 8


class Plugin:
    """kubectl-larder in PATH, as `make install` links it."""

    def __init__(self, namespace, folder):
        (folder / "kubectl-larder").symlink_to(ROOT / "build" / "release" / "bin" / "larderctl")
        self.env = {**ENV, "PATH": f"{folder}:{ENV['PATH']}"}
        self.namespace = namespace.name

    def command(self, *words: str) -> list[str]:
        where = [] if words[0] == "simulate" else ["-n", self.namespace]
        return ["kubectl", "larder", *words, *where]

    def __call__(self, *words: str) -> tuple[int, str]:
        """Exit status and what it says."""
        done = subprocess.run(self.command(*words), env=self.env, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    def until(self, words: str, *command: str) -> str:
        """What it says once that has these words; it ends with 1 all the while, since one pod has no cache."""

        def said() -> str:
            status, text = self(*command)
            assert status == 1, text
            return text if words in text else ""

        text = wait_until(f"kubectl larder {command[0]} says: {words}", said, 90, lambda: self(*command)[1])
        print(text)
        return text

    def json(self, *words: str):
        return json.loads(self(*words, "-o", "json")[1])

    @contextlib.contextmanager
    def tracing(self, pod: str, file):
        """What is asked of the pod meanwhile is in `file` afterwards."""
        with open(file, "w", encoding="utf-8") as out:
            recorder = subprocess.Popen(self.command("trace", pod, "--seconds", str(TRACED_S)), env=self.env, stdout=out,
                                        stderr=subprocess.PIPE, text=True)
            try:
                yield
                _, said = recorder.communicate(timeout=TRACED_S + 60)
            finally:
                recorder.kill()
        assert recorder.returncode == 0 and "recorded" in said, said


@pytest.fixture
def plugin(namespace, tmp_path):
    return Plugin(namespace, tmp_path)


def test_plugin(larder, namespace, plugin, tmp_path):
    namespace.apply(product.pool("cache"), *engine_pod.engine("llama", "cache"), engine_pod.bare_pod("lost", "cahce"))
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
    assert status == 0 and "has its cache" in said, said
    status, said = plugin("why", "lost")
    assert status == 1 and "cahce" in said, said
    assert "lost" in plugin.until("Is it helping?  yes", "status")  # by the operator's last look
    status, said = plugin("top", "--once")
    assert status == 0 and name in said, said

    trace = tmp_path / "trace.jsonl"
    prompts = map(engine_pod.prompt, itertools.count(2))  # new ones: vLLM asks Larder for what its own cache has not

    def recorded() -> bool:
        engine_pod.answer(namespace, "llama", next(prompts))
        return trace.stat().st_size > 0

    with plugin.tracing(name, trace):
        wait_until("a request is recorded", recorded, TRACED_S)
    status, said = plugin("simulate", str(trace), "--sizes", "64MiB,512MiB")
    print(said)
    assert status == 0 and "%" in said, said
