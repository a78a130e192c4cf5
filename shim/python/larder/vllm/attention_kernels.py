"""vLLM's attention kernels, which decide how tokens stand inside a KV page: their names, and the
blocks that they count in.

Pure, on vLLM's configuration: scheduler and workers derive the same. A worker compares the
blocks with its tensors (pages)."""

import inspect

from larder.vllm.groups import Unsupported


def kernel_of(vllm_config, spec):
    """(backend, kernel). CPU kernels lay out a page in different ways, and vLLM chooses the kernel
    by the machine. On a GPU the backend alone decides the layout."""
    name = _backend(vllm_config, spec).get_name()
    if not _by_machine(spec):
        return name, "rows" if _is_mla(spec) else "device"
    from vllm.v1.attention.backends import cpu_attn

    choose = getattr(cpu_attn, "_get_attn_isa", None)
    if choose is None:
        raise Unsupported(
            "this vLLM does not tell its CPU attention kernel (cpu_attn._get_attn_isa is missing)"
        )
    model, cache = vllm_config.model_config, vllm_config.cache_config
    try:
        return name, choose(model.dtype, spec.block_size, spec.head_size, cache.cache_dtype)
    except NotImplementedError as error:  # vLLM ends for the same reason
        raise Unsupported(f"vLLM has no attention kernel for this processor: {error}") from error


def kernel_block(vllm_config, kv_cache_config, group):
    """Tokens of the blocks that the kernel counts in: the group's block, or a part of it."""
    try:
        from vllm.v1.worker.utils import select_common_block_size
    except ImportError:  # an older vLLM, which divides no block
        return group.block_size
    backend = _backend(vllm_config, group.spec)
    tells = hasattr(backend, "get_supported_kernel_block_sizes")
    if not tells or _blocks_are_packed(kv_cache_config, group):
        return group.block_size
    from vllm.config import set_current_vllm_config

    try:
        with set_current_vllm_config(vllm_config):  # which FlashInfer and FlashAttention ask; a scheduler has none
            return select_common_block_size(group.block_size, [backend], [group.spec])
    except ValueError:  # the backend of the layers is another one
        return group.block_size


def _blocks_are_packed(kv_cache_config, group):
    """Pages of other layers lie between the blocks of a layer, so that vLLM divides none."""
    tensors = getattr(kv_cache_config, "kv_cache_tensors", None) or ()
    return any(
        getattr(tensor, "block_stride", 0) > getattr(tensor, "layer_stride", 0)
        for tensor in tensors
        if not set(getattr(tensor, "layers", ())).isdisjoint(group.layers)
    )


def _is_mla(spec):
    return type(spec).__name__ == "MLAAttentionSpec"


def _by_machine(spec):
    from vllm.platforms import current_platform

    return current_platform.is_cpu() and not _is_mla(spec)


def _backend(vllm_config, spec):
    if _by_machine(spec):
        from vllm.v1.attention.backends import cpu_attn

        return cpu_attn.CPUAttentionBackend
    from vllm.config import set_current_vllm_config
    from vllm.v1.attention.selector import get_attn_backend

    more = {}
    if "has_sliding_window" in inspect.signature(get_attn_backend).parameters:
        more["has_sliding_window"] = type(spec).__name__ == "SlidingWindowSpec"
    with set_current_vllm_config(vllm_config):
        dtype, cache_dtype = vllm_config.model_config.dtype, vllm_config.cache_config.cache_dtype
        return get_attn_backend(
            spec.head_size, dtype, cache_dtype, use_mla=_is_mla(spec), **more
        )
