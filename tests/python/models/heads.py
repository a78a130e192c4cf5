"""Drafters with random weights for the tiny models of shapes.py: heads of EAGLE and EAGLE-3 for Llama, an MTP module for Qwen3-Next.

Random heads draft nearly the same whatever one position's KV is. These seeds are known to draft otherwise with wrong draft KV."""

import json
from pathlib import Path

HIDDEN, INNER, KV, VOCABULARY = 256, 512, 128, 1024
_CONFIG = dict(
    architectures=["LlamaForCausalLM"],
    model_type="llama",
    torch_dtype="bfloat16",
    vocab_size=VOCABULARY,
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


def make_head(folder, kind, seed=7):
    """Path of a head of the kind "eagle" or "eagle3"."""
    import torch
    from safetensors.torch import save_file

    path = Path(folder) / f"{kind}-{seed}"
    if path.exists():
        return path
    path.mkdir(parents=True)
    torch.manual_seed(seed)
    third = kind == "eagle3"
    layer, config = "midlayer." if third else "layers.0.", dict(_CONFIG)
    read = 2 * HIDDEN if third else HIDDEN
    shapes = {"self_attn.q_proj": (HIDDEN, read), "self_attn.k_proj": (KV, read), "self_attn.v_proj": (KV, read), "self_attn.o_proj": (HIDDEN, HIDDEN)}
    shapes |= {"mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER)}
    tensors = {f"{layer}{name}.weight": _random(*shape) for name, shape in shapes.items()}
    if third:  # attention to all tokens alike, by their embeddings, and as strong as the rest: else none of 32 steps shows the KV of one position
        for name, factor in (("q_proj", 0.3), ("k_proj", 0.3), ("o_proj", 40)):
            tensors[f"{layer}self_attn.{name}.weight"] *= factor
        tensors[f"{layer}self_attn.v_proj.weight"][:, HIDDEN:] = 0
    norms = [f"{layer}post_attention_layernorm.weight"]
    if third:
        # The default list has a layer twice for a target of four layers.
        config |= dict(architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=VOCABULARY, eagle_aux_hidden_state_layer_ids=[1, 2, 3])
        tensors["fc.weight"] = _random(HIDDEN, 3 * HIDDEN)
        norms += ["midlayer.hidden_norm.weight", "midlayer.input_layernorm.weight", "norm.weight"]
        tensors["lm_head.weight"] = _random(VOCABULARY, HIDDEN)
    else:
        tensors["fc.weight"] = _random(HIDDEN, 2 * HIDDEN)
    tensors |= {name: torch.ones(HIDDEN, dtype=torch.bfloat16) for name in norms}
    save_file(tensors, str(path / "model.safetensors"))
    (path / "config.json").write_text(json.dumps(config))
    return path


def _random(*shape):
    import torch

    return (torch.randn(*shape) * 0.08).to(torch.bfloat16)
