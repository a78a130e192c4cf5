"""A drafter with random weights for the tiny Llama of shapes.py: a head of EAGLE.

Random heads draft nearly the same whatever one position's KV is. This seed is known to draft
otherwise with wrong draft KV."""

import json
from pathlib import Path

HIDDEN, INNER, KV = 256, 512, 128
_CONFIG = dict(
    architectures=["LlamaForCausalLM"],
    model_type="llama",
    torch_dtype="bfloat16",
    vocab_size=1024,
    hidden_size=HIDDEN,
    intermediate_size=INNER,
    num_hidden_layers=1,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=32,
    max_position_embeddings=8192,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
    tie_word_embeddings=False,
    initializer_range=0.08,
    rms_norm_eps=1e-6,
    hidden_act="silu",
)


def make_head(folder, seed=7):
    """Path of an EAGLE head."""
    import torch
    from safetensors.torch import save_file

    path = Path(folder) / f"eagle-{seed}"
    if path.exists():
        return path
    path.mkdir(parents=True)
    torch.manual_seed(seed)
    shapes = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (KV, HIDDEN), "self_attn.v_proj": (KV, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN)}
    shapes |= {"mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER)}
    tensors = {f"layers.0.{name}.weight": _random(*shape) for name, shape in shapes.items()}
    tensors["fc.weight"] = _random(HIDDEN, 2 * HIDDEN)
    tensors["layers.0.post_attention_layernorm.weight"] = torch.ones(HIDDEN, dtype=torch.bfloat16)
    save_file(tensors, str(path / "model.safetensors"))
    (path / "config.json").write_text(json.dumps(_CONFIG))
    return path


def _random(*shape):
    import torch

    return (torch.randn(*shape) * 0.08).to(torch.bfloat16)
