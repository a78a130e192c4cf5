"""KServe's Hugging Face server after injection. The real program of its version on its pinned vLLM,
started with the command, arguments and variables of the injected pod. In the folder of the image,
without a cluster."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from demo.prompt import prompt_of
from harness import engine_pod
from harness.cluster import PATHS
from harness.kserve_local import SMALL_CACHE
from harness.larderd import Larderd
from harness.process import Process
from harness.vllm_server import engine_env, free_port

from larder import completions

HOME = Path(PATHS["huggingface"])
# the folder of the project and of the start in KServe's image for GPUs
IMAGES_FOLDER = "/kserve-workspace"
READY_S, PATIENCE_S = 300, 60

_others = itertools.count(100)


def is_built():
    return (HOME / ".complete").exists()


def injected(root):
    pod = yaml.safe_load(
        (root / "tests/golden/inject/kserve-0.20-isvc-huggingface.out.yaml").read_text()
    )
    (container,) = pod["spec"]["containers"]
    assert "command" not in container, "then another program than the image's entrypoint starts"
    return container


def as_here(root, text, workspace, socket):
    """The pod's paths, replaced by the paths of this machine."""
    for there, here in (
        (IMAGES_FOLDER, str(workspace)),
        ("/larder/python", str(root / "shim/python")),
        ("/run/larder/llama.sock", socket),
    ):
        text = re.sub(rf"{there}(?![\w.-])", here, text)
    return text


@pytest.fixture(scope="module")
def service(root, tmp_path_factory):
    """The server over a larderd. LARDER_TEST_KSERVE=1: a missing server is a failure, not a
    skip."""
    if not is_built():
        assert not os.environ.get("LARDER_TEST_KSERVE"), (
            "KServe's Hugging Face server is not there: make deps-kserve"
        )
        pytest.skip(f"no KServe in {HOME} (make deps-kserve)")
    folder = tmp_path_factory.mktemp("huggingface")
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "huggingfaceserver").symlink_to(HOME / "server")
    model, container, port = engine_pod.make_model(), injected(root), free_port()
    with Larderd(
        f"{os.environ['LARDER_TEST_BIN']}/larderd", folder, f"larder-hf-{os.getpid()}", "128MiB"
    ) as larderd:
        larderd.wait_ready()
        env = engine_env(
            larderd.socket,
            os.environ["LARDER_LIBRARY"],
            VLLM_CPU_KVCACHE_SPACE="1",
            VLLM_WORKER_MULTIPROC_METHOD="spawn",
        )
        env.pop("PYTHONHASHSEED", None)  # KServe's image does not set the variable
        env |= {
            one["name"]: as_here(root, one["value"], workspace, larderd.socket)
            for one in container["env"]
        }
        args = [
            f"--model_dir={model}",
            f"--http_port={port}",
            "--enable_grpc=false",
            *container["args"],
            *SMALL_CACHE,
        ]
        start = 'cd "$1" && shift && exec "$@"'
        command = [
            "bash",
            "-c",
            start,
            "--",
            str(workspace),
            str(HOME / "bin/python3"),
            "-m",
            "huggingfaceserver",
            *args,
        ]
        with Process("huggingfaceserver", command, env, folder / "huggingfaceserver.log") as server:
            server.wait_until(lambda: _ready(port), READY_S)
            yield SimpleNamespace(
                url=f"http://127.0.0.1:{port}", model=model, larderd=larderd, log=server.log
            )


def _ready(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5) as answer:
        return json.load(answer)["ready"]


def ask(service, number, tokens=1500):
    prompt = f"Question {number}. " + prompt_of(service.model, tokens)
    return completions.stream_completion(f"{service.url}/openai", "qwen", prompt, 8, timeout_s=120)


def ask_anew(service, number, tokens=1500):
    """(answer, tokens from Larder), after other prompts have evicted the prompt from vLLM's own
    cache."""
    for _ in range(2):
        ask(service, next(_others))
    own, external = completions.hit_tokens(service.url)
    answer = ask(service, number, tokens)
    now = completions.hit_tokens(service.url)
    assert now[0] == own, "vLLM's own cache had a part"
    return answer, now[1] - external


def settled(service):
    """Waits until larderd has committed all stores."""
    deadline = time.monotonic() + PATIENCE_S
    before = service.larderd.status()["uptime_seconds"]
    while True:
        status = service.larderd.status()
        if status["uptime_seconds"] > before and status["memory"]["slots"]["granted"] == 0:
            return
        assert time.monotonic() < deadline, "larderd still has grants"
        time.sleep(0.1)


def told(service, wanted):
    """Tokens that larderd counts as hit, of all models; engines report within a second."""
    deadline = time.monotonic() + PATIENCE_S
    while (
        found := sum(one["tokens_hit"] for one in service.larderd.status()["models"])
    ) < wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def failed_loads(service):
    return len(re.findall(r"Load of request \S+ failed", service.log.read_text(errors="replace")))


def test_the_second_time_is_warm_and_the_same(service):
    cold = ask(service, 0)
    settled(service)
    assert cold.cached_tokens == 0
    warm, hit = ask_anew(service, 0)
    assert hit == warm.cached_tokens == engine_pod.whole_chunks(warm)
    assert told(service, hit) == hit
    assert warm.token_ids == cold.token_ids
    print(
        f"vLLM 0.24 of KServe's server: {warm.prompt_tokens} tokens, {hit} of them hit; "
        f"{cold.ttft_s:.3f} s, then {warm.ttft_s:.3f} s"
    )


def test_a_failed_load_is_recomputed(service):
    """This vLLM hears of a failed load by page. Zeroed bytes do not match their digests."""
    cold = ask(service, 1, tokens=300)
    settled(service)
    with open(f"/dev/shm/{service.larderd.shm_name}.arena", "r+b") as arena:
        arena.write(bytes(os.fstat(arena.fileno()).st_size))
    again, _ = ask_anew(service, 1, tokens=300)
    assert again.token_ids == cold.token_ids
    assert failed_loads(service)
    assert "Recovered from KV load failure: 1 request(s) rescheduled" in service.log.read_text(
        errors="replace"
    )
    deadline, warm = time.monotonic() + PATIENCE_S, False
    # a load ends at the first bad chunk, so each turn finds and stores one bad chunk
    while not warm:
        assert time.monotonic() < deadline, "the chunk was not stored anew"
        settled(service)
        failures = failed_loads(service)
        answer, hit = ask_anew(service, 1, tokens=300)
        assert answer.token_ids == cold.token_ids
        warm = hit == engine_pod.whole_chunks(answer) and failed_loads(service) == failures
