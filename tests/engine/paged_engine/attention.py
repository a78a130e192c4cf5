"""Causal attention of the last tokens of a sequence to all of it, with grouped heads."""

from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention


def attend(queries, keys, values):
    """queries: (tokens, heads, dim) of the last tokens. keys, values: (length, kv_heads, dim) of
    all tokens. Returns (tokens, heads, dim)."""
    tokens, length = queries.shape[0], keys.shape[0]
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (queries, keys, values))
    mask = causal_lower_right(tokens, length) if 1 < tokens < length else None
    out = scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=tokens == length and tokens > 1, enable_gqa=True
    )
    return out.squeeze(0).transpose(0, 1)
