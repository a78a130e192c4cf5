"""The namespace fingerprint of one vLLM engine, from what its scheduler and all its workers have."""

import os

from larder import fingerprint
from larder.vllm.groups import Unsupported, parallel_sizes
from larder.vllm.model_source import weights_source
from larder.weights import UnknownWeights, weights_identity

_WEAK_HASHES = ("xxhash", "xxhash_cbor")
_SHOWN = (
    "block_size",
    "num_kv_heads",
    "head_size",
    "head_size_v",
    "dtype",
    "kv_quant_mode",
    "cache_dtype_str",
    "sliding_window",
    "page_size_bytes",
)


def fingerprint_of(vllm_config, kv_cache_config, options, groups, shards, chunk_tokens, hash_block):
    from vllm.version import __version__

    model, cache = vllm_config.model_config, vllm_config.cache_config
    kernels = [_kernel(vllm_config, group.spec) for group in groups]
    config, language = model.hf_config.to_dict(), model.hf_text_config.to_dict()
    fields = fingerprint.config_fields(config, language, model.hf_overrides, model.max_model_len)
    fields.update(
        engine="vllm",
        engine_version=__version__,
        layout=fingerprint.LAYOUT,
        weights=_weights(vllm_config, options),
        dtype=str(model.dtype),
        kv_cache_dtype=str(cache.cache_dtype),
        quantization={
            "method": model.quantization,
            "config": config.get("quantization_config"),
            "online": getattr(model, "quantization_config", None),
        },
        kv_scales={
            "calculated": getattr(cache, "calculate_kv_scales", False),
            "skip_layers": getattr(cache, "kv_cache_dtype_skip_layers", []),
        },
        attention_backend=" ".join(dict.fromkeys(name for name, _ in kernels)),
        attention_kernel=" ".join(dict.fromkeys(kernel for _, kernel in kernels)),
        kv_cache_layout=str(getattr(kv_cache_config, "kv_cache_layout", None)),
        parallel={**parallel_sizes(vllm_config.parallel_config), "kv_replicas": shards.replicas},
        block_size=_one(group.block_size for group in groups),
        hash_block_size=hash_block,
        chunk_tokens=chunk_tokens,
        hash_algorithm=cache.prefix_caching_hash_algo,
        none_hash=_none_hash(cache, options),
        layers=_layer_lines(model, groups, shards),
    )
    return fingerprint.text(fields)


def _one(values):
    """The value where all are equal, else all of them."""
    found = list(values)
    return found[0] if len(set(found)) == 1 else found


def _weights(vllm_config, options):
    try:
        return weights_identity(weights_source(vllm_config), options.get("weights_id"))
    except UnknownWeights as error:
        raise Unsupported(str(error)) from None


def _layer_lines(model, groups, shards):
    """Each layer by name. With a pipeline nobody has all names: the groups' pages, and how the layers are dealt out."""
    if shards.stages == 1:
        return [f"{group.table} {name} {_spec_line(group)}" for group in groups for name in group.layers]
    from vllm.distributed.utils import get_pp_indices

    hidden = model.hf_text_config.num_hidden_layers
    stages = [get_pp_indices(hidden, stage, shards.stages) for stage in range(shards.stages)]
    return [f"{group.table} {_spec_line(group)}" for group in groups] + [
        f"stage {stage} layers {begin} to {end}" for stage, (begin, end) in enumerate(stages)
    ]


def _spec_line(group):
    shown = {key: getattr(group.spec, key, None) for key in _SHOWN}
    values = " ".join(f"{key}={value}" for key, value in shown.items() if value is not None)
    return f"{type(group.spec).__name__} {values} kept={group.blocks}"


def _none_hash(cache_config, options):
    """What vLLM's hash chain starts from, as hex. Computed, since workers never initialise it."""
    from vllm.utils import hashing
    from vllm.v1.core import kv_cache_utils

    name = cache_config.prefix_caching_hash_algo
    if name in _WEAK_HASHES and not options.get("allow_weak_hash"):
        raise Unsupported(f"prefix caching hashes by {name}, which is not cryptographic; set allow_weak_hash to accept that")
    seed = os.environ.get("PYTHONHASHSEED")
    if seed is None and name in _WEAK_HASHES:
        raise Unsupported(f"with {name} every start of vLLM hashes differently; set PYTHONHASHSEED")
    if not hasattr(kv_cache_utils, "resolve_none_hash_seed") and seed is None:
        seed = _choose_seed(kv_cache_utils)
    hash_function = hashing.get_hash_fn_by_name(name)
    if seed is None:
        seed = kv_cache_utils.resolve_none_hash_seed(hash_function)
    return bytes(hash_function(seed)).hex()


def _choose_seed(kv_cache_utils):
    """Of a vLLM that would start its hash chain at random, which it does after its connectors are made. A whole number: Python reads
    the variable too, in every process that is started from now on."""
    if hasattr(kv_cache_utils, "NONE_HASH"):
        raise Unsupported("this vLLM has started its hash chain at random; set PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    return "0"


def _kernel(vllm_config, spec):
    """(backend, kernel): CPU kernels lay out a page differently, and vLLM picks one by the machine. On a GPU the backend says it all."""
    from vllm.platforms import current_platform

    model, cache = vllm_config.model_config, vllm_config.cache_config
    mla = type(spec).__name__ == "MLAAttentionSpec"
    if mla or not current_platform.is_cpu():
        return _backend(vllm_config, spec, mla), "rows" if mla else "device"
    from vllm.v1.attention.backends import cpu_attn

    choose = getattr(cpu_attn, "_get_attn_isa", None)
    if choose is None:
        raise Unsupported("this vLLM does not tell its CPU attention kernel (cpu_attn._get_attn_isa is missing)")
    isa = choose(model.dtype, spec.block_size, spec.head_size, cache.cache_dtype)
    return cpu_attn.CPUAttentionBackend.get_name(), isa


def _backend(vllm_config, spec, mla):
    from vllm.config import set_current_vllm_config
    from vllm.v1.attention.selector import get_attn_backend

    with set_current_vllm_config(vllm_config):
        backend = get_attn_backend(spec.head_size, vllm_config.model_config.dtype, vllm_config.cache_config.cache_dtype, use_mla=mla)
    return backend.get_name()
