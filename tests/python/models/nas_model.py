"""A tiny Nemotron-NAS, whose layers have 2 and 4 KV heads in turn: vLLM keeps the layers in one KV
group, with pages of two sizes. transformers has no code for the model, so the configuration comes
with the model (trust_remote_code)."""

import json

KV_HEADS = [2, 4, 2, 4]
_CODE = """\
from types import SimpleNamespace

from transformers import LlamaConfig


class DeciLMConfig(LlamaConfig):
    model_type = "nemotron-nas"

    def __init__(self, kv_heads=(), **fields):
        super().__init__(**fields)
        self.kv_heads = list(kv_heads)

    @property
    def block_configs(self):
        return [self._block(heads) for heads in self.kv_heads]

    def _block(self, heads):
        attention = SimpleNamespace(no_op=False, n_heads_in_group=self.num_attention_heads // heads)
        return SimpleNamespace(attention=attention, ffn=SimpleNamespace(no_op=False, intermediate_size=self.intermediate_size))
"""


def make(path, seed, common):
    """Writes the model with weights of this seed. common: fields of the configuration."""
    import torch
    from safetensors.torch import save_file

    path.mkdir(parents=True)
    (path / "configuration_nas.py").write_text(_CODE)
    own = dict(
        architectures=["DeciLMForCausalLM"],
        model_type="nemotron-nas",
        auto_map={"AutoConfig": "configuration_nas.DeciLMConfig"},
        kv_heads=KV_HEADS,
        num_key_value_heads=max(KV_HEADS),
        head_dim=32,
        dtype="bfloat16",
    )
    (path / "config.json").write_text(json.dumps({**common, **own}))
    generator = torch.Generator().manual_seed(seed)
    spread = common["initializer_range"]
    tensors = {
        name: torch.ones(*size)
        if name.endswith("norm.weight")
        else torch.randn(*size, generator=generator) * spread
        for name, size in _sizes(common, own["head_dim"])
    }
    save_file(
        {name: one.to(torch.bfloat16) for name, one in tensors.items()},
        path / "model.safetensors",
        metadata={"format": "pt"},
    )
    return path


def _sizes(common, head):
    hidden, wide, words = common["hidden_size"], common["intermediate_size"], common["vocab_size"]
    yield from (
        ("model.embed_tokens.weight", (words, hidden)),
        ("model.norm.weight", (hidden,)),
        ("lm_head.weight", (words, hidden)),
    )
    for layer, heads in enumerate(KV_HEADS):
        before = f"model.layers.{layer}."
        yield from (
            (f"{before}{name}_layernorm.weight", (hidden,)) for name in ("input", "post_attention")
        )
        yield from (
            (f"{before}self_attn.{name}_proj.weight", (heads * head, hidden)) for name in ("k", "v")
        )
        yield from (
            (f"{before}self_attn.{name}_proj.weight", (hidden, hidden)) for name in ("q", "o")
        )
        yield from ((f"{before}mlp.{name}_proj.weight", (wide, hidden)) for name in ("gate", "up"))
        yield f"{before}mlp.down_proj.weight", (hidden, wide)
