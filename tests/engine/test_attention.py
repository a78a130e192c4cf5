"""Compares attention over pages with attention by hand over plain tensors."""

import pytest

torch = pytest.importorskip("torch")

from paged_engine.attention import attend  # noqa: E402
from paged_engine.kv_tensors import KvTensors  # noqa: E402
from paged_engine.shapes import TINY_LLAMA, TINY_QWEN3  # noqa: E402

from larder.kv_pages import pages_of  # noqa: E402


def by_hand(queries, keys, values):
    tokens, heads, dim = queries.shape
    length, kv_heads, _ = keys.shape
    out = torch.empty_like(queries)
    for head in range(heads):
        k, v = (x[:, head * kv_heads // heads].double() for x in (keys, values))
        scores = queries[:, head].double() @ k.T * dim**-0.5
        for i in range(tokens):
            seen = length - tokens + i + 1
            out[i, head] = (scores[i, :seen].softmax(0) @ v[:seen]).to(out.dtype)
    return out


def some(device, *size):
    return torch.randn(*size, generator=torch.Generator().manual_seed(sum(size))).to(device)


@pytest.mark.parametrize("tokens, length", [(1, 1), (1, 37), (37, 37), (2, 37), (21, 37)])
@pytest.mark.parametrize("heads, kv_heads", [(4, 4), (4, 2), (4, 1)])
def test_the_last_tokens_attend_to_all_earlier_tokens_only(device, tokens, length, heads, kv_heads):
    queries, keys, values = (
        some(device, tokens, heads, 16),
        some(device, length, kv_heads, 16),
        some(device, length, kv_heads, 16),
    )
    torch.testing.assert_close(
        attend(queries, keys, values), by_hand(queries, keys, values), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("shape", [TINY_LLAMA, TINY_QWEN3], ids=lambda shape: shape.name)
def test_tokens_written_through_a_block_table_are_read_in_order(device, shape):
    kv = KvTensors(shape, blocks=12, block_size=16, device=device, dtype=torch.float32)
    kv.scribble()
    table = torch.tensor([7, 2, 11, 4], device=device)
    keys, values = (
        some(device, 50, shape.kv_heads, shape.head_dim),
        some(device, 51, shape.kv_heads, shape.head_dim)[:50],
    )
    for first, last in ((0, 20), (20, 21), (21, 50)):
        positions = torch.arange(first, last, device=device)
        kv.write(1, table, positions, keys[first:last], values[first:last])
    for length in (1, 16, 33, 50):
        read = kv.read(1, table, length)
        assert torch.equal(read[0], keys[:length]) and torch.equal(read[1], values[:length])
    assert kv.layers[0].isnan().all(), "another layer's"


def test_a_block_is_one_run_of_bytes(device):
    kv = KvTensors(TINY_LLAMA, blocks=5, block_size=16, device=device, dtype=torch.bfloat16)
    address, stride, page_bytes, count = pages_of("layer.0", kv.layers[0], kv.page_bytes)
    assert (stride, page_bytes, count) == (2 * 16 * 2 * 16 * 2, kv.page_bytes, 5)
    assert address == kv.layers[0].data_ptr()
