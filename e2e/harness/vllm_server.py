"""vLLM's OpenAI server with Larder's connector, on a CPU."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import socket
import sys
import tempfile

from harness.process import Process

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A worker spins for a second after its last step. Wait before a measurement of another engine.
REST_S = 1.5

CONNECTOR = {
    "kv_connector": "LarderConnector",
    "kv_connector_module_path": "larder.vllm",
    "kv_role": "kv_both",
    "kv_load_failure_policy": "recompute",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def engine_env(larder_socket: str, library: str, **more: str) -> dict[str, str]:
    """The environment of a vLLM process on this machine. Spawned workers import by PYTHONPATH
    alone."""
    env = dict(os.environ)
    paths = [str(ROOT / "shim" / "python"), *filter(None, [env.get("PYTHONPATH")])]
    env.update(
        PYTHONPATH=os.pathsep.join(paths),
        LARDER_SOCKET=larder_socket,
        LARDER_LIBRARY=library,
        HF_HUB_OFFLINE="1",
        VLLM_NO_USAGE_STATS="1",
        VLLM_CPU_OMP_THREADS_BIND="nobind",
        VLLM_SERVER_DEV_MODE="1",
        **more,
    )
    env.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    # One processor is for vLLM's other processes, as vLLM's documentation recommends. EngineCore
    # spins during its wait for the worker. If EngineCore takes the processor of an OpenMP thread, a
    # step of 40 ms becomes 150 ms.
    env.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) - 1)))
    return env


class VllmServer(Process):
    """`connector` None: vLLM alone. `serve`: started like `vllm serve`, else by the server's own
    module. URL in `url`."""

    def __init__(
        self,
        name: str,
        model: str,
        served_name: str,
        env: dict[str, str],
        log: pathlib.Path,
        connector: dict | None = CONNECTOR,
        arguments: list[str] = (),
        serve: bool = False,
    ):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        program = (
            ["vllm.entrypoints.cli.main", "serve", model]
            if serve
            else ["vllm.entrypoints.openai.api_server", "--model", model]
        )
        command = [
            sys.executable,
            "-m",
            *program,
            "--served-model-name",
            served_name,
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--enforce-eager",
            "--max-model-len",
            "16384",
            "--seed",
            "0",
            "--no-enable-log-requests",
            *arguments,
        ]
        if connector is not None:
            command += ["--kv-transfer-config", json.dumps(connector)]
        # vLLM leaves its processes' sockets in /tmp.
        self._sockets = tempfile.TemporaryDirectory(prefix="larder-vllm-")
        super().__init__(name, command, {**env, "VLLM_RPC_BASE_PATH": self._sockets.name}, log)

    def stop(self, grace_s: float = 10) -> None:
        super().stop(grace_s)
        self._sockets.cleanup()

    def wait_ready(self, timeout_s: float = 300, progress=None) -> None:
        self.wait_until(self._healthy, timeout_s, progress)

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        finally:
            connection.close()
