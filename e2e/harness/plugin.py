"""`kubectl larder`, run like an administrator's: kubectl finds the plug-in in PATH, and the API
server has a name, as in every real cluster. kubectl sends the name as Host, and the API server
passes the name on."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import subprocess

from harness.cluster import ENV, ROOT, STATE, Namespace, run, wait_until

API_NAME = "api.cluster.example"
TRACED_S = 8


def _kubeconfig(folder: pathlib.Path) -> str:
    """The administrator's, with the API server under API_NAME. The certificate has other names."""
    path = shutil.copy(STATE / "admin.kubeconfig", folder / "named.kubeconfig")
    run(
        "kubectl",
        "config",
        "set-cluster",
        "test",
        f"--server=https://{API_NAME}:6443",
        "--tls-server-name=kubernetes",
        f"--kubeconfig={path}",
    )
    return str(path)


class Plugin:
    """The user's shell in one namespace. `folder` stays as long as the plug-in is used."""

    def __init__(self, namespace: Namespace, folder: pathlib.Path):
        (folder / "kubectl-larder").symlink_to(
            ROOT / "build" / "release" / "bin" / "kubectl-larder"
        )
        self._hosts = folder / "hosts"
        known = pathlib.Path("/etc/hosts").read_text()
        self._hosts.write_text(f"127.0.0.1 {API_NAME}\n{known}")
        path = f"{folder}:{ENV['PATH']}"
        self._env = {**ENV, "KUBECONFIG": _kubeconfig(folder), "PATH": path}
        self._namespace = namespace.name

    def __call__(self, *words: str) -> tuple[int, str]:
        """Exit status and output."""
        return self._run(self._command(*words))

    def kubectl(self, *words: str) -> str:
        """kubectl alone, which knows the API server by the same name."""
        status, said = self._run(self._named("kubectl", *words))
        assert status == 0, said
        return said

    def until(self, words: str, *command: str) -> str:
        """The output once it has these words. The command ends with 1 meanwhile: a pod has no
        cache."""

        def said() -> str:
            status, text = self(*command)
            assert status == 1, text
            return text if words in text else ""

        text = wait_until(
            f"kubectl larder {command[0]} says: {words}", said, 90, lambda: self(*command)[1]
        )
        print(text)
        return text

    def json(self, *words: str):
        return json.loads(self(*words, "-o", "json")[1])

    @contextlib.contextmanager
    def tracing(self, pod: str, file: pathlib.Path):
        """The requests to the pod meanwhile are in `file` afterwards."""
        command = self._command("trace", pod, "--seconds", str(TRACED_S))
        with open(file, "w", encoding="utf-8") as out:
            recorder = subprocess.Popen(
                command, env=self._env, stdout=out, stderr=subprocess.PIPE, text=True
            )
            try:
                yield
                _, said = recorder.communicate(timeout=TRACED_S + 60)
            finally:
                recorder.kill()
        assert recorder.returncode == 0 and "recorded" in said, said

    def _run(self, command: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            command, env=self._env, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def _command(self, *words: str) -> list[str]:
        where = [] if words[0] == "simulate" else ["-n", self._namespace]
        return self._named("kubectl", "larder", *words, *where)

    def _named(self, *command: str) -> list[str]:
        """The command in a view with a known API_NAME: with an /etc/hosts of its own."""
        known = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", known, str(self._hosts), *command]
