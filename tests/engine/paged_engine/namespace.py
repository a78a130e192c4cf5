"""The fingerprint of this engine: every fact besides the tokens that decides the bytes of KV."""

import torch

from larder import fingerprint


def fingerprint_of(shape, seed, device, dtype, block_size, chunk_tokens):
    """torch's version and the device stand for the kernels, which are torch's."""
    kind = torch.device(device).type
    hardware = torch.cuda.get_device_name(device) if kind == "cuda" else "cpu"
    return fingerprint.facts_text(
        {
            "engine": "paged_engine",
            "engine_version": torch.__version__,
            "layout": fingerprint.LAYOUT,
            "shape": vars(shape),
            "weights": f"random weights of seed {seed} made on {kind}",
            "dtype": str(dtype),
            "attention_backend": "torch scaled_dot_product_attention",
            "attention_kernel": hardware,
            "kv_cache_layout": "block, k and v, token, head, dim",
            "block_size": block_size,
            "chunk_tokens": chunk_tokens,
            "hash_algorithm": "sha256",
            "none_hash": "vllm-none-hash",
        }
    )
