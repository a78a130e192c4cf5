"""The fingerprint of this engine: all that decides the bytes of its KV besides the tokens."""

import torch

from larder import fingerprint


def fingerprint_of(shape, seed, device, dtype, block_size, chunk_tokens):
    """Everything of the shape is in `layers` and `config`; the kernels are torch's, so its version and the device stand for them."""
    kind = torch.device(device).type
    hardware = torch.cuda.get_device_name(device) if kind == "cuda" else "cpu"
    fields = {name: None for name in fingerprint.FIELDS}
    fields.update(
        engine="paged_engine",
        engine_version=torch.__version__,
        layout=fingerprint.LAYOUT,
        architectures=["paged_engine"],
        model_type=shape.name,
        rope={"rope_theta": shape.rope_theta},
        config=fingerprint.digest(vars(shape)),
        weights=f"random weights of seed {seed} made on {kind}",
        dtype=str(dtype),
        kv_cache_dtype=str(dtype),
        attention_backend="torch scaled_dot_product_attention",
        attention_kernel=hardware,
        kv_cache_layout="block, k and v, token, head, dim",
        parallel=1,
        block_size=block_size,
        hash_block_size=block_size,
        chunk_tokens=chunk_tokens,
        hash_algorithm="sha256",
        none_hash="vllm-none-hash",
        layers=[f"0 layer.{number} {shape.kv_heads} heads of {shape.head_dim}" for number in range(shape.layers)],
    )
    return fingerprint.text(fields)
