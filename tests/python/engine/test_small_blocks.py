"""Blocks of 32 tokens in chunks of 256, prefill in steps of 96 tokens, and too few blocks: requests
are preempted and resumed."""

import types

import pytest
from engines import PATIENCE_S, Engine, prompt, start_larderd, wait_for
from test_serving import failures

from larder.server import Server

BLOCKS = 60  # 1,920 tokens
OUTPUT = 200  # 400 tokens of a prompt and these are 19 blocks


@pytest.fixture(scope="module")
def world(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    larderd = start_larderd(folder)
    arguments = [
        "--block-size",
        "32",
        "--max-num-batched-tokens",
        "96",
        "--max-num-seqs",
        "8",
        "--max-model-len",
        "1600",
    ]
    with (
        larderd,
        Engine(
            model, larderd.socket, folder, *arguments, "--num-gpu-blocks-override", str(BLOCKS)
        ) as engine,
    ):
        engine.wait_ready()
        engine.larderd = larderd
        yield types.SimpleNamespace(larderd=larderd, engine=engine)


@pytest.fixture
def engine(world):
    return world.engine


@pytest.mark.parametrize("tokens", [255, 256, 257, 511, 512, 600])
def test_chunks_fill_across_prefill_steps_of_96(engine, tokens):
    text = prompt(f"96 {tokens}", tokens)
    alone = engine.alone(text, 16)
    cold, cold_hit = engine.ask_and_count(text, 16)
    warm, warm_hit = engine.ask_and_count(text, 16)
    assert cold == warm == alone
    assert (cold_hit, warm_hit) == (0, tokens // 256 * 256)


@pytest.mark.parametrize("local", [32, 224, 288, 480])
def test_a_local_hit_that_ends_inside_a_chunk(engine, local):
    """vLLM shares its own blocks with running requests: the load leaves these blocks out and brings
    the rest."""
    text = prompt(f"inside {local}", 560)
    alone = engine.alone(text, 16)
    engine.ask_and_count(text)
    engine.reset()
    engine.ask(text[: local + 1], 1)
    before = engine.hits()
    assert engine.ask(text, 16) == alone
    assert engine.hits() - before == 512 - local


def test_decode_fills_a_chunk(engine):
    turn = prompt("decode", 230)
    follow_up = turn + engine.store(turn, 40)
    alone = engine.alone(follow_up)
    assert engine.ask_and_count(follow_up) == (alone, 256)


def test_preempted_requests_are_answered_as_if_alone(world, engine):
    """Eight come at once, four have room for their prompts, and no request ends before the four
    have filled all blocks."""
    texts = [prompt(f"preempt {i}", 400) for i in range(8)]
    cold, at_first = engine.ask_batch(texts, OUTPUT), preemptions(engine)
    engine.reset()
    warm = engine.ask_batch(texts, OUTPUT)
    assert at_first > 0 and preemptions(engine) > at_first, (
        "the test must make vLLM preempt, cold and warm"
    )
    assert [len(answer) for answer in cold + warm] == [OUTPUT] * 16
    assert failures(world.larderd) == (0, 0)
    alone = engine.alone(texts[0], OUTPUT)
    engine.store(texts[0], OUTPUT)
    assert engine.ask_and_count(texts[0], OUTPUT) == (alone, 256)
    wait_for(lambda: world.larderd.status()["holds"] == 0, PATIENCE_S, "giving up the holds")


def preemptions(engine):
    with Server(engine.url).request("GET", "/metrics") as response:
        lines = response.read().decode().splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith("vllm:num_preemptions_total")
    )


# covers F-127
def test_no_hook_ever_failed(engine):
    assert not engine.logged(r"Larder is off")
