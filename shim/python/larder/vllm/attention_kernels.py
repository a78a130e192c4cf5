"""vLLM's attention kernels, which decide the order of tokens inside a KV page: the names of the
kernels, and the size of the kernels' blocks.

A layer knows its backend, and a tensor its blocks: a worker finds both. A scheduler may run in
another process, without layers, and asks vLLM for the backend of a layer like the group's. If that
answer is missing or wrong, the reports of the workers count (naming)."""

import inspect
from dataclasses import dataclass

from larder import fingerprint
from larder.vllm.groups import Unsupported
from larder.vllm.fail_safe import logger

_WITH_SINKS = ("gpt_oss",)  # kinds of model whose every layer has attention sinks


@dataclass(frozen=True)
class Attention:
    """Of each KV group, in Larder's order."""

    backends: tuple[str, ...]
    kernels: tuple[str, ...]
    # consecutive tokens inside a page: the group's block, or a part of the block
    blocks: tuple[int, ...]

    def text(self):
        """The lines of the fingerprint."""
        return fingerprint.facts_text(
            {
                "attention_backend": _one(self.backends),
                "attention_kernel": _one(self.kernels),
                "kernel_block_size": _one(self.blocks),
            }
        )


def attention_of(vllm_config, kv_cache_config, groups):
    """Attention as this process knows the layers, or None if unknown. Unsupported: pages of an
    unknown kernel."""
    kernels = _kernels(vllm_config, groups)
    try:
        backends = [_backends(vllm_config, group) for group in groups]
        blocks = tuple(
            _kernel_block(vllm_config, kv_cache_config, *one) for one in zip(groups, backends)
        )
    # vLLM's own selection, which may raise any exception; vLLM's layers pass more than is known
    # here
    except Exception as error:
        logger.debug(
            "Larder: the attention backend is not known before the workers tell it: %s", error
        )
        return None
    return Attention(_names(backends), kernels, blocks)


def attention_of_worker(vllm_config, groups, blocks):
    """Attention of the layers of this process. blocks: of the groups, as found in the tensors."""
    return Attention(
        _names(_backends(vllm_config, group) for group in groups),
        _kernels(vllm_config, groups),
        blocks,
    )


def _names(backends):
    return tuple(_one(sorted({one.get_name() for one in found})) for found in backends)


def _kernels(vllm_config, groups):
    return tuple(_kernel(vllm_config, group.spec) for group in groups)


def _kernel(vllm_config, spec):
    """CPU kernels lay out a page in different ways, and vLLM chooses the kernel by the machine. On
    a GPU the backend alone decides the layout."""
    if not _by_machine(spec):
        return "rows" if _is_mla(spec) else "device"
    from vllm.v1.attention.backends import cpu_attn

    choose = getattr(cpu_attn, "_get_attn_isa", None)
    if choose is None:
        raise Unsupported(
            "this vLLM does not tell its CPU attention kernel (cpu_attn._get_attn_isa is missing)"
        )
    model, cache = vllm_config.model_config, vllm_config.cache_config
    try:
        return choose(model.dtype, spec.block_size, spec.head_size, cache.cache_dtype)
    except NotImplementedError as error:  # vLLM ends for the same reason
        raise Unsupported(f"vLLM has no attention kernel for this processor: {error}") from error


def _kernel_block(vllm_config, kv_cache_config, group, backends):
    """Tokens of the kernel's blocks, as vLLM will choose. A worker's tensors have the same."""
    try:
        from vllm.v1.worker.utils import select_common_block_size
    except ImportError:  # an older vLLM, which divides no block
        return group.block_size
    tells = all(hasattr(one, "get_supported_kernel_block_sizes") for one in backends)
    if not tells or _blocks_are_packed(kv_cache_config, group):
        return group.block_size
    from vllm.config import set_current_vllm_config

    # FlashInfer and FlashAttention ask for these; a scheduler has no layers
    with set_current_vllm_config(vllm_config):
        return select_common_block_size(group.block_size, backends, [group.spec] * len(backends))


def _blocks_are_packed(kv_cache_config, group):
    """Pages of other layers lie between the blocks of a layer, so vLLM divides no block."""
    tensors = getattr(kv_cache_config, "kv_cache_tensors", None) or ()
    return any(
        getattr(tensor, "block_stride", 0) > getattr(tensor, "layer_stride", 0)
        for tensor in tensors
        if not group.layers or not set(getattr(tensor, "layers", ())).isdisjoint(group.layers)
    )


def _is_mla(spec):
    return type(spec).__name__ in ("MLAAttentionSpec", "SlidingWindowMLASpec")


def _by_machine(spec):
    from vllm.platforms import current_platform

    return current_platform.is_cpu() and not _is_mla(spec)


def _backends(vllm_config, group):
    """The backends of the group's layers, each once. A process without layers takes a layer like
    these."""
    known = (
        getattr(getattr(vllm_config, "compilation_config", None), "static_forward_context", None)
        or {}
    )
    layers = [known[name] for name in group.layers if hasattr(known.get(name), "get_attn_backend")]
    if layers:
        return list(dict.fromkeys(layer.get_attn_backend() for layer in layers))
    if _by_machine(group.spec):
        from vllm.v1.attention.backends import cpu_attn

        return [cpu_attn.CPUAttentionBackend]
    return [_backend_like(vllm_config, group.spec)]


def _backend_like(vllm_config, spec):
    """With the arguments that vLLM's layers pass (Attention, MLAAttention), as far as the
    configuration has the values."""
    from vllm.config import set_current_vllm_config
    from vllm.v1.attention.selector import get_attn_backend

    model, cache = vllm_config.model_config, vllm_config.cache_config
    text = getattr(model, "hf_text_config", None)
    if _is_mla(spec):
        passed = {
            "use_mla": True,
            "use_sparse": hasattr(text, "index_topk"),
            "num_heads": _heads(vllm_config),
        }
    else:
        passed = {
            "use_mla": False,
            "has_sink": getattr(text, "model_type", None) in _WITH_SINKS,
            "has_sliding_window": getattr(spec, "sliding_window", None) is not None,
            "use_mm_prefix": bool(getattr(model, "is_mm_prefix_lm", False)),
        }
    asked = inspect.signature(get_attn_backend).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in asked.values())
    passed = {name: value for name, value in passed.items() if takes_all or name in asked}
    with set_current_vllm_config(vllm_config):
        return get_attn_backend(spec.head_size, model.dtype, _cache_dtype(cache, spec), **passed)


def _heads(vllm_config):
    """Query heads of a rank."""
    count = getattr(vllm_config.model_config, "get_num_attention_heads", None)
    return count(vllm_config.parallel_config) if count is not None else None


def _cache_dtype(cache, spec):
    """Layers that --kv-cache-dtype-skip-layers names pass "auto", and their spec has the model's
    precision."""
    skipped = getattr(cache, "kv_cache_dtype_skip_layers", None) and not _is_mla(spec)
    quantized = getattr(getattr(spec, "kv_quant_mode", None), "value", 0)
    return "auto" if skipped and not quantized else cache.cache_dtype


def _one(values):
    """The value if all are equal, else all values with "+" between, so that groups stay apart."""
    found = list(values)
    return str(found[0]) if len(set(found)) == 1 else "+".join(map(str, found))
