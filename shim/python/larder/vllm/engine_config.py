"""The configuration of a vLLM engine as flat fields, minus the fields that are known not to change
a byte of KV.

A closed world: the fingerprint has every field that is not named in this file. A field of a newer
vLLM can therefore cost hits, and can never give one engine the KV of another."""

import dataclasses
import json
import re

from larder import canonical
from larder.vllm.drafts import has_kv
from larder.vllm.groups import Unsupported
from larder.vllm.model_source import reads_tokenizer

_LIMITS = "limits the work at one time; a token's KV depends on earlier tokens alone"
_MEMORY = "the amount of memory, not the content"
_PLACE = "the place where something runs or listens"
_SAMPLING = "acts behind the last layer: which token is chosen, not the KV of a token"
_TELLS = "logs, metrics or traces"
_START = "the speed of a start, not a result"
_GRAPHS = "launches that are recorded and replayed, not their results"
_WEIGHTS = "the line `weights` names the content that was read"
_RESOLVED = "vLLM has resolved this field into other fields"
_FACTS = "has a line of its own (identity.facts_of)"
_ORDER = "the time at which a request runs"
_SPREAD = "the rank that computes something, not the result"
_TOKENS = "acts before the engine: the block hashes cover the tokens (but see harmless_of)"
_PROPOSED = "which tokens are proposed, and which proposals are accepted"

# Path of a field, or of a whole part of the configuration, and the reason why the field does not
# change KV.
HARMLESS = {
    "instance_id": "a random name",
    "shutdown_timeout": "acts at the end",
    "logging_config": _TELLS,
    "observability_config": _TELLS,
    "profiler_config": _TELLS,
    "watchdog_config": _TELLS,
    "structured_outputs_config": _SAMPLING,
    "reasoning_config": _SAMPLING,
    "watermark_config": _SAMPLING,
    "aux_output_config": "more outputs of the same computation",
    "kv_transfer_config": (
        "the connector itself; chunk_tokens and weights_id, of its options, have lines of their own"
    ),
    "kv_events_config": "events for routers",
    "weight_transfer_config": (
        "new weights move the engine to a namespace of its own (weight_changes)"
    ),
    **{
        f"ec_transfer_config.{name}": _PLACE
        for name in (
            "engine_id",  # drawn anew at each start
            "ec_ip",
            "ec_port",
            "ec_buffer_device",
            "ec_buffer_size",
        )
    },
    "attention_config.sparse_mla_prefill_workspace_factor": _MEMORY,
    "offload_config": "says where weights lie",
    "lora_config": "a part of each adapter's line (adapters)",
    "quant_config": "made from model_config and files that the line `weights` covers",
    "device_config.device": "the number of the device; device_type is in the fingerprint",
    # ---- the model
    "model_config.model": _WEIGHTS,
    "model_config.model_weights": _WEIGHTS,
    "model_config.revision": _WEIGHTS,
    "model_config.code_revision": _WEIGHTS,
    "model_config.hf_config_path": _RESOLVED,
    "model_config.config_format": _RESOLVED,
    "model_config.hf_token": "a secret, which says who may download",
    "model_config.served_model_name": "a name for clients",
    "model_config.tokenizer": _TOKENS,
    "model_config.tokenizer_mode": _TOKENS,
    "model_config.tokenizer_revision": _TOKENS,
    "model_config.skip_tokenizer_init": _TOKENS,
    "model_config.renderer_num_workers": _TOKENS,
    "model_config.io_processor_plugin": _TOKENS,
    "model_config.allowed_local_media_path": (
        "files that a client may name; keys hold a digest of the content"
    ),
    "model_config.allowed_media_domains": (
        "hosts that a client may name; keys hold a digest of the content"
    ),
    "model_config.enable_prompt_embeds": (
        "model_input has the effect on tokens; the block hashes cover embeddings of a client"
    ),
    "model_config.seed": _SAMPLING,
    "model_config.generation_config": (
        "attn_temperature_tuning has the part that Llama 4 takes; the rest is sampling"
    ),
    "model_config.override_generation_config": "as generation_config",
    "model_config.logits_processors": _SAMPLING,
    "model_config.max_logprobs": _SAMPLING,
    "model_config.logprobs_mode": _SAMPLING,
    "model_config.use_fp64_gumbel": _SAMPLING,
    "model_config.enable_return_routed_experts": "more outputs of the same computation",
    "model_config.return_sampling_mask": _SAMPLING,
    "model_config.max_model_len": (
        "rope_max_model_len and attn_temperature_tuning have the length where the model uses it"
    ),
    "model_config.original_max_model_len": "as max_model_len",
    "model_config.spec_target_max_model_len": "as max_model_len",
    "model_config.enforce_eager": "compilation_config.mode has the result",
    "model_config.allow_deprecated_quantization": (
        "a permission; model_config.quantization has the choice"
    ),
    "model_config.enable_sleep_mode": _MEMORY,
    "model_config.sleep_preserve_parameter_names": _MEMORY,
    "model_config.sleep_mode_backend": _MEMORY,
    "model_config.sleep_mode_offload_cudagraph": _MEMORY,
    "model_config.enable_nccl_comm_suspend": _MEMORY,
    "model_config.enable_cumem_allocator": _MEMORY,
    "model_config.enable_trace_replay": _TELLS,
    "model_config.hf_text_config": "a part of hf_config",
    "model_config.model_arch_config": "made from hf_config",
    "model_config.encoder_config": "made from a file that the line `weights` covers",
    "model_config.config_updated": "a note of vLLM's own",
    "model_config.multimodal_config.limit_per_prompt": f"{_LIMITS}; model_input has limits of 0",
    "model_config.multimodal_config.mm_processor_cache_gb": _MEMORY,
    "model_config.multimodal_config.mm_processor_cache_type": _MEMORY,
    "model_config.multimodal_config.mm_shm_cache_max_object_size_mb": _MEMORY,
    "model_config.multimodal_config.skip_mm_profiling": _START,
    # ---- pages
    "cache_config.block_size": _FACTS,
    "cache_config.user_specified_block_size": _FACTS,
    "cache_config.hash_block_size": _FACTS,
    "cache_config.kv_cache_layout": _FACTS,
    "cache_config.cache_dtype": _FACTS,
    "cache_config.prefix_caching_hash_algo": _FACTS,
    "cache_config.enable_prefix_caching": "setup refuses where a prefix cannot be reused",
    "cache_config.prefix_cache_retention_interval": _MEMORY,
    "cache_config.prefix_match_unit": _ORDER,
    "cache_config.effective_attention_block_size": _RESOLVED,
    "cache_config.cache_hit_alignment_tokens": _RESOLVED,
    "cache_config._block_size_resolved": _RESOLVED,
    "cache_config.gpu_memory_utilization": _MEMORY,
    "cache_config.num_gpu_blocks": _MEMORY,
    "cache_config.num_gpu_blocks_override": _MEMORY,
    "cache_config.num_cpu_blocks": _MEMORY,
    "cache_config.simple_cpu_offload_num_blocks": _MEMORY,
    "cache_config.kv_cache_size_tokens": _MEMORY,
    "cache_config.kv_cache_max_concurrency": _MEMORY,
    "cache_config.kv_cache_memory_bytes": _MEMORY,
    "cache_config.kv_offloading_size": _MEMORY,
    "cache_config.kv_offloading_backend": _MEMORY,
    # ---- weights
    "load_config.load_format": _WEIGHTS,
    "load_config.download_dir": _WEIGHTS,
    "load_config.ignore_patterns": _WEIGHTS,
    "load_config.safetensors_load_strategy": _START,
    "load_config.safetensors_prefetch_num_threads": _START,
    "load_config.safetensors_prefetch_block_size": _START,
    "load_config.use_tqdm_on_load": _TELLS,
    "load_config.device": _PLACE,
    "load_config.pt_load_map_location": _PLACE,
    # ---- which request runs when
    "scheduler_config.max_num_batched_tokens": _LIMITS,
    "scheduler_config.max_num_scheduled_tokens": _LIMITS,
    "scheduler_config.max_num_seqs": _LIMITS,
    "scheduler_config.max_num_active_seqs": _LIMITS,
    "scheduler_config.max_num_queued_reqs": _LIMITS,
    "scheduler_config.max_num_queued_tokens": _LIMITS,
    "scheduler_config.max_num_encoder_input_tokens": _LIMITS,
    "scheduler_config.encoder_cache_size": _LIMITS,
    "scheduler_config.long_prefill_token_threshold": _ORDER,
    "scheduler_config.long_prefill_token_threshold_adaptive": _ORDER,
    "scheduler_config.max_num_partial_prefills": _ORDER,
    "scheduler_config.max_long_partial_prefills": _ORDER,
    "scheduler_config.enable_chunked_prefill": _ORDER,
    "scheduler_config.disable_chunked_mm_input": _ORDER,
    "scheduler_config.policy": _ORDER,
    "scheduler_config.scheduler_reserve_full_isl": _ORDER,
    "scheduler_config.watermark": _ORDER,
    "scheduler_config.prefill_schedule_interval": _ORDER,
    "scheduler_config.async_scheduling": _ORDER,
    "scheduler_config.stream_interval": _ORDER,
    # ---- the ranks. Sizes of tensor, pipeline and context parallel have a line of their own, since
    # these sizes cut the KV.
    "parallel_config.tensor_parallel_size": _FACTS,
    "parallel_config.pipeline_parallel_size": _FACTS,
    "parallel_config.prefill_context_parallel_size": _FACTS,
    "parallel_config.decode_context_parallel_size": _FACTS,
    **{
        f"parallel_config.{name}": _SPREAD
        for name in (
            "data_parallel_size",
            "data_parallel_size_local",
            "data_parallel_rank",
            "data_parallel_rank_local",
            "data_parallel_index",
            "dp_sync_interval",
            "enable_expert_parallel",
            "enable_ep_weight_filter",
            "enable_eplb",
            "eplb_config",
            "expert_placement_strategy",
            "enable_elastic_ep",
            "elastic_ep_max_dp_size",
            "world_size",
            "rank",
            "node_rank",
            "nnodes",
            "enable_dbo",
            "ubatch_size",
            "dbo_decode_token_threshold",
            "dbo_prefill_token_threshold",
            "enable_batch_sharded_sampling",
            "enable_fault_tolerance",
            "fault_tolerance_config",
        )
    },
    **{
        f"parallel_config.{name}": _PLACE
        for name in (
            "data_parallel_master_ip",
            "data_parallel_rpc_port",
            "data_parallel_master_port",
            "data_parallel_backend",
            "data_parallel_external_lb",
            "data_parallel_hybrid_lb",
            "_data_parallel_master_port_list",
            "_coord_store_port",
            "_api_process_count",
            "_api_process_rank",
            "_allow_auto_resolve_cp_interleave_size",
            "master_addr",
            "master_port",
            "distributed_executor_backend",
            "ray_workers_use_nsight",
            "ray_runtime_env",
            "placement_group",
            "numa_bind",
            "numa_bind_nodes",
            "numa_bind_cpus",
            "assigned_physical_gpu_ids",
            "distributed_timeout_seconds",
            "cpu_distributed_timeout_seconds",
            "max_parallel_loading_workers",
            "enable_shm_tensor_arena",
            "disable_nccl_for_dp_synchronization",
        )
    },
    # ---- the compilation: mode, backend, operators and passes are in the fingerprint
    **{
        f"compilation_config.{name}": _GRAPHS
        for name in (
            "cudagraph_mode",
            "cudagraph_num_of_warmups",
            "cudagraph_capture_sizes",
            "max_cudagraph_capture_size",
            "cudagraph_copy_inputs",
            "cudagraph_specialize_lora",
            "cudagraph_mm_encoder",
            "cudagraph_decoder_replay",
            "decoder_replay_cudagraph_capture_sizes",
            "decoder_replay_trim_threshold",
            "encoder_cudagraph_token_budgets",
            "encoder_cudagraph_max_vision_items_per_batch",
            "encoder_cudagraph_max_frames_per_batch",
            "compile_sizes",
            "compile_ranges_endpoints",
            "splitting_ops",
            "use_inductor_graph_partition",
        )
    },
    **{
        f"compilation_config.{name}": _START
        for name in (
            "debug_dump_path",
            "cache_dir",
            "local_cache_dir",
            "compile_cache_save_format",
            "fast_moe_cold_start",
            "traced_files",
            "compilation_time",
            "encoder_compilation_time",
            "enabled_custom_ops",
            "disabled_custom_ops",
            "static_forward_context",
            "static_all_moe_layers",
        )
    },
    "kernel_config.enable_flashinfer_autotune": _START,
    "kernel_config.enable_rocm_segmented_attn_autotune": _START,
    "kernel_config.enable_cutedsl_warmup": _START,
    "kernel_config.enable_jit_warmup": _START,
}

# ---- a drafter with stored KV. Fields that only a method without such KV has are the whole
# configuration of other methods.
_DRAFTS = "speculative_config"
HARMLESS.update(
    {
        f"{_DRAFTS}.{name}": _PROPOSED
        for name in (
            "num_speculative_tokens",
            "num_speculative_tokens_per_batch_size",
            "prompt_lookup_max",
            "prompt_lookup_min",
            "suffix_decoding_max_tree_depth",
            "suffix_decoding_max_cached_requests",
            "suffix_decoding_max_spec_factor",
            "suffix_decoding_min_token_prob",
            "rejection_sample_method",
            "synthetic_acceptance_rates",
            "synthetic_acceptance_length",
            "draft_sample_method",
            "fly_window_size",
            "fly_entropy_threshold",
            "fly_entropy_top_k",
            "use_local_argmax_reduction",
            "draft_lm_head_quantization",
            "enable_adaptive_verification",
            "disable_padded_drafter_batch",
        )
    }
)
HARMLESS.update(
    {
        f"{_DRAFTS}.disable_eagle_block_drop": "vLLM's own cache, whose hits DraftKv checks",
        f"{_DRAFTS}.disable_lookahead_block_hashes": (
            "0 hashed tokens ahead in engines with a connector"
        ),
        f"{_DRAFTS}.max_model_len": (
            "draft_rope_max_model_len has the length where the model uses it; "
            "steps without the drafter are not stored"
        ),
        f"{_DRAFTS}.target_model_config": "model_config",
        f"{_DRAFTS}.target_parallel_config": "parallel_config",
        f"{_DRAFTS}.model": _WEIGHTS,
        f"{_DRAFTS}.revision": _WEIGHTS,
        f"{_DRAFTS}.code_revision": _WEIGHTS,
        f"{_DRAFTS}.enforce_eager": "compilation_config.mode has the result",
    }
)
# The format decides which files of the draft model are read.
_COUNTS_OF_DRAFTS = {"load_config.load_format"}
HARMLESS.update(
    {
        f"{_DRAFTS}.draft_{path}": reason
        for path, reason in tuple(HARMLESS.items())
        if path.startswith(("model_config.", "load_config.", "parallel_config."))
        and path not in _COUNTS_OF_DRAFTS
    }
)
_WITHOUT_DRAFT_KV = {
    **HARMLESS,
    _DRAFTS: "proposals by a method without KV; rejected ones are never stored",
}

# Fields of a Hugging Face configuration that differ between equal models.
_OF_NO_MODEL = {"_name_or_path", "name_or_path", "transformers_version", "_commit_hash"}
_MAX_DEPTH = 12
# Ends of names of secrets. vLLM's loaders take keys of object stores, and a newer vLLM may count a
# variable with a key.
_SECRET = re.compile(
    r"(key|key_id|secret|password|credentials?|(auth|access|api|bearer|hf|session)_token|"
    r"^[A-Z_]*_TOKEN)$",
    re.IGNORECASE,
)
# A name inside a path. Another key of a dictionary is in quotes, or in <> if it is no text.
_PLAIN_NAME = re.compile(r'[^."<\s][^.\s]*')


# Tokens do not decide the KV of a model that reads the tokenizer (model_source). The line `weights`
# has the tokenizer's files.
_HOW_TO_READ_TOKENIZER = ("model_config.tokenizer_mode",)


def harmless_of(vllm_config):
    """The harmless paths of an engine: the speculation of an engine without a drafter's KV is
    harmless as a whole."""
    found = HARMLESS if has_kv(getattr(vllm_config, _DRAFTS, None)) else _WITHOUT_DRAFT_KV
    if not reads_tokenizer(vllm_config.model_config):
        return found
    return {path: why for path, why in found.items() if path not in _HOW_TO_READ_TOKENIZER}


def fields_of(config, harmless=HARMLESS):
    """{path: form} of all fields of a configuration that are not harmless (canonical.form). Two
    configurations have equal paths and forms only if they are equal. harmless: paths within
    `config`. Unsupported, with the field's path: the value cannot be named."""
    found = {}
    for name, one in _members(config).items():
        _walk(one, name, found, 1, harmless, _is_of_transformers(config))
    return found


def form_of(value, path):
    """The canonical form of the value of that field. Unsupported."""
    try:
        return canonical.form(value)
    except canonical.Unnameable as reason:
        raise Unsupported(
            f"the value of {path} cannot be named ({reason}): give {path} plain values, "
            "or functions and classes of a module that lies in a file"
        ) from None


def may_be_secret(path, form=None):
    """Whether a field or a variable, or a part of its form, has a name of secrets. The value
    counts, and people do not see the value."""
    parts = form.items() if isinstance(form, dict) else ()
    if isinstance(form, list):
        parts = [("", one) for one in form]
    elif isinstance(form, dict) and "<dict>" in form:
        parts = [(json.dumps(key), one) for key, one in form["<dict>"]]
    return bool(_SECRET.search(path.rstrip('">'))) or any(may_be_secret(*one) for one in parts)


def set_by_hand(vllm_config):
    """Paths of fields_of() with a value unlike vLLM's default, which engine_version fixes."""
    chosen = set()
    _differing(vllm_config, "", chosen, harmless_of(vllm_config))
    return chosen


def _walk(value, path, found, depth, harmless, of_model=False):
    """of_model: within a Hugging Face configuration."""
    if path in harmless:
        return
    if depth > _MAX_DEPTH:
        raise Unsupported(f"the configuration of this engine is nested too deep at {path}")
    if _is_part(value):
        of_model = of_model or _is_of_transformers(value)
        found[f"{path}.<class>"] = canonical.class_of(value)
        for name, one in _members(value).items():
            _walk(one, f"{path}.{name}", found, depth + 1, harmless, of_model)
        return
    members = _entries(value, path, of_model) if type(value) is dict else {}
    for at, one in members.items():
        _walk(one, at, found, depth + 1, harmless, of_model)
    if not members:
        found[path] = {} if type(value) is dict else form_of(value, path)


def _entries(value, path, of_model):
    """{path: value} of a dictionary."""
    kept = {key: one for key, one in value.items() if not (of_model and key in _OF_NO_MODEL)}
    return {f"{path}.{_name_of(key, path)}": kept[key] for key in kept}


def _name_of(key, path):
    if type(key) is not str:
        return f"<{json.dumps(form_of(key, path), sort_keys=True)}>"
    return key if _PLAIN_NAME.fullmatch(key) else json.dumps(key)


def _is_part(value):
    """A part of the configuration, with members that are fields themselves."""
    return not isinstance(value, type) and (
        dataclasses.is_dataclass(value) or _is_of_transformers(value)
    )


def _is_of_transformers(value):
    """A Hugging Face configuration: its to_dict() is the model's own file with overrides."""
    return any(
        kind.__name__.lower() == "pretrainedconfig" and kind.__module__.startswith("transformers.")
        for kind in type(value).__mro__
    )


def _members(part):
    """{name inside a path: value}"""
    if _is_of_transformers(part):
        return {
            _name_of(name, ""): value
            for name, value in part.to_dict().items()
            if name not in _OF_NO_MODEL
        }
    members = {field.name: getattr(part, field.name, None) for field in dataclasses.fields(part)}
    return {**members, **_attributes(part)}


def _attributes(part):
    """Attributes beside the fields: what vLLM sets later, and all of a class outside of vLLM. The
    names of vLLM's own notes begin with an underscore."""
    kind = type(part)
    of_vllm = kind.__module__.partition(".")[0] == "vllm"
    slots = {name for one in kind.__mro__ for name in _slots(one) if hasattr(part, name)}
    fields = {field.name for field in dataclasses.fields(part)}
    return {
        name: getattr(part, name)
        for name in sorted({*getattr(part, "__dict__", ()), *slots} - fields)
        if not (of_vllm and name.startswith("_")) and not canonical.is_memory(kind, name)
    }


def _slots(kind):
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _differing(part, path, chosen, harmless):
    if _is_of_transformers(part):
        chosen.add(path)
        return
    chosen.update(f"{path}.{name}" if path else name for name in _attributes(part))
    for field in dataclasses.fields(part):
        value, at = getattr(part, field.name, None), f"{path}.{field.name}" if path else field.name
        if at in harmless:
            continue
        if _is_part(value):
            _differing(value, at, chosen, harmless)
        elif _unlike(value, _default_of(field)):
            chosen.add(at)


def _unlike(value, default):
    try:
        return canonical.text(value) != canonical.text(default)
    except canonical.Unnameable:  # the value has a line; fields_of() refuses it
        return True


def _default_of(field):
    default = field.default
    if hasattr(default, "get_default"):  # pydantic's
        return default.get_default(call_default_factory=True)
    if default is not dataclasses.MISSING:
        return default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None
