"""Copies of stores that take longer than steps, and few blocks: a store never reads a block after
another request's write.

liblarder_test.so waits before each read of a chunk. Six blocks of 128 tokens, a chunk each; stored
chunks are loaded again, and a chunk read from another request's KV would change the answer."""

import os

import pytest
from engines import prompt, run_offline, start_larderd

# Three engine starts; tests/python/unit/test_late_stores.py has the protocol in `make test`.
pytestmark = pytest.mark.long

SLOW_MS = 400
BLOCKS = 6


@pytest.fixture(scope="module")
def larderd(tmp_path_factory):
    with start_larderd(tmp_path_factory.mktemp("slow")) as larderd:
        yield larderd


def run(model, larderd, steps):
    library = os.path.join(os.path.dirname(os.environ["LARDER_LIBRARY"]), "liblarder_test.so")
    env = {"LARDER_LIBRARY": library, "LARDER_TEST_SLOW_STORES_MS": str(SLOW_MS)}
    results, log = run_offline(
        model,
        larderd.socket,
        steps,
        env=env,
        max_model_len=128 * BLOCKS,
        num_gpu_blocks_override=BLOCKS + 1,
        max_num_seqs=2,
    )
    assert "Larder is off" not in log
    return results


def alone(text):
    """The prompt's answer without Larder."""
    return [{"ask": text, "off": True}, {"reset": True}]


def from_larder(larderd, text):
    """The prompt's answer with the stored chunks."""
    return [{"settle": larderd.admin_socket}, {"reset": True}, {"ask": text}]


# covers F-049
def test_blocks_of_a_request_that_ended_are_not_given_to_the_next_one_before_they_are_stored(
    model, larderd
):
    """The request ends in the step that fills its chunks, and the next request needs its blocks."""
    text, other = prompt("slow", 512), prompt("slow, other", 512)
    steps = [
        *alone(text),
        {"ask": text, "max_tokens": 1},
        {"ask": other, "max_tokens": 1},
        *from_larder(larderd, text),
    ]
    expected, *_, warm = run(model, larderd, steps)
    assert warm["hit"] == 512, "all chunks were stored"
    assert warm["tokens"] == expected["tokens"]


# covers F-050
def test_chunks_unread_at_a_preemption_are_not_stored(model, larderd):
    """Both fill their third chunk in one step, and the next one takes a block of the second request
    for the first. The two chunks before were stored long ago, at any speed of the machine."""
    texts = [prompt(f"slow, preempted {i}", 256) for i in range(2)]
    before = [
        step
        for text in texts
        for step in ({"ask": text, "max_tokens": 1}, {"settle": larderd.admin_socket})
    ]
    # the first goes on for longer than a copy takes
    *_, grown = run(model, larderd, [*before, {"ask_all": texts, "max_tokens": 420}])
    assert grown["preemptions"] > 0, "the test must make vLLM preempt"
    turns = [(text + answer)[:400] for text, answer in zip(texts, grown["tokens"])]
    answers = run(
        model,
        larderd,
        [step for turn in turns for step in (*alone(turn), *from_larder(larderd, turn))],
    )
    for expected, warm in (answers[0], answers[4]), (answers[5], answers[9]):
        assert warm["hit"] >= 256, "the stored chunks are loaded"
        assert warm["tokens"] == expected["tokens"]
