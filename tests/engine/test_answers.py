"""Compares answers with Larder bit for bit with answers from the engine's own prefix cache.

Both compute the same tail over the same KV, so only wrong bytes can make a difference. Before a
load the engine writes NaN over all its pages. Answers without a cache are compared within a
tolerance, because a prefill of another length rounds differently."""

import mmap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from paged_engine.engine import Engine  # noqa: E402
from paged_engine.shapes import TINY_LLAMA, TINY_QWEN2, TINY_QWEN3  # noqa: E402

CHUNK, BLOCK = 32, 16
CASES = [
    (TINY_LLAMA, torch.bfloat16),
    (TINY_QWEN2, torch.bfloat16),
    (TINY_QWEN3, torch.bfloat16),
    (TINY_LLAMA, torch.float32),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].name}-{case[1]}".replace("torch.", ""))
def shape_and_dtype(request):
    return request.param


@pytest.fixture
def make(device, larderd):
    """make(shape, dtype, ...): an engine attached to larderd."""
    engines = []

    def maker(shape=TINY_LLAMA, dtype=torch.bfloat16, **how):
        engine = Engine(shape, device, dtype, block_size=BLOCK, **how)
        engines.append(engine)
        link = engine.attach(larderd.socket, CHUNK)
        # On a busy machine larderd may answer late, and a chunk that is not stored is no error.
        link.store_wait_ms = 5000
        assert link.wait_attached(60_000), link.log_lines()
        return engine

    yield maker
    for engine in engines:
        engine.close()


@pytest.fixture
def stored(wait_for):
    """stored(engine, prompt): waits until all whole chunks of the prompt can be loaded."""

    def wait(engine, prompt):
        whole = len(prompt) // CHUNK * CHUNK
        wait_for(
            lambda: engine.larder.hit_tokens(engine.request(prompt)) == whole,
            "the stored chunks are in the index",
        )

    return wait


def same(one, other):
    assert one.tokens == other.tokens
    assert all(torch.equal(a, b) for a, b in zip(one.logits, other.logits, strict=True))
    assert not any(logits.isnan().any() for logits in one.logits)


@pytest.mark.parametrize("tail", [0, 5])
def test_loaded_chunks_equal_the_reuse_of_the_engine(make, stored, prompt, shape_and_dtype, tail):
    """tail 0: the whole prompt is found, and its last token is computed again."""
    engine, text = make(*shape_and_dtype), prompt(tail, 3 * CHUNK + tail)
    cold = engine.generate(text, 4)
    assert (cold.local_tokens, cold.loaded_tokens, cold.stored_chunks) == (0, 0, 3)
    own = engine.generate(text, 4, larder=False)
    assert own.local_tokens == 3 * CHUNK
    stored(engine, text)
    engine.forget()
    warm = engine.generate(text, 4)
    assert (warm.local_tokens, warm.loaded_tokens, warm.stored_chunks) == (0, 3 * CHUNK, 0)
    same(warm, own)
    torch.testing.assert_close(warm.logits, cold.logits, rtol=0.1, atol=0.2)


def test_a_cache_changes_no_cold_answer(make, prompt):
    engine, text = make(), prompt(10, 80)
    same(engine.generate(text, 3, own=False), engine.generate(text, 3, larder=False, own=False))


def test_the_common_prefix_of_another_prompt_is_loaded(make, stored, prompt):
    engine, text = make(), prompt(20, 4 * CHUNK)
    other = text[: 2 * CHUNK] + prompt(21, 40)
    engine.generate(text, larder=False)
    own = engine.generate(other, 3, larder=False)
    assert own.local_tokens == 2 * CHUNK
    engine.forget()
    engine.generate(text, own=False)
    stored(engine, text)
    warm = engine.generate(other, 3)
    assert (warm.loaded_tokens, warm.stored_chunks) == (2 * CHUNK, 1)
    same(warm, own)


def test_blocks_in_the_engine_are_not_loaded_or_written(make, stored, prompt):
    """The engine has three blocks, one chunk and a half. The other half and one chunk are
    loaded."""
    engine, text = make(), prompt(30, 3 * CHUNK)
    engine.generate(text)
    own = engine.generate(text, 3, larder=False)
    stored(engine, text)
    engine.forget()
    engine.generate(text[: 3 * BLOCK], larder=False)
    warm = engine.generate(text, 3)
    assert (warm.local_tokens, warm.loaded_tokens) == (3 * BLOCK, 3 * CHUNK - 3 * BLOCK)
    # A shorter prefill made the first blocks.
    torch.testing.assert_close(warm.logits, own.logits, rtol=0.1, atol=0.2)

    engine.forget()
    engine.generate(text[: 3 * BLOCK], larder=False)
    blocks = engine.pool.hits(engine.request(text).hashes[:3])
    engine.pool.free(blocks)
    for layer in engine.kv.layers:
        layer[blocks] = 7
    assert engine.generate(text).loaded_tokens == 3 * CHUNK - 3 * BLOCK
    assert all((layer[blocks] == 7).all() for layer in engine.kv.layers)


def test_chunks_are_stored_as_they_fill(make, stored, prompt):
    """In a prefill of several steps, and in decode."""
    engine, text = make(step_tokens=40), prompt(40, 2 * CHUNK + 3)
    cold = engine.generate(text, 2 * CHUNK)
    whole = text + cold.tokens[:-1]  # the last token has no KV yet
    assert (len(whole), cold.stored_chunks) == (4 * CHUNK + 2, 4)
    own = engine.generate(whole, 3, larder=False)
    stored(engine, whole)
    engine.forget()
    warm = engine.generate(whole, 3)
    assert (own.local_tokens, warm.loaded_tokens) == (4 * CHUNK, 4 * CHUNK)
    same(warm, own)


def test_waiting_for_all_layers_gives_the_same_answer(make, stored, prompt):
    """As in vLLM: the forward pass begins after all layers are loaded."""
    engine, text = make(), prompt(45, 3 * CHUNK + 5)
    engine.generate(text)
    own = engine.generate(text, 3, larder=False)
    stored(engine, text)
    engine.forget()
    engine.larder.by_layer = False
    warm = engine.generate(text, 3)
    assert warm.loaded_tokens == 3 * CHUNK and engine.larder.last_layers_early == 0
    same(warm, own)


@pytest.mark.parametrize("layer", [0, 2])
def test_a_damaged_chunk_is_computed_and_no_answer_changes(
    make, stored, larderd, prompt, wait_for, layer
):
    """layer 2: the output of the pass over the earlier layers is void."""
    failures = larderd.metrics()["larder_checksum_failures_total"]
    engine, text = make(), prompt(50 + layer, 2 * CHUNK)
    alone = engine.generate(text, 3, larder=False, own=False)
    engine.generate(text)
    stored(engine, text)
    damage(engine, text, layer, Path("/dev/shm") / f"{larderd.shm_name}.arena")
    engine.forget()
    answer = engine.generate(text, 3, own=False)
    assert answer.loaded_tokens == 0 and engine.larder.last_load.reason == "data loss"
    same(answer, alone)
    wait_for(
        lambda: larderd.metrics()["larder_checksum_failures_total"] == failures + 1, "it is counted"
    )


def damage(engine, text, layer, arena):
    """Changes one byte of the second block in the arena."""
    blocks = engine.pool.hits(engine.request(text).hashes)
    engine.pool.free(blocks)
    page = engine.kv.layers[layer][blocks[1]].cpu().view(torch.uint8).numpy().tobytes()
    with open(arena, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        at = memory.find(page)
        assert at >= 0
        memory[at + 100] ^= 1


def test_without_larderd_all_is_computed_at_once(device, tmp_path, prompt):
    engine = Engine(TINY_LLAMA, device)
    link = engine.attach(str(tmp_path / "none.sock"), CHUNK)
    answer = engine.generate(prompt(60, 70))
    assert (answer.loaded_tokens, answer.stored_chunks) == (0, 0)
    assert not link.wait_attached(1)
    engine.close()
