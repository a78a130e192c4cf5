"""The pod that the injector makes of an engine's, written by hand, with the required parts only.
The first scenario proves with this pod that larderd and an engine work together in a pod, with or
without the injector."""

from __future__ import annotations

import copy
import json

from harness.vllm_server import CONNECTOR

IMAGE = "localhost/larder:e2e"
GROUP = 65532  # group of larderd's socket
METRICS_PORT = 9464
OWN_MIB = 192  # memory of larderd beside the arena
LIMITED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": GROUP,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def _config(pool: str, memory_mib: int) -> str:
    return (
        f"pool: {pool}\nsocket: /run/larder/{pool}.sock\nmemory:\n  size: {memory_mib}MiB\n"
        f"  shm_name: {pool}\n"
        "  directory: /dev/larder\n  on_mismatch: replace\nhttp:\n"
        f"  listen: 0.0.0.0:{METRICS_PORT}\n"
    )


def _probe(path: str, period_s: int, tries: int) -> dict:
    return {
        "httpGet": {"path": path, "port": METRICS_PORT},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": tries,
    }


def _payload() -> dict:
    return {
        "name": "larder-payload",
        "image": IMAGE,
        "command": ["/usr/bin/larderctl", "install-payload", "/larder"],
        "securityContext": LIMITED,
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": "larder-payload", "mountPath": "/larder"}],
    }


def _larderd(limit_mib: int) -> dict:
    memory = f"{limit_mib}Mi"
    return {
        "name": "larder",
        "image": IMAGE,
        "restartPolicy": "Always",
        "command": ["/usr/bin/larderd", "--config", "/etc/larder/larder.yaml"],
        "securityContext": LIMITED,
        "resources": {"requests": {"cpu": "100m", "memory": memory}, "limits": {"memory": memory}},
        "ports": [{"name": "larder-metrics", "containerPort": METRICS_PORT}],
        "startupProbe": _probe("/readyz", 1, 60),
        "livenessProbe": _probe("/healthz", 10, 6),
        "readinessProbe": _probe("/readyz", 10, 6),
        "volumeMounts": [
            {"name": "larder-run", "mountPath": "/run/larder"},
            {"name": "larder-memory", "mountPath": "/dev/larder"},
            {"name": "larder-config", "mountPath": "/etc/larder", "readOnly": True},
        ],
    }


def _volumes(memory_mib: int) -> list[dict]:
    field = {"fieldPath": "metadata.annotations['larder.dev/config']"}
    return [
        {"name": "larder-run", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        {
            "name": "larder-memory",
            "emptyDir": {"medium": "Memory", "sizeLimit": f"{memory_mib + 64}Mi"},
        },
        {"name": "larder-payload", "emptyDir": {}},
        {
            "name": "larder-config",
            "downwardAPI": {"items": [{"path": "larder.yaml", "fieldRef": field}]},
        },
    ]


def with_larder(
    objects: list[dict], pool: str, memory_mib: int = 512, limit_mib: int = 0
) -> list[dict]:
    """engine_pod.engine()'s objects, the Deployment's pod with larderd, payload and connector.
    `limit_mib`: of larderd's container; 0: the required memory."""
    objects = copy.deepcopy(objects)
    template = objects[0]["spec"]["template"]
    template["metadata"]["annotations"] = {"larder.dev/config": _config(pool, memory_mib)}
    spec, engine = template["spec"], template["spec"]["containers"][0]
    spec["securityContext"] = {"supplementalGroups": [GROUP]}
    spec["initContainers"] = [_payload(), _larderd(limit_mib or memory_mib + OWN_MIB)]
    spec["volumes"] += _volumes(memory_mib)
    engine["args"] += ["--kv-transfer-config", json.dumps(CONNECTOR)]
    engine["env"] += [
        {"name": "PYTHONPATH", "value": "/larder/python"},
        {"name": "LARDER_SOCKET", "value": f"/run/larder/{pool}.sock"},
    ]
    engine["volumeMounts"] += [
        {"name": "larder-run", "mountPath": "/run/larder", "readOnly": True},
        {"name": "larder-payload", "mountPath": "/larder", "readOnly": True},
    ]
    return objects
