"""Drafters with random weights for the tiny models of shapes.py: heads of EAGLE and EAGLE-3 for
Llama, an MTP module for GLM-4.5, and a draft model with weights close to those of its target.

Attention of random weights reads all tokens alike, and no draft shows wrong KV of one position
among 512. These drafters attend to the tokens one to three positions back: queries and keys have a
constant part, which rotates with the position and peaks two positions back."""

import json
import shutil
from pathlib import Path

HIDDEN, INNER, HEADS, KV_HEADS, HEAD, VOCABULARY = 256, 512, 8, 4, 32, 1024
BACK, PEAK = 2, 2.4
_CONFIG = dict(
    architectures=["LlamaForCausalLM"],
    model_type="llama",
    torch_dtype="bfloat16",
    vocab_size=VOCABULARY,
    hidden_size=HIDDEN,
    intermediate_size=INNER,
    num_hidden_layers=1,
    num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS,
    head_dim=HEAD,
    attention_bias=True,
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
    read, kv = 2 * HIDDEN if third else HIDDEN, KV_HEADS * HEAD
    shapes = {
        "self_attn.q_proj": (HIDDEN, read),
        "self_attn.k_proj": (kv, read),
        "self_attn.v_proj": (kv, read),
        "self_attn.o_proj": (HIDDEN, HIDDEN),
    }
    shapes |= {
        "mlp.gate_proj": (INNER, HIDDEN),
        "mlp.up_proj": (INNER, HIDDEN),
        "mlp.down_proj": (HIDDEN, INNER),
    }
    tensors = {f"{layer}{name}.weight": _random(*shape) for name, shape in shapes.items()}
    tensors |= {
        f"{layer}self_attn.{name}.bias": _zeros(rows)
        for name, rows in (("v_proj", kv), ("o_proj", HIDDEN))
    }
    attend_back(tensors, f"{layer}self_attn.")
    norms = [f"{layer}post_attention_layernorm.weight"]
    if third:
        # vLLM's default list names a layer twice for a target of four layers.
        config |= dict(
            architectures=["LlamaForCausalLMEagle3"],
            draft_vocab_size=VOCABULARY,
            eagle_aux_hidden_state_layer_ids=[1, 2, 3],
        )
        norms += ["midlayer.hidden_norm.weight", "midlayer.input_layernorm.weight", "norm.weight"]
        tensors["lm_head.weight"] = _random(VOCABULARY, HIDDEN)
    tensors["fc.weight"] = _random(HIDDEN, (3 if third else 2) * HIDDEN)
    save_file(tensors | _ones(norms), str(path / "model.safetensors"))
    (path / "config.json").write_text(json.dumps(config))
    return path


def make_mtp(folder, model, seed=7):
    """Path of a copy of a GLM-4.5 in which the last layer is an MTP module."""
    import torch
    from safetensors.torch import load_file, save_file

    path = Path(folder) / "mtp"
    shutil.copytree(model, path)
    torch.manual_seed(seed)
    config = json.loads((path / "config.json").read_text())
    last = config["num_hidden_layers"] - 1
    config |= {"num_hidden_layers": last, "num_nextn_predict_layers": 1}
    tensors, layer = load_file(path / "model.safetensors"), f"model.layers.{last}."
    attend_back(tensors, f"{layer}self_attn.")
    tensors[f"{layer}eh_proj.weight"] = _random(HIDDEN, 2 * HIDDEN)
    save_file(
        tensors | _ones(f"{layer}{name}.weight" for name in ("enorm", "hnorm", "shared_head.norm")),
        path / "model.safetensors",
    )
    (path / "config.json").write_text(json.dumps(config))
    return path


def make_like(folder, model, noise=0.002, seed=7):
    """Path of a model with weights close to those of `model`: the target accepts a part of its
    drafts."""
    import torch
    from safetensors.torch import load_file, save_file

    path = Path(folder) / "like"
    shutil.copytree(model, path)
    torch.manual_seed(seed)
    tensors = load_file(path / "model.safetensors")
    noisy = {
        name: one + (torch.randn(one.shape) * noise).to(one.dtype) for name, one in tensors.items()
    }
    save_file(noisy, path / "model.safetensors")
    return path


def attend_back(tensors, attention):
    """Queries and keys of the layer get their constant part,
    and the attention's output counts more than the rest."""
    import torch

    half = HEAD // 2
    angles = torch.tensor([BACK * 10000 ** (-i / half) for i in range(half)])
    sizes = torch.tensor(
        [PEAK * (i < half // 2) for i in range(half)]
    )  # the slow half tells near positions apart too little
    key = torch.cat([sizes * angles.cos(), sizes * angles.sin()])
    query = torch.cat([sizes, torch.zeros(half)])
    for name, heads, constant in (("q_proj", HEADS, query), ("k_proj", KV_HEADS, key)):
        tensors[f"{attention}{name}.weight"] *= 0.2
        tensors[f"{attention}{name}.bias"] = constant.repeat(heads).to(torch.bfloat16)
    tensors[f"{attention}o_proj.weight"] *= 4


def _random(*shape):
    import torch

    return (torch.randn(*shape) * 0.08).to(torch.bfloat16)


def _zeros(rows):
    import torch

    return torch.zeros(rows, dtype=torch.bfloat16)


def _ones(names):
    import torch

    return {name: torch.ones(HIDDEN, dtype=torch.bfloat16) for name in names}
