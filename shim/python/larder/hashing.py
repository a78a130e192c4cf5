"""vLLM's block hashes of a prompt, without vLLM: the names of chunks for prefetch(), pin() and
evict().

The hash of a block covers the hash of the block before, the tokens, and everything else that
decides the content. The hashes equal those of vLLM 0.32 for text prompts, with a salt or a LoRA
adapter. Prompts with images or embeddings are not served here, because their hashes cover more than
tokens."""

import hashlib
import operator
import os
import pickle

from larder.next_tokens import key_behind

# The start of vLLM's chain without PYTHONHASHSEED. vLLM before 0.32 may start at random then.
DEFAULT_SEED = "vllm-none-hash"


def hash_tokens(
    tokens,
    block_size,
    *,
    chunk_tokens=None,
    algorithm="sha256",
    seed=None,
    cache_salt=None,
    lora=None,
    lookahead=0,
):
    """The hashes of the full blocks of `tokens`, as a list of bytes; with chunk_tokens, of each
    chunk's last block only.

    tokens: token ids. algorithm: vLLM's --prefix-caching-hash-algo, "sha256" (the default) or
    "sha256_cbor"; xxhash is not served. seed: default $PYTHONHASHSEED, which must equal the
    engine's, else vLLM's own. cache_salt: as in the request. lora: (name, path) of the request's
    adapter. lookahead: of an engine with EAGLE, EAGLE-3 or MTP, 1 (vLLM's
    num_prefill_lookahead_tokens). The names of chunks cover the next tokens, and a chunk without
    next tokens has no name. ValueError: an argument is not served. TypeError: a value is no token
    id; hashes of a text's characters would match no chunk."""
    if algorithm not in _DIGESTS:
        raise ValueError(f"hash algorithm {algorithm!r} is not served: {', '.join(_DIGESTS)}")
    step = block_size if chunk_tokens is None else chunk_tokens
    if block_size < 1 or step < block_size or step % block_size:
        raise ValueError("block_size must be at least 1, and chunk_tokens a multiple of block_size")
    if isinstance(tokens, (str, bytes)):
        raise TypeError(
            "hash_tokens() takes the token ids of a prompt, as the model's tokenizer gives them, "
            "not its text"
        )
    if lookahead < 0:
        raise ValueError("lookahead must be at least 0")
    digest = _DIGESTS[algorithm]
    parent = digest(seed if seed is not None else os.environ.get("PYTHONHASHSEED", DEFAULT_SEED))
    always = [("lora", *lora)] if lora else []
    hashes = []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        extra = always + [("cache_salt", cache_salt)] if cache_salt and start == 0 else always
        block = tuple(operator.index(token) for token in tokens[start : start + block_size])
        parent = digest((parent, block, tuple(extra) or None))
        hashes.append(parent)
    chunks = hashes[step // block_size - 1 :: step // block_size]
    if not lookahead:
        return chunks
    ends = range(step, len(tokens) - lookahead + 1, step)
    return [
        key_behind(chunk, map(operator.index, tokens[end : end + lookahead]))
        for chunk, end in zip(chunks, ends)
    ]


def _sha256(value):
    return hashlib.sha256(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).digest()


def _sha256_cbor(value):
    return hashlib.sha256(_cbor(value)).digest()


_DIGESTS = {"sha256": _sha256, "sha256_cbor": _sha256_cbor}


def _cbor(value):
    """Canonical CBOR (RFC 8949, 4.2.1) of the input of a block's hash."""
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return _cbor_head(0, value) if value >= 0 else _cbor_head(1, -1 - value)
    if isinstance(value, bytes):
        return _cbor_head(2, len(value)) + value
    if isinstance(value, str):
        encoded = value.encode()
        return _cbor_head(3, len(encoded)) + encoded
    return _cbor_head(4, len(value)) + b"".join(map(_cbor, value))


def _cbor_head(kind, number):
    if number < 24:
        return bytes([kind << 5 | number])
    size = next(size for size in (1, 2, 4, 8) if number < 1 << 8 * size)
    return bytes([kind << 5 | 23 + size.bit_length()]) + number.to_bytes(size, "big")
