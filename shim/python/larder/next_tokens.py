"""Keys of chunks whose KV depends on the tokens behind the chunk.

The drafters of EAGLE, EAGLE-3 and MTP compute the KV of a position from the token at this position
and the next ones. A block hash covers the tokens up to the block's end only. The key of a chunk
therefore covers its block hash and the next tokens, `lookahead` of them. Pure functions of the
standard library."""

import hashlib

_NAME = b"larder next tokens\0"


def key_behind(block_hash, tokens):
    """The key of the chunk that ends with the block of `block_hash`, in front of `tokens`. As long
    as the block hash, 32 bytes at most. OverflowError: one of `tokens` is negative or has more than
    32 bits."""
    behind = b"".join([token.to_bytes(4, "little") for token in tokens])
    return hashlib.sha256(_NAME + block_hash + behind).digest()[: len(block_hash)]


def chunks_known(num_tokens, chunk_tokens, lookahead):
    """The number of whole chunks in front of `lookahead` tokens, of a text of `num_tokens`."""
    return max(num_tokens - lookahead, 0) // chunk_tokens
