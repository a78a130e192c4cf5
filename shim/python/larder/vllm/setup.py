"""What one vLLM engine is to Larder: its chunk geometry, its options and its namespace, or why it runs without the cache.

Derived from vllm_config and kv_cache_config alone, which scheduler and workers both have, so that both reach the same namespace."""

import os
from dataclasses import dataclass

from larder import fingerprint
from larder.weights import UnknownWeights, weights_identity

DEFAULT_CHUNK_TOKENS = 256
_WEAK_HASHES = ("xxhash", "xxhash_cbor")
_OPTIONS = ("socket", "chunk_tokens", "min_tokens", "weights_id", "allow_weak_hash", "copy_threads")


class Unsupported(Exception):
    """The engine runs without the cache; the text says why, and what to set where something can be set."""


@dataclass(frozen=True)
class Setup:
    block_size: int
    chunk_tokens: int
    blocks_per_chunk: int
    hashes_per_chunk: int  # the chunk's key is the last of them
    layers: tuple
    page_bytes: int
    fingerprint: str
    model: str
    socket: str | None
    min_tokens: int
    copy_threads: int
    stores: bool
    loads: bool


def setup_of(vllm_config, kv_cache_config):
    """Setup, or Unsupported."""
    options = dict(vllm_config.kv_transfer_config.kv_connector_extra_config or {})
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise Unsupported(f"unknown key {sorted(unknown)[0]} in kv_connector_extra_config; known: {', '.join(_OPTIONS)}")
    _check_engine(vllm_config)
    group, spec = _only_group(kv_cache_config)
    chunk_tokens = _chunk_tokens(options, spec.block_size)
    hash_block = getattr(kv_cache_config, "hash_block_size", None) or spec.block_size
    if chunk_tokens % hash_block:
        raise Unsupported(f"chunk_tokens {chunk_tokens} is no multiple of vLLM's hash block of {hash_block} tokens")
    transfer = vllm_config.kv_transfer_config
    return Setup(
        block_size=spec.block_size,
        chunk_tokens=chunk_tokens,
        blocks_per_chunk=chunk_tokens // spec.block_size,
        hashes_per_chunk=chunk_tokens // hash_block,
        layers=tuple(group.layer_names),
        page_bytes=spec.page_size_bytes,
        fingerprint=_fingerprint(vllm_config, kv_cache_config, options, chunk_tokens, hash_block),
        model=_served_name(vllm_config.model_config),
        socket=options.get("socket"),
        min_tokens=_count(options, "min_tokens"),
        copy_threads=_count(options, "copy_threads"),
        stores=transfer.is_kv_producer,
        loads=transfer.is_kv_consumer,
    )


def _check_engine(vllm_config):
    from vllm.distributed.kv_transfer.kv_connector.v1 import base
    from vllm.platforms import current_platform

    if not hasattr(base, "KVConnectorTransferResults"):
        raise Unsupported("this vLLM cannot be told of failed loads by request (get_transfer_results is missing)")
    if not current_platform.is_cpu():
        raise Unsupported(f"KV pages on {current_platform.device_type} are not served yet, only on cpu")
    parallel = _parallel(vllm_config.parallel_config)
    if max(parallel.values()) > 1:
        raise Unsupported(f"several shards are not served yet ({parallel})")
    speculative = getattr(vllm_config, "speculative_config", None)
    if speculative is not None and speculative.method != "ngram":
        raise Unsupported(f"speculative decoding by {speculative.method} is not served yet, only ngram")


def _only_group(kv_cache_config):
    groups = kv_cache_config.kv_cache_groups
    if len(groups) != 1:
        raise Unsupported(f"several KV groups are not served yet ({len(groups)})")
    spec = groups[0].kv_cache_spec
    if type(spec).__name__ != "FullAttentionSpec":
        raise Unsupported(f"KV of the kind {type(spec).__name__} is not served yet, only FullAttentionSpec")
    return groups[0], spec


def _chunk_tokens(options, block_size):
    default = block_size if block_size >= 128 else DEFAULT_CHUNK_TOKENS
    chunk = _count(options, "chunk_tokens") or default
    if chunk % block_size:
        raise Unsupported(f"chunk_tokens {chunk} is no multiple of the block size {block_size}")
    return chunk


def _count(options, name):
    value = options.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Unsupported(f"{name} in kv_connector_extra_config must be a whole number of at least 0, not {value!r}")
    return value


def _parallel(config):
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size", "decode_context_parallel_size")
    return {name: getattr(config, name, 1) for name in sizes}


def _served_name(model_config):
    name = model_config.served_model_name or os.path.basename(os.path.normpath(model_config.model))
    return name if isinstance(name, str) else name[0]


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
        raise Unsupported("this vLLM starts its hash chain at random; set PYTHONHASHSEED")
    hash_function = hashing.get_hash_fn_by_name(name)
    if seed is None:
        seed = kv_cache_utils.resolve_none_hash_seed(hash_function)
    return bytes(hash_function(seed)).hex()


def _kernel(vllm_config, spec):
    """CPU kernels lay out a page differently, and vLLM picks one by the machine."""
    from vllm.v1.attention.backends import cpu_attn

    choose = getattr(cpu_attn, "_get_attn_isa", None)
    if choose is None:
        raise Unsupported("this vLLM does not tell its CPU attention kernel (cpu_attn._get_attn_isa is missing)")
    model, cache = vllm_config.model_config, vllm_config.cache_config
    isa = choose(model.dtype, spec.block_size, spec.head_size, cache.cache_dtype)
    return cpu_attn.CPUAttentionBackend.get_name(), isa


def _layer_line(name, spec):
    shown = {
        key: getattr(spec, key, None)
        for key in ("block_size", "num_kv_heads", "head_size", "head_size_v", "dtype", "kv_quant_mode", "sliding_window", "page_size_bytes")
    }
    return f"{name} {type(spec).__name__} " + " ".join(f"{key}={value}" for key, value in shown.items() if value is not None)


def _fingerprint(vllm_config, kv_cache_config, options, chunk_tokens, hash_block):
    from vllm.version import __version__

    model, cache = vllm_config.model_config, vllm_config.cache_config
    group, spec = _only_group(kv_cache_config)
    backend, kernel = _kernel(vllm_config, spec)
    config, language = model.hf_config.to_dict(), model.hf_text_config.to_dict()
    load = vllm_config.load_config
    try:
        weights = weights_identity(
            getattr(model, "model_weights", None) or model.model,
            model.revision,
            getattr(load.load_format, "value", load.load_format),
            model.seed,
            options.get("weights_id"),
        )
    except (UnknownWeights, OSError) as error:
        raise Unsupported(str(error)) from None
    fields = fingerprint.config_fields(config, language, model.hf_overrides, model.max_model_len)
    fields.update(
        engine="vllm",
        engine_version=__version__,
        layout=fingerprint.LAYOUT,
        weights=weights,
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
        attention_backend=backend,
        attention_kernel=kernel,
        kv_cache_layout=str(getattr(kv_cache_config, "kv_cache_layout", None)),
        parallel=_parallel(vllm_config.parallel_config),
        block_size=spec.block_size,
        hash_block_size=hash_block,
        chunk_tokens=chunk_tokens,
        hash_algorithm=cache.prefix_caching_hash_algo,
        none_hash=_none_hash(cache, options),
        layers=[_layer_line(name, spec) for name in group.layer_names],
    )
    return fingerprint.text(fields)
