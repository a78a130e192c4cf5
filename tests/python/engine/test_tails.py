"""Tails: with blocks of 32 tokens in chunks of 256, a hit ends at the last whole block. Answers are
equal in every case."""

import types

import pytest
from engines import PATIENCE_S, Engine, prompt, start_larderd, wait_for
from test_serving import failures, flip_a_bit_of_every_page

ARGUMENTS = ["--block-size", "32", "--max-model-len", "2048"]


@pytest.fixture(scope="module")
def world(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tails")
    larderd = start_larderd(folder)
    with (
        larderd,
        Engine(model, larderd.socket, folder, *ARGUMENTS, extra={"tails": True}) as engine,
    ):
        engine.wait_ready()
        engine.larderd = larderd
        yield types.SimpleNamespace(larderd=larderd, engine=engine)


@pytest.fixture
def engine(world):
    return world.engine


@pytest.mark.parametrize(
    "tokens, hit", [(100, 96), (200, 192), (256, 256), (300, 288), (1120, 1120), (1124, 1120)]
)
def test_a_hit_ends_at_the_last_whole_block(engine, tokens, hit):
    text = prompt(f"tail {tokens}", tokens)
    alone = engine.alone(text, 16)
    engine.store(text, 16)
    assert engine.ask_and_count(text, 16) == (alone, hit)
    assert engine.ask_and_count(text, 16) == (alone, hit), "a load stores nothing anew"


def test_a_prompt_whose_answer_fills_the_chunk_has_no_piece(engine):
    text = prompt("tail 255", 255)
    alone = engine.alone(text, 16)
    engine.store(text, 16)
    assert engine.ask_and_count(text, 16) == (alone, 0)


def test_a_prompt_that_parts_inside_the_tail_hits_the_blocks_that_it_shares(engine):
    text = prompt("parts", 470)
    engine.store(text)
    other = text[: 256 + 100] + prompt("another end", 80)
    alone = engine.alone(other)
    assert engine.ask_and_count(other) == (alone, 256 + 96)


def test_each_turn_of_a_chat_computes_less_than_a_block_again(engine):
    chat = prompt("turn 1", 150)
    for turn in range(2, 5):
        answer = engine.store(chat, 40)
        known = (len(chat) + len(answer) - 1) // 32 * 32  # the last token has no KV yet
        chat = chat + answer + prompt(f"turn {turn}", 60)
        alone = engine.alone(chat)
        before = engine.hits()
        engine.reset()
        assert engine.ask(chat, 8) == alone
        assert engine.hits() - before == known, f"turn {turn}"


def test_the_next_turn_fills_the_chunk_around_the_tail(engine):
    """Of loaded and computed blocks. A later request hits the whole chunk."""
    text = prompt("filled", 200)
    engine.store(text)
    longer = text + prompt("more", 150)
    alone = engine.alone(longer)
    engine.store(longer)
    assert engine.ask_and_count(longer) == (alone, 256 + 64), "the chunk, and its own tail"


def test_a_corrupted_tail_is_recomputed(world, engine):
    text = prompt("corrupted tail", 120)  # a tail alone: no whole chunk
    alone = engine.alone(text)
    engine.store(text)
    assert engine.ask_and_count(text) == (alone, 96)
    bad, _ = failures(world.larderd)
    flip_a_bit_of_every_page(f"/dev/shm/{world.larderd.shm_name}.arena")
    answer, _ = engine.ask_and_count(text)
    assert answer == alone
    wait_for(
        lambda: failures(world.larderd)[0] > bad, PATIENCE_S, "verifying the slots reported BAD"
    )


def test_no_hook_ever_failed(engine):
    assert not engine.logged(r"Larder is off")
