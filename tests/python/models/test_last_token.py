"""A prompt loaded to its last token: the engine computes this token in a step of its own, as a
decode step. Kernels may round such a step otherwise than a step of the whole prompt: on GPUs
FlashAttention 3 does, with vLLM's batch-invariant kernels too. The comparison that holds on every
kernel, bit for bit, is with the decode step of an engine without the cache."""

from pathlib import Path

import pytest
from engines import prompt
from walk import Walk

TOKENS = 512
PROMPTS = 3


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["llama", "qwen2"])
def test_a_full_hit_gives_the_bits_of_a_decode_step(shape, world, models, tmp_path):
    walk = Walk(world, tmp_path, models(shape))
    texts = [prompt(f"grown {shape} {number}", TOKENS - 1) for number in range(PROMPTS)]
    steps = [{"grow": text, "admin": world.admin_socket} for text in texts]
    results, _ = walk.run(steps, script=Path(__file__).with_name("grown_run.py"))
    assert [one["hit"] for one in results] == [TOKENS] * PROMPTS
    assert [one["loaded"] for one in results] == [one["decoded"] for one in results]
    first_tokens = {str(one["decoded"][0]) for one in results}
    assert len(first_tokens) == PROMPTS, "the control: other KV gives other log probabilities"
    equal = sum(one["loaded"] == one["at_once"] for one in results)
    print(f"{shape}: {equal} of {PROMPTS} also have the bits of a prompt computed at once")
