"""The KV pages of all layers, and block tables over them.

Each layer has a tensor (blocks, 2, block_size, kv_heads, head_dim). A block is one run of bytes,
keys first and then values, in the layout of vLLM's attention backends for GPUs. Block 0 stays
unused, as in vLLM."""

import torch


class KvTensors:
    def __init__(self, shape, blocks, block_size, device, dtype):
        self.block_size, self.blocks = block_size, blocks
        size = (blocks, 2, block_size, shape.kv_heads, shape.head_dim)
        self.layers = [torch.zeros(size, device=device, dtype=dtype) for _ in range(shape.layers)]

    @property
    def page_bytes(self):
        return self.layers[0][0].numel() * self.layers[0].element_size()

    def write(self, layer, table, positions, keys, values):
        """keys, values: (tokens, kv_heads, head_dim) for these positions. table: a tensor of block
        ids."""
        blocks, offsets = table[positions // self.block_size], positions % self.block_size
        self.layers[layer][blocks, 0, offsets] = keys
        self.layers[layer][blocks, 1, offsets] = values

    def read(self, layer, table, length):
        """Keys and values of the first `length` tokens, each (length, kv_heads, head_dim)."""
        pages = self.layers[layer].index_select(0, table[: -(-length // self.block_size)])
        keys, values = pages.unbind(1)
        return keys.flatten(0, 1)[:length], values.flatten(0, 1)[:length]

    def scribble(self):
        """Fills all KV with NaN, which no computation gives: a read of unwritten KV shows."""
        for layer in self.layers:
            layer.fill_(float("nan"))
