"""A real CPU vLLM as a Deployment with a Service, written like a user's, without any knowledge of
Larder.

Python environment and model are this machine's. They come in as claims of volumes that name folders
of the node: Pod Security `restricted` refuses a pod's own hostPath, not a claim."""

from __future__ import annotations

import itertools
import os

from harness.cluster import PATHS, Namespace, wait_until
from larder.completions import Completion, reset_prefix_cache, stream_completion

IMAGE = "localhost/debian:e2e"
VLLM_IMAGE = "localhost/vllm-openai:e2e"  # with vLLM's entrypoint: cluster.sh load vllm-openai
TOOLS_IMAGE = "localhost/vllm-tools:e2e"  # only waits: cluster.sh load vllm-tools
PORT = 8000
CONTINUATION = 8  # tokens
CHUNK_TOKENS = 128  # one block of vLLM on a CPU
PROMPT_TOKENS = 1500
MODEL = os.path.join(PATHS["cache"], "e2e-model-1")
SERVED_NAME = "e2e"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def make_model() -> str:
    """Small, with real random weights; made once. Readable by any user of a pod's engine."""
    from demo.model import make_model as make

    make(
        MODEL,
        layers=4,
        hidden=512,
        intermediate=1408,
        heads=8,
        kv_heads=4,
        head_dim=64,
        vocab=16000,
    )
    os.chmod(MODEL, 0o755)
    for name in os.listdir(MODEL):
        os.chmod(os.path.join(MODEL, name), 0o644)
    return MODEL


def _claim(ns: str, name: str, folder: str) -> list[dict]:
    volume = f"{ns}-{name}"
    size = {"storage": "20Gi"}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadOnlyMany"],
                "hostPath": {"path": folder},
                "storageClassName": "",
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": ns, "name": name},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "storageClassName": "",
                "volumeName": volume,
                "resources": {"requests": size},
            },
        },
    ]


# the last only for kserve_local.py
_FOLDERS = {"vllm": PATHS["venv"], "model": MODEL, "huggingface": PATHS["huggingface"]}


def claims(ns: str) -> list[dict]:
    """The place of Python and the model for every engine of the namespace. REQUIRES: removed by
    remove_volumes()."""
    return [one for name, folder in _FOLDERS.items() for one in _claim(ns, name, folder)]


def remove_volumes(ns: Namespace) -> None:
    ns.kubectl(
        "delete",
        "persistentvolume",
        *(f"{ns.name}-{name}" for name in _FOLDERS),
        "--ignore-not-found",
        "--wait=false",
    )


# Environment and flags with which vLLM runs on this machine and gives comparable answers.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 2) - 1)),
}
FLAGS = [
    "--enforce-eager",
    "--max-model-len",
    "4608",
    "--num-gpu-blocks-override",
    "80",
    "--seed",
    "0",
    "--enable-prompt-tokens-details",
]
# vLLM on a CPU counts the page cache of its control group as used, and ends if the rest is smaller
# than its KV cache. The first vLLM after a boot reads about 2 GiB of libraries, and 4 GiB are too
# few.
RESOURCES = {"requests": {"cpu": "100m", "memory": "2Gi"}, "limits": {"memory": "6Gi"}}


def command(form: str = "exec") -> dict:
    """The engine's command and args in one of the forms that users write. vLLM's own flags only."""
    python = os.path.join(PATHS["venv"], "bin", "python")
    flags = ["--model", MODEL, "--served-model-name", SERVED_NAME, "--port", str(PORT), *FLAGS]
    server = [python, "-m", "vllm.entrypoints.openai.api_server"]
    if form == "script":
        return {"command": ["/bin/bash", "-c", "exec " + " ".join(server + flags)]}
    if form == "eval":  # KServe's
        return {
            "command": [
                "/bin/bash",
                "-c",
                f'eval "exec {" ".join(server)} ${{VLLM_ADDITIONAL_ARGS}} $@"',
                "--",
            ],
            "args": flags,
        }
    if form == "array":  # KV: a connector of the user's own
        array = f'ARGS=({" ".join(flags)}); ARGS+=(--kv-transfer-config "$KV")'
        return {"command": ["/bin/bash", "-c", f'{array}; exec {" ".join(server)} "${{ARGS[@]}}"']}
    if form == "entrypoint":
        return {"image": VLLM_IMAGE, "args": [MODEL, *flags[2:]]}
    return {"command": server, "args": flags}


def engine_container(form: str = "exec", security: dict | None = None) -> dict:
    return {
        "name": "vllm",
        "image": IMAGE,
        **command(form),
        "env": [
            {"name": name, "value": value}
            for name, value in {**ENVIRONMENT, "HOME": "/tmp"}.items()
        ],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": PORT},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
        },
        "resources": RESOURCES,
        "volumeMounts": [
            {"name": "vllm", "mountPath": PATHS["venv"], "readOnly": True},
            {"name": "model", "mountPath": MODEL, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
        **({"securityContext": security} if security else {}),
    }


def pod_spec(container: dict) -> dict:
    return {
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [
            {"name": "vllm", "persistentVolumeClaim": {"claimName": "vllm", "readOnly": True}},
            {"name": "model", "persistentVolumeClaim": {"claimName": "model", "readOnly": True}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "512Mi"}},
        ],
    }


def _annotations(pool: str | None) -> dict[str, str]:
    """The one annotation that a user of Larder writes; None: without."""
    return {"larder.dev/pool": pool} if pool else {}


def engine(
    name: str,
    pool: str | None,
    form: str = "exec",
    replicas: int = 1,
    security: dict | None = None,
    node: str = "",
) -> list[dict]:
    """Deployment and Service, not called vllm: Kubernetes would set VLLM_PORT, which vLLM takes for
    its own. `pool`: as in _annotations(). `node`: the only node for the pods; by default any."""
    spec = pod_spec(engine_container(form, security))
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "strategy": {"type": "Recreate"},
                "template": {
                    "metadata": {"labels": {"app": name}, "annotations": _annotations(pool)},
                    "spec": spec,
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": PORT}]},
        },
    ]


def bare_pod(name: str, pool: str | None, form: str = "exec") -> dict:
    """A pod alone, for tests of the pod's fate and not of its service."""
    container = engine_container(form)
    del container["readinessProbe"]
    metadata = {"name": name, "annotations": _annotations(pool)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(container)}


def answer(ns: Namespace, service: str, prompt: str, **fields) -> Completion:
    """Through the Service, as any client would ask."""
    return answer_at(f"http://{ns.address(service)}", SERVED_NAME, prompt, **fields)


def answer_at(
    url: str, model: str, prompt: str, max_tokens: int = CONTINUATION, **fields
) -> Completion:
    return stream_completion(url, model, prompt, max_tokens, timeout_s=120, **fields)


def url_of(pod: dict, port: int = PORT) -> str:
    return f"http://{pod['status']['podIP']}:{port}"


def answer_of_pod(pod: dict, prompt: str, **fields) -> Completion:
    return answer_at(url_of(pod), SERVED_NAME, prompt, **fields)


def whole_chunks(answer: Completion) -> int:
    """The least that a warm answer must have loaded: all but the chunk in which the prompt ends."""
    return answer.prompt_tokens - answer.prompt_tokens % CHUNK_TOKENS


def is_warm(answer: Completion, cold: list[int]) -> bool:
    """Whether the answer came out of a cache. The tokens equal those of the cold answer in any
    case."""
    assert answer.token_ids == cold
    return answer.cached_tokens >= whole_chunks(answer)


def forget(pod: dict, port: int = PORT) -> None:
    """vLLM's own prefix cache is emptied: later warm answers come from Larder. vLLM refuses during
    its count of a request."""
    wait_until(
        "vLLM empties its own prefix cache", lambda: reset_prefix_cache(url_of(pod, port)), 20
    )


_fresh = itertools.count(1000)  # seeds of new prompts


def wait_attached(pod: dict) -> None:
    """The shim attaches again by itself within seconds. A dead larderd's chunks still load
    meanwhile, so only a store shows the new attachment: a new prompt is warm at the second time.
    One token is compared. vLLM's own prefix cache changes a later token of every sixth such prompt,
    whose two best tokens are nearly equal in bfloat16."""

    def stores() -> bool:
        fresh = prompt(next(_fresh))
        first = answer_of_pod(pod, fresh, max_tokens=1).token_ids
        forget(pod)
        return is_warm(answer_of_pod(pod, fresh, max_tokens=1), first)

    wait_until("a repeated prompt is stored", stores, 30)


def prompt(seed: int = 0, tokens: int = PROMPT_TOKENS) -> str:
    """A text of about the given number of tokens; another seed gives another text, from the first
    chunk on."""
    from demo.prompt import prompt_of

    return f"Question {seed}. " + prompt_of(MODEL, tokens)
