"""Engines that differ in one commonly varied flag hit each other's chunks: vLLM itself, one start
for each flag. The fingerprints of more flags: tests/python/unit/test_sharing.py."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import varied_flags
from engine_life import alone, ask
from engines import CONNECTOR, PATIENCE_S, environment, prompt, start_larderd
from harness.process import Process
from harness.vllm_server import engine_env, free_port

from larder import completions
from larder.server import NoServer, Server

TEXT = prompt("flags", 600)
HIT = 512
READY_S = 400
KEY = "a-secret"
FORKS = Path(__file__).with_name("forks_run.py")
LOGS = [
    "--enable-log-requests",
    "--uvicorn-log-level",
    "debug",
    "--max-log-len",
    "10",
    "--disable-log-stats",
]
# Of flags with a value that differs here: the port, and the host that the test asks.
OF_SERVERS = sorted(set(varied_flags.SERVER) - {"port", "host"})
# Arguments and environment of vLLM's server. Every server also has a port of its own.
SERVERS = {
    "host": (["--host", "0.0.0.0"], {}),
    "api_key": (["--api-key", KEY], {}),
    "VLLM_API_KEY": ([], {"VLLM_API_KEY": KEY}),
    "logs": (LOGS, {"VLLM_LOGGING_LEVEL": "DEBUG"}),
    "number_of_api_servers": (["--api-server-count", "2"], {}),
    "all_at_once": (
        [one for flag in OF_SERVERS for one in varied_flags.SERVER[flag]],
        varied_flags.ENVIRONMENT,
    ),
}
# vLLM's CPU build lacks the packages of the endpoint, one process loads the weights, and the
# address is of another machine.
NOT_HERE = {"otlp_traces_endpoint", "max_parallel_loading_workers", "master_addr"}


@pytest.fixture(scope="module")
def world(with_tokenizer, tmp_path_factory):
    """A larderd, and lives of engines over this larderd; an engine without flags has stored TEXT,
    and `answer` is its answer."""
    folder = tmp_path_factory.mktemp("flags")
    with start_larderd(folder) as larderd:
        env = environment(larderd.socket, VLLM_ENABLE_V1_MULTIPROCESSING="0", OMP_NUM_THREADS="1")
        forks = subprocess.Popen(
            [sys.executable, FORKS],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            made = types.SimpleNamespace(
                larderd=larderd, folder=folder, forks=forks, model=with_tokenizer
            )
            (stored,) = live(made, ask(TEXT))
            made.answer = stored["tokens"]
            yield made
        finally:
            forks.kill()
            forks.wait()


def live(world, *asks, **llm):
    """The answers of one engine's life."""
    settled = [{"settle": world.larderd.admin_socket}, {"reset": True}]
    steps = [
        {"named": world.larderd.admin_socket},
        *(step for one in asks for step in (one, *settled)),
    ]
    results, log = (
        world.folder / "results",
        world.folder / f"engine-{len(list(world.folder.iterdir()))}.log",
    )
    results.write_text("")
    options = {"skip_tokenizer_init": True, **llm}
    job = {
        "model": str(world.model),
        "steps": steps,
        "connector": CONNECTOR,
        "extra": {},
        "llm": options,
        "results": str(results),
    }
    world.forks.stdin.write(json.dumps({**job, "env": {}, "log": str(log)}) + "\n")
    world.forks.stdin.flush()
    assert world.forks.stdout.readline() == "0\n", log.read_text()[-6000:]
    assert "Larder is off" not in log.read_text()
    return [result for result in json.loads(results.read_text()) if isinstance(result, dict)]


def tokens_hit(larderd):
    return sum(model["tokens_hit"] for model in larderd.status()["models"])


def namespaces(larderd):
    return {space["id"] for space in larderd.status()["namespaces"]}


@pytest.mark.parametrize("flag", varied_flags.ENGINE)
def test_an_engine_with_this_flag_alone_hits(world, flag):
    """Asked twice: the load of a hit may fail on a busy machine with a late heartbeat. The engine
    stores no chunk for the second hit, since the engine has no namespace of its own."""
    before, known = tokens_hit(world.larderd), namespaces(world.larderd)
    options = varied_flags.ENGINE[flag]
    *hits, without = live(world, ask(TEXT), ask(TEXT), alone(TEXT), **options)
    assert without["hit"] == 0 and all(hit["tokens"] == without["tokens"] for hit in hits)
    world.larderd.wait_until(lambda: tokens_hit(world.larderd) - before >= HIT, PATIENCE_S)
    if not options.get("disable_log_stats"):  # else vLLM counts no hit
        assert max(hit["hit"] for hit in hits) == HIT
    assert namespaces(world.larderd) == known


def test_an_engine_with_all_rare_flags_at_once_hits(world):
    known, options = namespaces(world.larderd), {}
    # the model has no tokenizer, and skip_tokenizer_init excludes a mode
    for flag in set(varied_flags.RARE) - NOT_HERE - {"tokenizer_mode"}:
        options.update(varied_flags.RARE[flag])
    *hits, without = live(world, ask(TEXT), ask(TEXT), alone(TEXT), **options)
    assert max(hit["hit"] for hit in hits) == HIT and without["hit"] == 0
    assert all(hit["tokens"] == without["tokens"] for hit in hits)
    assert namespaces(world.larderd) == known


def test_an_engine_with_another_dtype_does_not_hit(world):
    """The control."""
    known = namespaces(world.larderd)
    (missed,) = live(world, ask(TEXT), dtype="float32")
    assert missed["hit"] == 0 and len(namespaces(world.larderd) - known) == 1


@pytest.mark.parametrize("flag", SERVERS)
def test_a_server_with_this_flag_alone_hits(world, flag):
    arguments, variables = SERVERS[flag]
    before, port = tokens_hit(world.larderd), free_port()
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.cli.main",
        "serve",
        str(world.model),
        "--served-model-name",
        "tiny",
        "--port",
        str(port),
    ]
    command += ["--max-model-len", "2048", "--enforce-eager", "--seed", "0"]
    command += ["--kv-transfer-config", json.dumps(CONNECTOR), *arguments]
    env = engine_env(
        world.larderd.socket, os.environ["LARDER_LIBRARY"], VLLM_CPU_KVCACHE_SPACE="1", **variables
    )
    server = Server(f"http://127.0.0.1:{port}", KEY)
    with Process("vLLM", command, env, world.folder / f"{flag}.log") as process:
        process.wait_until(lambda: answers(server), READY_S)
        completion = completions.stream_completion(server, "tiny", TEXT, 8, timeout_s=PATIENCE_S)
        assert completion.token_ids == world.answer
        world.larderd.wait_until(lambda: tokens_hit(world.larderd) - before >= HIT, PATIENCE_S)


def answers(server):
    try:
        with server.request("GET", "/v1/models", timeout_s=5) as response:
            return response.status == 200
    except NoServer:
        return False
