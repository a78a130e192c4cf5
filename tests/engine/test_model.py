"""Compares the forward pass with transformers at equal weights, and with itself in other steps."""

import pytest

torch = pytest.importorskip("torch")

from paged_engine.engine import Engine  # noqa: E402
from paged_engine.shapes import LLAMA_8B, QWEN_32B, TINY_LLAMA, TINY_QWEN2, TINY_QWEN3  # noqa: E402

KINDS = {"tiny_llama": "llama", "tiny_qwen2": "qwen2", "tiny_qwen3": "qwen3"}
TINY = pytest.mark.parametrize(
    "shape", [TINY_LLAMA, TINY_QWEN2, TINY_QWEN3], ids=lambda shape: shape.name
)


def reference(engine):
    """transformers' model of the engine's shape and weights."""
    transformers = pytest.importorskip("transformers")
    shape, weights = engine.shape, engine.model.weights
    config = transformers.AutoConfig.for_model(
        KINDS[shape.name],
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        rms_norm_eps=shape.norm_eps,
        tie_word_embeddings=False,
    )
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    state = {
        "model.embed_tokens.weight": weights.embedding,
        "model.norm.weight": weights.norm,
        "lm_head.weight": weights.head,
    }
    for number, layer in enumerate(weights.layers):
        state.update(
            {f"model.layers.{number}.{name}": tensor for name, tensor in _named(shape, layer)}
        )
    model.load_state_dict(state)
    return model


def _named(shape, layer):
    rows = [heads * shape.head_dim for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]
    parts = "qkv"
    yield from (
        (f"self_attn.{part}_proj.weight", one) for part, one in zip(parts, layer.qkv.split(rows))
    )
    if layer.qkv_bias is not None:
        yield from (
            (f"self_attn.{part}_proj.bias", one)
            for part, one in zip(parts, layer.qkv_bias.split(rows))
        )
    if layer.q_norm is not None:
        yield from (
            ("self_attn.q_norm.weight", layer.q_norm),
            ("self_attn.k_norm.weight", layer.k_norm),
        )
    yield from (
        ("self_attn.o_proj.weight", layer.output),
        ("input_layernorm.weight", layer.input_norm),
    )
    gate, up = layer.gate_up.chunk(2)
    yield from (
        ("mlp.gate_proj.weight", gate),
        ("mlp.up_proj.weight", up),
        ("mlp.down_proj.weight", layer.down),
    )
    yield ("post_attention_layernorm.weight", layer.mlp_norm)


@TINY
def test_prefill_and_decode_are_those_of_transformers(device, shape, prompt):
    if device != "cpu":
        pytest.skip("compared on the CPU: a GPU's matrices in float32 round otherwise")
    engine = Engine(shape, dtype=torch.float32)
    model = reference(engine)
    answer = engine.generate(prompt(1, 53), new_tokens=4)
    with torch.inference_mode():
        expected = model(torch.tensor([prompt(1, 53) + answer.tokens])).logits[0, 52:-1]
    torch.testing.assert_close(torch.stack(answer.logits), expected, rtol=1e-4, atol=1e-4)


@TINY
@pytest.mark.parametrize("step_tokens", [1, 16, 37])
def test_a_prompt_in_steps_gives_what_it_gives_at_once(device, shape, step_tokens, prompt):
    at_once = Engine(shape, device, torch.float32).generate(prompt(2, 75), 2)
    in_steps = Engine(shape, device, torch.float32, step_tokens=step_tokens).generate(
        prompt(2, 75), 2
    )
    torch.testing.assert_close(in_steps.logits, at_once.logits, rtol=1e-3, atol=1e-3)


def test_an_answer_needs_the_kv_before_it(device, prompt):
    """The control for every comparison of logits: other KV gives other logits."""
    engine = Engine(TINY_LLAMA, device)
    engine.generate(prompt(3, 64))
    again = engine.generate(prompt(3, 64))
    assert again.local_tokens == 64
    engine.kv.layers[1].zero_()
    assert not torch.equal(engine.generate(prompt(3, 64)).logits[0], again.logits[0])


def test_the_real_shapes_have_the_sizes_of_their_names():
    assert LLAMA_8B.matrix_parameters + 2 * LLAMA_8B.hidden * LLAMA_8B.vocab == pytest.approx(
        8.03e9, rel=0.001
    )
    assert QWEN_32B.matrix_parameters + 2 * QWEN_32B.hidden * QWEN_32B.vocab == pytest.approx(
        32.76e9, rel=0.001
    )
    assert LLAMA_8B.kv_bytes(1, 2) == 128 << 10 and QWEN_32B.kv_bytes(1, 2) == 256 << 10
