"""An engine over two nodes, on one machine: vLLM's server with one rank, and `vllm serve
--headless` with the other, each with a larderd of its own."""

import json
import sys

from engines import CONNECTOR, Engine, environment
from harness.process import Process
from harness.vllm_server import free_port

SHARED = ("--enforce-eager", "--max-model-len", "2048", "--seed", "0", "--dtype", "float32")


class TwoNodes:
    """`here`, `there`: the larderds. sizes: the arguments for the ranks, two in all.
    Use as a context manager."""

    def __init__(self, model, here, there, folder, *sizes, **env):
        self.here, self.there = here, there
        env["VLLM_HOST_IP"] = "127.0.0.1"
        nodes = [
            "--nnodes",
            "2",
            "--master-addr",
            "127.0.0.1",
            "--master-port",
            str(free_port()),
            *sizes,
        ]
        follow = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model),
                  "--headless", "--node-rank", "1", *SHARED, *nodes,
                  "--kv-transfer-config", json.dumps(CONNECTOR)]  # fmt: skip
        self.follower = Process(
            "the other node",
            follow,
            environment(there.socket, **env),
            folder / f"follower-{free_port()}.log",
        )
        self.engine = Engine(model, here.socket, folder, "--node-rank", "0", *SHARED, *nodes, **env)

    def __enter__(self):
        try:
            self.engine.wait_ready(900)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.engine.stop()
        self.follower.stop()

    def ask(self, tokens, max_tokens=16):
        """(answer, tokens loaded from Larder), with nothing in vLLM's own cache, and once all that
        is stored can be found."""
        self.engine.reset()
        for larderd in (self.here, self.there):
            if larderd.child.poll() is None:
                larderd.wait_settled()
        before = self.engine.hits()
        return self.engine.ask(tokens, max_tokens), self.engine.hits() - before

    def logs(self):
        return self.engine.log.read_text(errors="replace") + self.follower.log.read_text(
            errors="replace"
        )
