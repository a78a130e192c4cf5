"""Interpreters that end without vLLM's shutdown, such as a notebook's: the last lines are written,
and the clients are closed."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("vllm")

# An engine without a shutdown, in its first lines; an engine after its shutdown is beside it.
UNENDED = """
import logging, os, sys
from types import SimpleNamespace
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from larder.vllm import connector, fail_safe

handler = logging.StreamHandler(sys.stdout)  # as vLLM's own, once an engine has set up its log
logging.getLogger("vllm").addHandler(handler)
logging.getLogger("vllm").setLevel(logging.INFO)

class Client:
    lines = ["warning of the library"]
    running = 0
    def next_log(self):
        return ("warning", self.lines.pop()) if self.lines else None
    def copies(self):
        return self.running
    def close(self):
        print("client closed", flush=True)

def refuse(*_):
    raise connector.Unsupported("a test")

connector.setup_of = refuse
connector.EXIT_WAIT_S = 0.1
config = SimpleNamespace(kv_transfer_config=SimpleNamespace(kv_load_failure_policy="fail"))
kept, shut = (connector.LarderConnector(config, KVConnectorRole.WORKER, None) for _ in range(2))
shut.shutdown()
kept._client = Client()
kept._pump = fail_safe.LogPump(kept._client)
fail_safe.late.info("Storing %d tokens", 512)
"""


def run_to_exit(last_lines=""):
    """Standard output and error of that process."""
    variables = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    command = [sys.executable, "-c", UNENDED + last_lines]
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


# covers F-054
def test_an_interpreter_that_ends_without_a_shutdown_writes_the_last_lines_and_closes_its_clients():
    """Threads of the library must not write to KV pages while CUDA and torch go."""
    text = run_to_exit()
    assert "Storing 512 tokens" in text and "warning of the library" in text
    assert text.count("client closed") == 1


# covers F-054
def test_an_interpreter_that_ends_waits_so_long_at_most_for_copies():
    """As with a hanging GPU, or a larderd stopped in mid-copy: closing would wait without end."""
    text = run_to_exit("kept._client.running = 2")
    assert "2 copies from and to KV pages have not ended" in text and "client closed" not in text


def test_a_forked_child_leaves_lines_and_client_to_its_parent():
    text = run_to_exit("""
if (child := os.fork()) == 0:
    fail_safe.late.info("of the child")
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""")
    for once in ("Storing 512 tokens", "of the child", "warning of the library", "client closed"):
        assert text.count(once) == 1, (once, text)


def test_at_the_exit_of_the_interpreter_a_closed_log_is_left_alone():
    """The owner of the engine's process has closed the stream of vLLM's log by then: a notebook,
    pytest."""
    text = run_to_exit("""
handler.stream = open("/dev/null", "w")
handler.stream.close()
""")
    assert "Logging error" not in text and "Traceback" not in text
    assert "of the library" not in text
