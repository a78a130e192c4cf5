"""An interpreter that ends without vLLM's shutdown: threads of the library must not write to KV pages while CUDA and torch go."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("vllm")

TWO_ENGINES = """
import os
from types import SimpleNamespace
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from larder.vllm import connector

def refuse(*_):
    raise connector.Unsupported("a test")

connector.setup_of = refuse
config = SimpleNamespace(kv_transfer_config=SimpleNamespace(kv_load_failure_policy="fail"))
living, ended = (connector.LarderConnector(config, KVConnectorRole.WORKER, None) for _ in range(2))
for one in (living, ended):
    one._pump = SimpleNamespace(stop=lambda: print("pump stopped", flush=True))
    one._client = SimpleNamespace(close=lambda: print("client closed", flush=True))
ended._pump = ended._client = None
ended.shutdown()
"""
CLOSED = "pump stopped\nclient closed\n"


def run_to_its_end(more=""):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", TWO_ENGINES + more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_an_interpreter_that_ends_without_a_shutdown_closes_its_clients():
    assert run_to_its_end() == CLOSED


def test_a_forked_child_leaves_its_parents_clients_alone():
    forks = """
child = os.fork()
if child == 0:
    raise SystemExit
os.waitpid(child, 0)
print("child ended", flush=True)
"""
    assert run_to_its_end(forks) == "child ended\n" + CLOSED
