"""The two compared caches, each with the start of an engine on the cache: larderd, and LMCache's
multi-process server."""

from __future__ import annotations

import contextlib
import http.client
import os
import pathlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from harness.larderd import Larderd
from harness.process import Process
from harness.vllm_server import CONNECTOR, VllmServer, engine_env, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
NAME = "bench"
SIZE_GIB = 4


class LmcacheServer(Process):
    """LMCache, started as documented for engines that copy by themselves, with its memory made at
    the start."""

    def __init__(
        self,
        folder: pathlib.Path,
        shm_name: str,
        ports: tuple[int, int, int] | None = None,
        size_gib: int = SIZE_GIB,
        log_name: str = "lmcache.log",
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.ports = ports or (free_port(), free_port(), free_port())
        self.shm_name = shm_name
        port, self.http_port, prometheus_port = self.ports
        self.url = f"tcp://localhost:{port}"
        self.connector = {
            "kv_connector": "LMCacheMPConnector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {
                "lmcache.mp.host": "tcp://localhost",
                "lmcache.mp.port": port,
            },
        }
        command = [
            sys.executable,
            "-m",
            "lmcache.cli.main",
            "server",
            "--l1-size-gb",
            str(size_gib),
            "--no-l1-use-lazy",
            "--eviction-policy",
            "LRU",
            "--supported-transfer-mode",
            "engine_driven",
            "--shm-name",
            shm_name,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--http-host",
            "127.0.0.1",
            "--http-port",
            str(self.http_port),
            "--prometheus-port",
            str(prometheus_port),
        ]
        super().__init__("LMCache", command, lmcache_env(), folder / log_name)

    def request(self, method: str, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=10)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    def wait_ready(self, timeout_s: float = 60, progress=None) -> None:
        self.wait_until(lambda: self.request("GET", "/healthcheck") == 200, timeout_s, progress)

    def clear(self) -> None:
        self.request("POST", "/cache/clear")

    def stop(self, grace_s: float = 10) -> None:
        super().stop(grace_s)
        # the memory of the killed process
        for left in pathlib.Path("/dev/shm").glob(f"*{self.shm_name}*"):
            left.unlink(missing_ok=True)


def lmcache_env() -> dict[str, str]:
    return {**os.environ, "LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"}


def resident_bytes(process: Process) -> int:
    """Private and file-backed memory of a process, without the shared memory of the cache."""
    lines = pathlib.Path(f"/proc/{process.child.pid}/status").read_text().splitlines()
    sizes = {
        line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss")
    }
    return sizes["RssAnon"] + sizes["RssFile"]


def threads(process: Process) -> int:
    return len(list(pathlib.Path(f"/proc/{process.child.pid}/task").iterdir()))


@dataclass
class Arm:
    """A cache, and the way of an engine to the cache."""

    name: str
    cache: Larderd | LmcacheServer | None
    connector: dict | None

    def engine(self, model: str, log_name: str, arguments: list[str] = ()) -> VllmServer:
        """A vLLM server of this arm, ended by the caller."""
        socket = self.cache.socket if isinstance(self.cache, Larderd) else ""
        env = engine_env(
            socket,
            os.environ["LARDER_LIBRARY"],
            VLLM_CPU_KVCACHE_SPACE="1",
            LMCACHE_TRACK_USAGE="false",
        )
        log = BUILD / "rivals" / f"{log_name}-{self.name}.log"
        return VllmServer(
            f"vLLM on {self.name}", model, NAME, env, log, self.connector, list(arguments)
        )


def start_larderd(
    folder: pathlib.Path, name: str, size_gib: int = SIZE_GIB, log_name: str = "larderd.log"
) -> Larderd:
    return Larderd(os.environ["LARDERD"], folder, name, size=f"{size_gib}GiB", log_name=log_name)


@contextlib.contextmanager
def both(part: str, size_gib: int = SIZE_GIB) -> Iterator[dict[str, Arm]]:
    """The two arms with their caches ready and their memory touched; ended on the way out."""
    name = f"larder-bench-{os.getpid()}-{part}"
    with contextlib.ExitStack() as stack:
        larderd = stack.enter_context(start_larderd(BUILD / "rivals", f"{name}-a", size_gib))
        lmcache = stack.enter_context(
            LmcacheServer(BUILD / "rivals", f"{name}-b", size_gib=size_gib)
        )
        larderd.wait_ready()
        larderd.wait_touched(progress=print)
        lmcache.wait_ready(progress=print)
        yield {
            "larder": Arm("larder", larderd, CONNECTOR),
            "lmcache": Arm("lmcache", lmcache, lmcache.connector),
        }
