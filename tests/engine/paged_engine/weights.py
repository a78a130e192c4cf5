"""Random weights of a shape, equal for equal seed, device kind and dtype.

The scale keeps activations at one size through any number of layers. With weights of one small
scale all answers would look alike, and a comparison of logits would prove little."""

from dataclasses import dataclass

import torch


@dataclass
class Layer:
    """Merged as in vLLM: one matrix for q, k and v, another for gate and up."""

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
        return torch.empty(size, device=device, dtype=dtype).normal_(
            around, scale, generator=generator
        )

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
    return Weights(
        normal(shape.vocab, shape.hidden),
        layers,
        norm(shape.hidden),
        matrix(shape.vocab, shape.hidden),
    )
