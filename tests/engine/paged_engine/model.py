"""The forward pass of Llama, Qwen2 and Qwen3 over paged KV."""

import torch
from torch.nn import functional

from .attention import attend


class Model:
    def __init__(self, shape, weights, kv):
        self.shape, self.weights, self.kv = shape, weights, kv
        self._device = weights.embedding.device
        exponents = (
            torch.arange(0, shape.head_dim, 2, device=self._device, dtype=torch.float32)
            / shape.head_dim
        )
        self._frequencies = shape.rope_theta**-exponents

    @torch.inference_mode()
    def forward(self, tokens, first, table, before_layer=lambda number: None):
        """The logits in float32 behind the last of `tokens`, which start at position `first`. The
        blocks of `table` hold the KV of all earlier tokens: a layer's KV is there when
        before_layer(number) returns. The pass writes the KV of `tokens` there."""
        length = first + len(tokens)
        positions = torch.arange(first, length, device=self._device)
        return self.step(
            torch.tensor(tokens, device=self._device),
            positions,
            torch.tensor(table, device=self._device),
            length,
            before_layer,
        )

    @torch.inference_mode()
    def step(self, tokens, positions, table, length, before_layer=lambda number: None):
        """As forward(), over tensors on the device. Copies no data from the host, so a CUDA graph
        can capture the step. `length`: the length of the sequence after the step."""
        weights, rotation = self.weights, self._rotation(positions)
        x = functional.embedding(tokens, weights.embedding)
        for number, layer in enumerate(weights.layers):
            before_layer(number)
            x = x + self._attention(
                number, layer, self._norm(x, layer.input_norm), table, positions, rotation, length
            )
            gate, up = functional.linear(self._norm(x, layer.mlp_norm), layer.gate_up).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, layer.down)
        return functional.linear(self._norm(x[-1:], weights.norm), weights.head)[0].float()

    def _attention(self, number, layer, x, table, positions, rotation, length):
        shape = self.shape
        heads = functional.linear(x, layer.qkv, layer.qkv_bias).unflatten(-1, (-1, shape.head_dim))
        q, k, v = heads.split((shape.heads, shape.kv_heads, shape.kv_heads), 1)
        if shape.qk_norm:
            q, k = self._norm(q, layer.q_norm), self._norm(k, layer.k_norm)
        q, k = _rotate(q, rotation), _rotate(k, rotation)
        self.kv.write(number, table, positions, k, v)
        keys, values = (k, v) if len(positions) == length else self.kv.read(number, table, length)
        return functional.linear(attend(q, keys, values).flatten(1), layer.output)

    def _norm(self, x, weight):
        return functional.rms_norm(x, (x.shape[-1],), weight, self.shape.norm_eps)

    def _rotation(self, positions):
        angles = torch.outer(positions.float(), self._frequencies)
        return angles.cos()[:, None], angles.sin()[:, None]


def _rotate(x, rotation):
    """The rotary embedding of Llama and Qwen: the halves of a head are the two sides of each
    pair."""
    cos, sin = rotation
    one, other = x.float().chunk(2, -1)
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1).to(x.dtype)
