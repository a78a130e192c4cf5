"""The cluster of `make e2e-up`, through its own kubectl and helm: objects applied, waited for and
deleted."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import ssl
import subprocess
import threading
import time
from typing import Any, Callable

from harness.process import ProcessError
from larder.server import ServerError

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_WAIT_S = 120
NODE, SECOND_NODE = "larder-e2e", "larder-e2e-2"


def _paths() -> dict[str, str]:
    """.ci/paths.sh and the cluster's own folder, as shell scripts see them."""
    names = ("cache", "venv", "kubernetes", "kserve", "huggingface", "servers")
    script = f'cd {ROOT}/.ci && . ./paths.sh && printf "%s\\n" ' + " ".join(
        f'"${name}"' for name in names
    )
    values = subprocess.run(
        ["bash", "-c", script], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return dict(zip(names, values))


PATHS = _paths()
STATE = pathlib.Path(os.environ.get("LARDER_E2E") or pathlib.Path(PATHS["cache"]) / "e2e")
ENV = {
    **os.environ,
    "KUBECONFIG": str(STATE / "admin.kubeconfig"),
    "PATH": f"{PATHS['kubernetes']}/bin:{os.environ['PATH']}",
}


class ClusterError(ProcessError):
    """kubectl or helm refused, or a condition did not come true in time. The text is the program's,
    or the state in place of the condition."""


class Crashed(ProcessError):
    """A container that ends again and again; the text ends with the container's last output."""


def run(*command: str, stdin: str | None = None, timeout_s: float = 180) -> str:
    """The standard output of a program that sees the cluster. Raises ClusterError with the
    program's own text."""
    done = subprocess.run(
        command, input=stdin, env=ENV, capture_output=True, text=True, timeout=timeout_s
    )
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command[:6])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def kubectl(*words: str, stdin: str | None = None, timeout_s: float = 180) -> str:
    return run("kubectl", *words, stdin=stdin, timeout_s=timeout_s)


def program(*words: str) -> str:
    """cluster.sh: `load`, `restart` of one of the cluster's programs, `node up`, `node down`."""
    return run(str(ROOT / "e2e" / "cluster" / "cluster.sh"), *words, timeout_s=300)


@contextlib.contextmanager
def second_node():
    """SECOND_NODE, until the end of the `with`."""
    try:
        program("node", "up")
        yield
    finally:
        program("node", "down")


@contextlib.contextmanager
def throughout(ask: Callable[[], Any], at_once: int = 1):
    """Asks without a pause, by so many threads, until the end of the `with`; each at least once. An
    exception of `ask` ends its thread, and is raised at the end."""
    over = threading.Event()

    def keep_asking() -> int:
        for asked in itertools.count(1):
            ask()
            if over.is_set():
                return asked

    with concurrent.futures.ThreadPoolExecutor(at_once) as threads:
        asking = [threads.submit(keep_asking) for _ in range(at_once)]
        try:
            yield
        finally:
            over.set()
        print(f"asked {sum(one.result() for one in asking)} times meanwhile")


def served_certificate(pod: dict, port: int) -> bytes:
    """The certificate that a server of the pod shows to its clients."""
    return ssl.PEM_cert_to_DER_cert(
        ssl.get_server_certificate((pod["status"]["podIP"], port), timeout=5)
    )


def wait_until(
    what: str,
    true: Callable[[], Any],
    timeout_s: float = DEFAULT_WAIT_S,
    instead: Callable[[], str] = str,
) -> Any:
    """The result of true() once it is true. A refusal by the cluster or an engine counts as not
    yet. `instead` tells, at the end, the state in place of the condition."""
    deadline, why = time.monotonic() + timeout_s, ""
    while True:
        try:
            if found := true():
                return found
        except (ClusterError, ServerError) as error:
            why = str(error)
        if time.monotonic() > deadline:
            raise ClusterError(f"not in {timeout_s:.0f} s: {what}. {why} {instead()}".strip())
        time.sleep(0.25)


class Namespace:
    """A namespace of one test's own. Use as a context manager: the end deletes the namespace and
    its objects."""

    def __init__(self, name: str, level: str = "privileged"):
        self.name = name
        self.level = level

    def __enter__(self):
        if self._there():
            self._delete()
        self._create()
        return self

    def __exit__(self, *_):
        if not os.environ.get("LARDER_E2E_KEEP"):
            self._delete()

    def _there(self) -> bool:
        return bool(kubectl("get", "namespace", self.name, "--ignore-not-found", "-o", "name"))

    def _create(self) -> None:
        kubectl("create", "namespace", self.name)
        kubectl("label", "namespace", self.name, f"pod-security.kubernetes.io/enforce={self.level}")
        wait_until(
            "the namespace's ServiceAccount", lambda: self.get("serviceaccount", "default"), 30
        )

    def _delete(self) -> None:
        """Pods first and at once: no test waits for an engine to drain."""
        kubectl(
            "-n",
            self.name,
            "delete",
            "deployment,statefulset,daemonset,job,pod",
            "--all",
            "--now",
            "--wait=false",
        )
        kubectl("delete", "namespace", self.name, "--wait=true", "--timeout=120s")

    def kubectl(self, *words: str, stdin: str | None = None, timeout_s: float = 180) -> str:
        return kubectl("-n", self.name, *words, stdin=stdin, timeout_s=timeout_s)

    def apply(self, *objects: dict) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "-f", "-", stdin=text)

    def get(self, kind: str, name: str = "", **labels: str) -> Any:
        """The object, or the list of objects with the labels (a dot or slash in a label's name:
        pass the label by **{})."""
        words = ["get", kind, *filter(None, [name]), "-o", "json"]
        if labels:
            words += ["-l", ",".join(f"{key}={value}" for key, value in labels.items())]
        found = json.loads(self.kubectl(*words))
        return found if name else found["items"]

    def pods(self, app: str | dict[str, str]) -> list[dict]:
        """The pods without a request to end. `app`: the label of that name, or all the labels."""
        labels = app if isinstance(app, dict) else {"app": app}
        return [
            pod for pod in self.get("pod", **labels) if "deletionTimestamp" not in pod["metadata"]
        ]

    def logs(self, pod: str, container: str, *more: str) -> str:
        return self.kubectl("logs", pod, "-c", container, *more)

    def exec(self, pod: str, container: str, *command: str) -> str:
        return self.kubectl("exec", pod, "-c", container, "--", *command)

    def events(self, about: str) -> list[dict]:
        """Of the object of this name, whatever its kind."""
        return json.loads(
            self.kubectl(
                "get", "events", "--field-selector", f"involvedObject.name={about}", "-o", "json"
            )
        )["items"]

    def address(self, service: str) -> str:
        """HOST:PORT of a Service, as seen by this machine, which is the node."""
        spec = self.get("service", service)["spec"]
        return f"{spec['clusterIP']}:{spec['ports'][0]['port']}"

    def wait_ready(
        self, app: str | dict[str, str], count: int = 1, timeout_s: float = 240
    ) -> list[dict]:
        """The pods of `app`, all Ready, `count` in number. Raises Crashed if an engine will never
        be Ready."""
        before = {
            container: count
            for pod in self.pods(app)
            for container, count in _restarts(pod).items()
        }

        def ready() -> list[dict]:
            pods = self.pods(app)
            for pod in pods:
                self._check_alive(pod, before)
            return pods if len(pods) == count and all(is_ready(pod) for pod in pods) else []

        return wait_until(
            f"{count} Ready pods of {app}",
            ready,
            timeout_s,
            lambda: "\n".join(map(state_of, self.pods(app))),
        )

    def _check_alive(self, pod: dict, before: dict[str, int]) -> None:
        name = pod["metadata"]["name"]
        for container, count in _restarts(pod).items():
            if count >= before.get(container, 0) + 3:
                raise Crashed(
                    f"{name}: {container} ended {count} times: "
                    f"{self.logs(name, container, '--tail=15')}"
                )


def _restarts(pod: dict) -> dict[str, int]:
    return {one["name"]: one["restartCount"] for one in _statuses(pod)}


def _statuses(pod: dict) -> list[dict]:
    return [
        *pod["status"].get("initContainerStatuses", []),
        *pod["status"].get("containerStatuses", []),
    ]


def is_ready(pod: dict) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in pod["status"].get("conditions", [])
    )


def condition(thing: dict, kind: str) -> dict:
    """{} where the object has no condition of this type yet."""
    return next(
        (one for one in thing.get("status", {}).get("conditions") or [] if one["type"] == kind), {}
    )


def container_status(pod: dict, name: str) -> dict:
    """The kubelet's report; for a container that has not begun, the report of its waiting."""
    unknown = {
        "name": name,
        "restartCount": 0,
        "ready": False,
        "state": {},
        "lastState": {},
        "containerID": "",
    }
    return next((unknown | one for one in _statuses(pod) if one["name"] == name), unknown)


def state_of(pod: dict) -> str:
    """In one line, for people: each container and the reason of its waiting."""
    parts = [
        f"{one['name']} {'ready' if one['ready'] else json.dumps(one['state'])}"
        for one in _statuses(pod)
    ]
    return f"{pod['metadata']['name']} {pod['status'].get('phase')}: " + "; ".join(parts)
