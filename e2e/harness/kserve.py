"""KServe's own controllers on this machine, for any API server: KServe's published definitions,
webhooks, runtimes and templates.

In Standard mode (Deployments and Services), without cert-manager, Knative and Istio: certificates
are made here. The API server asks the webhooks by URL, since the controllers run on this machine
and not in pods. REQUIRES: make deps-kserve."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import socket
import subprocess
import urllib.request

from harness.cluster import PATHS, ClusterError, Namespace, condition, wait_until
from harness.kserve_objects import configuration, definitions, webhooks
from harness.process import Process, ProcessError

HOME = pathlib.Path(PATHS["kserve"])
NAMESPACE = "kserve"
PROGRAMS = ("kserve-manager", "kserve-llmisvc")
READY_S, GONE_S, CLEAR_S, CALL_S = 180, 20, 300, 600  # on a busy machine
TEMPLATES = "llminferenceserviceconfigs.serving.kserve.io"
# other objects of KServe's chart
DEFAULTS = ("config/storagecontainers", "config/runtimes", "config/llmisvcconfig")


def is_built() -> bool:
    return (HOME / ".complete").exists()


def published_runtime(ns: Namespace, name: str = "kserve-vllmserver") -> dict:
    """KServe's own ClusterServingRuntime, for vLLM or another, from the API server. REQUIRES:
    KServe is installed there."""
    return ns.get("clusterservingruntime", name)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


def _answers(port: int, path: str) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.status == 200


def _listens(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


class KServe:
    """Both controllers and all their needs in the API server of `kubeconfig`; use as a context
    manager. Leaves no definition, webhook or object of KServe there, unless that server goes too
    (`clean` False). Not thread-safe."""

    def __init__(self, kubeconfig: pathlib.Path, folder: pathlib.Path, clean: bool = True):
        self.folder = folder
        self.clean = clean
        self.env = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "POD_NAMESPACE": NAMESPACE,
            "PATH": f"{PATHS['kubernetes']}/bin:{os.environ['PATH']}",
        }
        self.processes: list[Process] = []

    def __enter__(self) -> KServe:
        if not is_built():
            raise ProcessError(f"no KServe in {HOME}: make deps-kserve")
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._install()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        if self.clean:
            self._remove()
        for process in self.processes:
            process.stop()

    def _remove(self) -> None:
        """The webhooks first, which refuse the deletion of templates; then the templates, while the
        controller lives, whose finalizer they carry."""
        self._kubectl(
            "delete",
            "mutatingwebhookconfigurations,validatingwebhookconfigurations",
            "-l",
            "larder.dev/test=kserve",
            fails=True,
        )
        self._kubectl(
            "-n", NAMESPACE, "delete", TEMPLATES, "--all", f"--timeout={GONE_S}s", fails=True
        )
        for one in self._kubectl(
            "-n", NAMESPACE, "get", TEMPLATES, "-o", "name", fails=True
        ).split():
            self._kubectl(
                "-n",
                NAMESPACE,
                "patch",
                one,
                "--type=merge",
                "-p",
                '{"metadata": {"finalizers": null}}',
                fails=True,
            )
        for path in sorted(self.folder.glob("definitions-*.yaml")):
            self._kubectl(
                "delete", "-f", str(path), "--ignore-not-found", f"--timeout={GONE_S}s", fails=True
            )
        self._kubectl(
            "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false", fails=True
        )

    def alive(self) -> bool:
        return len(self.processes) == len(PROGRAMS) and all(
            one.child.poll() is None for one in self.processes
        )

    def _kubectl(self, *words: str, stdin: str | None = None, fails: bool = False) -> str:
        done = subprocess.run(
            ["kubectl", *words],
            input=stdin,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=CALL_S,
        )
        if done.returncode != 0 and not fails:
            raise ClusterError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def _apply(self, name: str, text: str) -> None:
        """Again if the API server was too slow: KServe's definitions keep an API server busy for
        seconds each."""
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        words = ("apply", "--server-side", "--force-conflicts", "--validate=false", "-f", str(path))
        wait_until(
            f"KServe's {name} in the API server", lambda: self._kubectl(*words) or True, READY_S
        )

    def _install(self) -> None:
        authority = self._certificates()
        ports = {program: _free_port() for program in PROGRAMS}
        wait_until("the leftovers of an earlier run have gone", self._clear, CLEAR_S)
        others = "\n---\n".join(path.read_text() for path in sorted((HOME / "crds").glob("*.yaml")))
        self._apply("definitions-others", others)
        for name, folder, program in (
            ("isvc", "config/crd/full", PROGRAMS[0]),
            ("llmisvc", "config/crd/full/llmisvc", PROGRAMS[1]),
        ):
            self._apply(
                f"definitions-{name}",
                definitions(self._built(folder), f"https://127.0.0.1:{ports[program]}", authority),
            )
        wait_until("KServe's definitions are established", self._established, READY_S)
        self._apply(
            "configuration",
            configuration((HOME / "config/configmap/inferenceservice.yaml").read_text(), NAMESPACE),
        )
        for program in PROGRAMS:
            self._start(program, ports[program])
        for folder, program in (
            ("config/webhook", PROGRAMS[0]),
            ("config/webhook/llmisvc", PROGRAMS[1]),
        ):
            self._apply(
                f"webhooks-{program}",
                webhooks(self._built(folder), f"https://127.0.0.1:{ports[program]}", authority),
            )
        for folder in DEFAULTS:
            self._apply(folder.rsplit("/", 1)[-1], self._built(folder))

    def _clear(self) -> bool:
        """The namespace exists, and no object is about to be removed."""
        self._kubectl("create", "namespace", NAMESPACE, fails=True)
        found = json.loads(
            self._kubectl("get", "namespace", NAMESPACE, "-o", "json", fails=True) or "{}"
        )
        return bool(found) and not any(
            "deletionTimestamp" in one["metadata"] for one in [found, *self._definitions()]
        )

    def _definitions(self) -> list[dict]:
        return json.loads(self._kubectl("get", "crd", "-o", "json"))["items"]

    def _established(self) -> bool:
        """Not `kubectl wait`, which fails at a definition without conditions."""
        return all(
            condition(one, "Established").get("status") == "True" for one in self._definitions()
        )

    def _built(self, folder: str) -> str:
        return self._kubectl("kustomize", str(HOME / folder))

    def _start(self, program: str, port: int) -> None:
        health = _free_port()
        # controller-runtime reads certificates from the folder for temporary files.
        env = {**self.env, "TMPDIR": str(self.folder / "tmp")}
        command = [
            str(HOME / "bin" / program),
            f"--webhook-port={port}",
            "--metrics-addr=0",
            f"--health-probe-addr=127.0.0.1:{health}",
        ]
        process = Process(program, command, env, self.folder / f"{program}.log")
        self.processes.append(process)
        process.wait_until(lambda: _answers(health, "/healthz") and _listens(port), READY_S)

    def _certificates(self) -> str:
        """An authority of this run's own, as a caBundle; certificate and key in the place where
        both controllers look."""
        pki = self.folder / "tmp" / "k8s-webhook-server" / "serving-certs"
        pki.mkdir(parents=True, exist_ok=True)
        root = pathlib.Path(__file__).resolve().parents[2]
        script = (
            f'pki={pki}; . {root}/tests/component/kube/pki.sh; authority ca; '
            'certificate tls ca /CN=kserve-webhook serverAuth "IP:127.0.0.1"'
        )
        subprocess.run(["bash", "-euc", script], check=True, capture_output=True, timeout=60)
        return base64.b64encode((pki / "ca.crt").read_bytes()).decode()
