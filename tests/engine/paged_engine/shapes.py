"""Shapes of Llama and Qwen models: real ones for benchmarks, tiny ones for tests. Numbers only."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    rope_theta: float = 1e6
    norm_eps: float = 1e-6
    qkv_bias: bool = False  # Qwen2
    qk_norm: bool = False  # Qwen3

    @property
    def matrix_parameters(self):
        """Parameters of the matrices that every token is multiplied with, without embedding and
        head."""
        attention = (2 * self.heads + 2 * self.kv_heads) * self.head_dim * self.hidden
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    def kv_bytes(self, tokens, itemsize):
        return 2 * self.layers * self.kv_heads * self.head_dim * itemsize * tokens

    def prefill_flops(self, tokens):
        """FLOPs for a prompt without cached tokens: matrices, the causal half of attention, and the
        head for the last token only."""
        attention = 2 * self.layers * self.heads * self.head_dim * tokens * tokens
        return 2 * self.matrix_parameters * tokens + attention + 2 * self.hidden * self.vocab


# Llama 3.1 8B
LLAMA_8B = Shape("llama_8b", 32, 4096, 32, 8, 128, 14336, 128256, rope_theta=5e5, norm_eps=1e-5)
QWEN_32B = Shape("qwen_32b", 64, 5120, 64, 8, 128, 25600, 151936, qk_norm=True)  # Qwen3 32B

TINY_LLAMA = Shape("tiny_llama", 3, 64, 4, 2, 16, 128, 512, rope_theta=1e4, norm_eps=1e-5)
TINY_QWEN2 = Shape("tiny_qwen2", 2, 48, 6, 2, 8, 96, 512, qkv_bias=True)
TINY_QWEN3 = Shape("tiny_qwen3", 3, 64, 4, 1, 32, 128, 512, qk_norm=True)
# Little computation and much KV (8 KiB a token in bfloat16): a load takes long enough for a test to
# kill its engine meanwhile.
WIDE_KV = Shape("wide_kv", 2, 32, 8, 8, 128, 32, 256)

SHAPES = {
    shape.name: shape for shape in (LLAMA_8B, QWEN_32B, TINY_LLAMA, TINY_QWEN2, TINY_QWEN3, WIDE_KV)
}
