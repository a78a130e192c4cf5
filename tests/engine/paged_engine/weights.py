"""Random weights of a shape, the same for the same seed, device kind and dtype.

Scaled so that activations keep their size through any number of layers: with weights of one small scale all answers look alike, and a
comparison of logits shows nothing."""

from dataclasses import dataclass

import torch


@dataclass
class Layer:
    """As vLLM merges them: q, k and v are one matrix, gate and up another."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    output: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass
class Weights:
    embedding: torch.Tensor
    layers: list[Layer]
    norm: torch.Tensor
    head: torch.Tensor


def random_weights(shape, seed, device, dtype):
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*size, scale=1.0, around=0.0):
        return torch.empty(size, device=device, dtype=dtype).normal_(around, scale, generator=generator)

    def matrix(rows, columns):
        return normal(rows, columns, scale=columns**-0.5)

    def norm(width):
        return normal(width, scale=0.1, around=1.0)

    def layer():
        qkv_rows = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        return Layer(
            input_norm=norm(shape.hidden),
            qkv=matrix(qkv_rows, shape.hidden),
            qkv_bias=normal(qkv_rows, scale=0.5) if shape.qkv_bias else None,
            q_norm=norm(shape.head_dim) if shape.qk_norm else None,
            k_norm=norm(shape.head_dim) if shape.qk_norm else None,
            output=matrix(shape.hidden, shape.heads * shape.head_dim),
            mlp_norm=norm(shape.hidden),
            gate_up=matrix(2 * shape.intermediate, shape.hidden),
            down=matrix(shape.hidden, shape.intermediate),
        )

    layers = [layer() for _ in range(shape.layers)]
    return Weights(normal(shape.vocab, shape.hidden), layers, norm(shape.hidden), matrix(shape.vocab, shape.hidden))
