"""A Redis of the user's own in the cluster, plain or with TLS and a password, with its Secrets."""

from __future__ import annotations

import base64
import pathlib
import subprocess
import tempfile

from harness.cluster import ROOT
from harness.engine_pod import IMAGE

PORT = 6379


def secret(name: str, **values: bytes) -> dict:
    """values by key; a dot in a key: pass the key by **{}."""
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def certificates(*names: str) -> dict[str, bytes]:
    """ca.crt, and tls.crt and tls.key of a server of these DNS names."""
    with tempfile.TemporaryDirectory() as folder:
        alternative = ",".join(f"DNS:{name}" for name in names)
        script = (
            f'. {ROOT}/tests/component/kube/pki.sh; authority ca; certificate tls ca /CN=redis '
            f'serverAuth "{alternative}"'
        )
        subprocess.run(
            ["bash", "-ec", script], check=True, env={"pki": folder, "PATH": "/usr/bin:/bin"}
        )
        return {
            name: (pathlib.Path(folder) / name).read_bytes()
            for name in ("ca.crt", "tls.crt", "tls.key")
        }


def redis(name: str, tls_secret: str = "", password: str = "") -> list[dict]:
    """Deployment and Service, without a disk. With a Secret of certificates: TLS only."""
    command = [
        "redis-server",
        "--save",
        "",
        "--appendonly",
        "no",
        "--maxmemory",
        "512mb",
        "--maxmemory-policy",
        "allkeys-lru",
    ]
    volumes, mounts = [], []
    if tls_secret:
        command += [
            "--port",
            "0",
            "--tls-port",
            str(PORT),
            "--tls-cert-file",
            "/tls/tls.crt",
            "--tls-key-file",
            "/tls/tls.key",
            "--tls-ca-cert-file",
            "/tls/ca.crt",
            "--tls-auth-clients",
            "no",
        ]
        volumes, mounts = (
            [{"name": "tls", "secret": {"secretName": tls_secret}}],
            [{"name": "tls", "mountPath": "/tls"}],
        )
    if password:
        command += ["--requirepass", password]
    container = {
        "name": "redis",
        "image": IMAGE,
        "command": command,
        "ports": [{"containerPort": PORT}],
        "workingDir": "/tmp",
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": mounts,
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [container],
                        "volumes": volumes,
                    },
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
