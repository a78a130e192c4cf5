"""Real engines for the tests: vLLM's server over real larderds, both in processes of their own, on
a tiny model with real weights."""

import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.larderd import Larderd
from harness.vllm_server import VllmServer, engine_env

from larder import completions
from larder.server import Server

OFFLINE = Path(__file__).with_name("offline_run.py")
# Only the connector's name: the connector must set the rest by itself.
CONNECTOR = {
    "kv_connector": "LarderConnector",
    "kv_connector_module_path": "larder.vllm",
    "kv_role": "kv_both",
}
OFF = {"kv_transfer_params": {"larder": "off"}}
VOCABULARY = range(3, 1000)
PATIENCE_S = 60  # for events that are sure to come, on a machine that may be busy
# Beyond the longest time of a request: make test runs other tests at the same time, make test-crash
# does not.
SLACK_S = 1 if os.environ.get("CRASH_SUITE") == "whole" else 5
# In the log: larderd had no answer in the time that a store waits for larderd.
REFUSED = r"\d+ were there, [1-9]\d* refused"

_numbers = itertools.count()


def prompt(seed, tokens):
    generator = random.Random(seed)
    return [generator.choice(VOCABULARY) for _ in range(tokens)]


def start_larderd(folder, size="256MiB", name=None, extra="", pool=""):
    number = next(_numbers)
    name = name or f"larder-test-{os.getpid()}-{number}"
    binary = Path(os.environ["LARDER_TEST_BIN"]) / "larderd"
    log = f"larderd-{number}.log"
    larderd = Larderd(binary, folder, name, size, extra, log_name=log, pool=pool)
    larderd.wait_ready()
    return larderd


def environment(socket, **more):
    return engine_env(str(socket), os.environ["LARDER_LIBRARY"], VLLM_CPU_KVCACHE_SPACE="1", **more)


class Engine(VllmServer):
    """vLLM's server with Larder's connector. Ask with token ids. `larderd`: the engine's larderd,
    None while there is none."""

    larderd = None

    def __init__(
        self,
        model,
        socket,
        folder,
        *arguments,
        extra=None,
        role="kv_both",
        connector=None,
        serve=False,
        **env,
    ):
        """connector: the whole of --kv-transfer-config, in place of Larder alone with `extra` and
        `role`."""
        connector = connector or {
            **CONNECTOR,
            "kv_role": role,
            "kv_connector_extra_config": extra or {},
        }
        log = folder / f"vllm-{next(_numbers)}.log"
        super().__init__(
            "vLLM",
            str(model),
            "tiny",
            environment(socket, **env),
            log,
            connector,
            list(arguments),
            serve,
        )

    def ask(self, tokens, max_tokens=8, **fields):
        return completions.stream_completion(
            self.url, "tiny", tokens, max_tokens, timeout_s=120, **fields
        ).token_ids

    def alone(self, tokens, max_tokens=8):
        """The answer without any cache."""
        self.reset()
        return self.ask(tokens, max_tokens, **OFF)

    def reset(self):
        """Empties the engine's own prefix cache. Waits for running work (an abort), and for
        larderd's commits of the engine's stores. The engine does not wait for commits, and the next
        request may expect a full hit."""
        deadline = time.monotonic() + PATIENCE_S
        while not completions.reset_prefix_cache(self.url):
            assert time.monotonic() < deadline, "vLLM's prefix cache could not be reset"
            time.sleep(0.1)
        if self.larderd is not None:
            committed_chunks(self.larderd)

    def hits(self):
        """Tokens loaded from Larder since the start."""
        return int(completions.hit_tokens(self.url)[1])

    def ask_and_count(self, tokens, max_tokens=8, **fields):
        """(answer, tokens loaded from Larder), with an empty cache of the engine's own. The
        request's chunks are stored."""
        self.reset()
        before, refused = self.hits(), len(self.logged(REFUSED))
        answer = self.ask(tokens, max_tokens, **fields)
        hit = self.hits() - before
        if self.larderd is not None and len(self.logged(REFUSED)) > refused:
            self.store(tokens, max_tokens, **fields)
        return answer, hit

    def store(self, tokens, max_tokens=8, **fields):
        """The answer, after the store of all chunks. A chunk with a late answer of a busy larderd
        is left out, and the log says so. The chunk is stored when it is computed again."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.reset()
            refused = len(self.logged(REFUSED))
            answer = self.ask(tokens, max_tokens, **fields)
            if len(self.logged(REFUSED)) == refused:
                return answer
            assert time.monotonic() < deadline, (
                "larderd refuses a chunk again and again, or is always late"
            )

    def ask_batch(self, prompts, max_tokens):
        """The answers to prompts that come in one request: vLLM has all of them within a few
        steps."""
        body = {
            "model": "tiny",
            "prompt": prompts,
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
        }
        body["return_token_ids"] = True
        with Server(self.url).request("POST", "/v1/completions", body, 300) as response:
            choices = json.load(response)["choices"]
        return [
            choice["token_ids"] for choice in sorted(choices, key=lambda choice: choice["index"])
        ]

    def logged(self, pattern):
        return re.findall(pattern, self.log.read_text(errors="replace"))


def run_offline(
    model,
    socket,
    steps,
    extra=None,
    env=None,
    timeout_s=180,
    script=OFFLINE,
    connector=CONNECTOR,
    **llm,
):
    """Runs offline_run.py, or a variant, and returns (the results, the whole output). In one
    process, which starts in half the time; servers and the example for offline use run like a
    user's, in several."""
    environ = {**environment(socket, VLLM_ENABLE_V1_MULTIPROCESSING="0"), **(env or {})}
    # A file, not the output: a log line of another thread may stand between the parts of a long
    # print().
    with tempfile.NamedTemporaryFile(suffix=".json") as results:
        job = {
            "model": str(model),
            "steps": steps,
            "connector": connector,
            "extra": extra or {},
            "llm": llm,
            "results": results.name,
        }
        done = subprocess.run(
            [sys.executable, script],
            input=json.dumps(job),
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        written = Path(results.name).read_text()
    assert done.returncode == 0 and written, done.stdout[-6000:]
    return json.loads(written), done.stdout


def answers(engine, text):
    """(computed, computed with all but the last tokens in the engine's own cache): without Larder.
    With such weights the two may differ, since the engine computes in other steps; Larder's loads
    must give the second."""
    computed = engine.alone(text)
    return computed, engine.ask(text, **OFF)


def timed(work, *arguments):
    """(its result, seconds)."""
    began = time.monotonic()
    return work(*arguments), time.monotonic() - began


def committed_chunks(larderd):
    """How many chunks were ever committed, once no grant is left."""
    return larderd.wait_settled(PATIENCE_S)["memory"]["chunks_committed"]


def wait_for(condition, timeout_s, what):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
        time.sleep(0.05)
