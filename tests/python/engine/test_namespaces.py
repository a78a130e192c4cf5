"""An engine never hits the chunks of a different engine, and the log names the differing field; an
equal engine hits. No server: one vLLM a case."""

import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from engines import PATIENCE_S, REFUSED, environment, prompt, run_offline, start_larderd, wait_for
from transformers import AutoTokenizer

EXAMPLE_RUN = Path(__file__).parent / "example_run.py"
# A loaded prompt rounds its tail in another way than a computed one. A near tie of these random
# weights may then end the other way, by the machine. This text has no near tie in 32 tokens on the
# tried machines.
EXAMPLE = "Sphinx of black quartz, judge my vow. " * 40


@pytest.fixture(scope="module")
def world(make, root, tmp_path_factory):
    """A model at `path`, and a larderd in which the example for offline use has stored `text`."""
    folder = tmp_path_factory.mktemp("namespaces")
    path = shutil.copytree(make(0), folder / "model")
    text = AutoTokenizer.from_pretrained(path)(EXAMPLE)["input_ids"]
    assert len(text) > 256
    with start_larderd(folder) as larderd:
        example = run_example(root, folder, path, larderd, len(text) // 128)
        yield types.SimpleNamespace(
            folder=folder, path=path, larderd=larderd, text=text, example=example
        )


def run_example(root, folder, path, larderd, chunks):
    """The output of examples/offline.py. Run once more if a busy larderd refused a chunk, by the
    log, until the chunk's request had ended: the chunk is not stored then."""
    (folder / "text").write_text(EXAMPLE)
    script = root / "shim" / "python" / "examples" / "offline.py"
    command = [
        sys.executable,
        EXAMPLE_RUN,
        larderd.admin_socket,
        str(chunks),
        script,
        path,
        folder / "text",
    ]
    env = environment(larderd.socket)
    for _ in range(5):
        larderd.request("POST", "/v1/clear")
        done = subprocess.run(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        if done.returncode == 0 or not re.search(REFUSED, done.stdout):
            break
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout.splitlines()


def test_the_offline_example_hits_the_second_time(world):
    answers = [line for line in world.example if line.startswith(("'", '"'))]
    assert len(answers) == 2 and answers[0] == answers[1]
    loads = [line.rsplit(" ", 1)[1] for line in world.example if "need to load" in line]
    assert loads == ["0", str(len(world.text) // 128 * 128)]


def salted(world):
    return sum(model["requests_salted"] for model in world.larderd.status()["models"])


def test_another_dtype_and_a_salt_miss_and_short_prompts_are_left_alone(world):
    short = prompt("short", 200)
    steps = [
        {"ask": world.text},
        {"ask": short},
        *settled(world),
        {"ask": world.text},
        {"ask": short},
        {"ask": world.text, "salt": "mine"},
    ]
    salted_before = salted(world)
    results, log = run_offline(
        world.path, world.larderd.socket, steps, extra={"min_tokens": 201}, dtype="float32"
    )
    cold, short_cold, _, _, warm, short_warm, with_salt = results
    assert (cold["hit"], warm["hit"]) == (0, len(world.text) // 128 * 128)
    assert warm["tokens"] == cold["tokens"]
    assert (short_cold["hit"], short_warm["hit"]) == (0, 0)
    assert with_salt["hit"] == 0 and with_salt["tokens"] == cold["tokens"]
    wait_for(
        lambda: salted(world) == salted_before + 1,
        PATIENCE_S,
        "larderd hears of the one request with a salt",
    )
    assert "dtype" in named_in(log)


# covers F-064
def test_another_block_size_misses_and_rejected_drafts_are_not_stored(world):
    """With n-gram speculation, drafts that are rejected later stand in the blocks of chunks that
    fill in decode."""
    llm = {
        "block_size": 32,
        "speculative_config": {
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        },
    }
    ask = {"ask": world.text, "max_tokens": 150}
    extra = {"chunk_tokens": 128}
    steps = [ask, *settled(world), ask]
    # float32: in 150 tokens bfloat16 has near ties, which rounding decides by the machine.
    (cold, *_, warm), log = run_offline(
        world.path, world.larderd.socket, steps, extra=extra, dtype="float32", **llm
    )
    assert (cold["hit"], warm["hit"]) == (0, len(world.text) // 128 * 128)
    assert warm["tokens"] == cold["tokens"]
    assert cold["drafts"] > 0, "the test must make vLLM speculate"
    assert "block_size" in named_in(log)


# covers F-064
def test_a_fine_tune_at_the_same_path_misses_and_the_negative_control(world, make):
    """Verification is bypassed (liblarder_test.so): zeroed chunks must change the answer, else
    equal tokens prove no hit."""
    shutil.rmtree(world.path)
    shutil.copytree(make(1), world.path)
    ask = {"ask": world.text, "max_tokens": 16}
    steps = [
        ask,
        *settled(world),
        ask,
        {"zero": f"/dev/shm/{world.larderd.shm_name}.arena"},
        {"reset": True},
        ask,
    ]
    library = os.path.join(os.path.dirname(os.environ["LARDER_LIBRARY"]), "liblarder_test.so")
    bypassed = {"LARDER_LIBRARY": library, "LARDER_TEST_SKIP_VERIFY": "1"}
    (cold, _, _, warm, _, _, zeroed), log = run_offline(
        world.path, world.larderd.socket, steps, env=bypassed
    )
    assert cold["hit"] == 0
    assert "weights" in named_in(log)
    assert warm["hit"] == zeroed["hit"] == len(world.text) // 128 * 128
    assert warm["tokens"] == cold["tokens"]
    assert zeroed["tokens"] != cold["tokens"]


def settled(world):
    """Stored chunks can be found, and vLLM's own cache is empty."""
    return [{"settle": world.larderd.admin_socket}, {"reset": True}]


def named_in(log):
    """The log lines that compare this namespace with another."""
    return "\n".join(line for line in log.splitlines() if "Larder" in line and "differ" in line)
