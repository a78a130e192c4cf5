"""The configuration of a vLLM engine as flat fields: all of it, minus the fields that are known not to change a byte of KV.

A closed world: a field that this file does not name is in the fingerprint. A field that a newer vLLM adds therefore costs hits between
engines that set it differently, and never gives one engine the KV of another."""

import dataclasses
import enum
import os

_LIMITS = "limits how much runs at once; a token's KV depends on the tokens before it alone"
_MEMORY = "says how much memory there is, not what stands in it"
_PLACE = "says where something runs or listens"
_SAMPLING = "acts behind the last layer: which token is chosen, not the KV of a token"
_TELLS = "logs, metrics or traces"
_START = "decides how fast the engine starts, not what it computes"
_GRAPHS = "decides which launches are recorded and replayed, not what they compute"
_WEIGHTS = "the line `weights` names the content that was read"
_RESOLVED = "vLLM has resolved it into other fields"
_FACTS = "has a line of its own (identity.facts_of)"
_ORDER = "decides when a request runs"
_SPREAD = "decides which rank computes something, not the result"
_TOKENS = "acts before the engine: the block hashes cover the tokens"

# Path of a field, or of a whole part of the configuration: why it does not change KV.
HARMLESS = {
    "instance_id": "a random name",
    "shutdown_timeout": "acts at the end",
    "logging_config": _TELLS,
    "observability_config": _TELLS,
    "profiler_config": _TELLS,
    "structured_outputs_config": _SAMPLING,
    "reasoning_config": _SAMPLING,
    "watermark_config": _SAMPLING,
    "aux_output_config": "returns more of what is computed anyway",
    "kv_transfer_config": "the connector itself; chunk_tokens and weights_id, of its options, have lines of their own",
    "kv_events_config": "tells routers what is cached",
    "weight_transfer_config": "new weights move the engine to a namespace of its own (weight_changes)",
    "offload_config": "says where weights lie",
    "lora_config": "a part of each adapter's line (adapters)",
    "speculative_config": "only n-gram drafts are served: proposals, of which rejected ones are never stored",
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
    "model_config.allowed_local_media_path": "says which files a client may name; keys hold a digest of what was read",
    "model_config.allowed_media_domains": "says which hosts a client may name; keys hold a digest of what was read",
    "model_config.enable_prompt_embeds": "the block hashes cover embeddings that a client sends",
    "model_config.seed": _SAMPLING,
    "model_config.generation_config": "attn_temperature_tuning has what Llama 4 takes from it; the rest is sampling",
    "model_config.override_generation_config": "as generation_config",
    "model_config.logits_processors": _SAMPLING,
    "model_config.max_logprobs": _SAMPLING,
    "model_config.logprobs_mode": _SAMPLING,
    "model_config.use_fp64_gumbel": _SAMPLING,
    "model_config.return_sampling_mask": _SAMPLING,
    "model_config.max_model_len": "rope_max_model_len and attn_temperature_tuning have it where a model depends on it",
    "model_config.original_max_model_len": "as max_model_len",
    "model_config.spec_target_max_model_len": "as max_model_len",
    "model_config.enforce_eager": "compilation_config.mode says what it leads to",
    "model_config.allow_deprecated_quantization": "allows; model_config.quantization says what was chosen",
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
    "model_config.multimodal_config.limit_per_prompt": _LIMITS,
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
    "scheduler_config.enable_chunked_prefill": _ORDER,
    "scheduler_config.disable_chunked_mm_input": _ORDER,
    "scheduler_config.policy": _ORDER,
    "scheduler_config.scheduler_reserve_full_isl": _ORDER,
    "scheduler_config.watermark": _ORDER,
    "scheduler_config.prefill_schedule_interval": _ORDER,
    "scheduler_config.async_scheduling": _ORDER,
    "scheduler_config.stream_interval": _ORDER,
    # ---- who computes. Sizes of tensor, pipeline and context parallel have a line of their own, since they cut the KV.
    "parallel_config.tensor_parallel_size": _FACTS,
    "parallel_config.pipeline_parallel_size": _FACTS,
    "parallel_config.prefill_context_parallel_size": _FACTS,
    "parallel_config.decode_context_parallel_size": _FACTS,
    **{
        f"parallel_config.{name}": _SPREAD
        for name in (
            "data_parallel_size", "data_parallel_size_local", "data_parallel_rank", "data_parallel_rank_local", "data_parallel_index",
            "dp_sync_interval", "enable_expert_parallel", "enable_ep_weight_filter", "enable_eplb", "eplb_config",
            "expert_placement_strategy", "enable_elastic_ep", "elastic_ep_max_dp_size", "world_size", "rank", "node_rank", "nnodes",
            "enable_dbo", "ubatch_size", "dbo_decode_token_threshold", "dbo_prefill_token_threshold", "enable_batch_sharded_sampling",
            "enable_fault_tolerance", "fault_tolerance_config",
        )
    },
    **{
        f"parallel_config.{name}": _PLACE
        for name in (
            "data_parallel_master_ip", "data_parallel_rpc_port", "data_parallel_master_port", "data_parallel_backend",
            "data_parallel_external_lb", "data_parallel_hybrid_lb", "_data_parallel_master_port_list", "_coord_store_port",
            "_api_process_count", "_api_process_rank", "_allow_auto_resolve_cp_interleave_size", "master_addr", "master_port",
            "distributed_executor_backend", "ray_workers_use_nsight", "ray_runtime_env", "placement_group", "numa_bind",
            "numa_bind_nodes", "numa_bind_cpus", "assigned_physical_gpu_ids", "distributed_timeout_seconds",
            "cpu_distributed_timeout_seconds", "max_parallel_loading_workers", "enable_shm_tensor_arena",
            "disable_nccl_for_dp_synchronization",
        )
    },
    # ---- how it is compiled: mode, backend, operators and passes are in the fingerprint
    **{
        f"compilation_config.{name}": _GRAPHS
        for name in (
            "cudagraph_mode", "cudagraph_num_of_warmups", "cudagraph_capture_sizes", "max_cudagraph_capture_size",
            "cudagraph_copy_inputs", "cudagraph_specialize_lora", "cudagraph_mm_encoder", "cudagraph_decoder_replay",
            "decoder_replay_cudagraph_capture_sizes", "decoder_replay_trim_threshold", "encoder_cudagraph_token_budgets",
            "encoder_cudagraph_max_vision_items_per_batch", "encoder_cudagraph_max_frames_per_batch", "compile_sizes",
            "compile_ranges_endpoints", "splitting_ops", "use_inductor_graph_partition",
        )
    },
    **{
        f"compilation_config.{name}": _START
        for name in (
            "debug_dump_path", "cache_dir", "local_cache_dir", "compile_cache_save_format", "fast_moe_cold_start", "traced_files",
            "compilation_time", "encoder_compilation_time", "enabled_custom_ops", "disabled_custom_ops", "static_forward_context",
            "static_all_moe_layers",
        )
    },
    "kernel_config.enable_flashinfer_autotune": _START,
    "kernel_config.enable_rocm_segmented_attn_autotune": _START,
    "kernel_config.enable_cutedsl_warmup": _START,
    "kernel_config.enable_jit_warmup": _START,
}

# Beginnings of names of environment variables that vLLM counts among its compile factors: why they do not change KV.
HARMLESS_VARIABLES = {
    "CMAKE_BUILD_TYPE": _START,
    "CUDA_HOME": _PLACE,
    "MOONCAKE_": "another connector",
    "NVCC_THREADS": _START,
    "RAY_": _PLACE,
    "VERBOSE": _TELLS,
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "how processes talk",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "allows; the configuration says what was chosen",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "adapters are named by their content",
    "VLLM_BUILD_": "engine_version says what runs",
    "VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT": _TOKENS,
    "VLLM_CONFIGURE_LOGGING": _TELLS,
    "VLLM_CPU_CI_ENV": _START,
    "VLLM_CPU_NUM_OF_RESERVED_CPU": _PLACE,
    "VLLM_CPU_OMP_THREADS_BIND": _PLACE,
    "VLLM_CUDART_SO_PATH": _PLACE,
    "VLLM_DEBUG_": _TELLS,
    "VLLM_DISABLE_COMPILE_CACHE": _START,
    "VLLM_DISABLE_LOG_LOGO": _TELLS,
    "VLLM_DISABLE_REQUEST_ID_RANDOMIZATION": "names of requests",
    "VLLM_DOCKER_BUILD_CONTEXT": _START,
    "VLLM_DP_": _SPREAD,
    "VLLM_EC_SIDE_CHANNEL_": _PLACE,
    "VLLM_ENABLE_COHERE_API": _PLACE,
    "VLLM_ENABLE_CUDAGRAPH_GC": _MEMORY,
    "VLLM_ENABLE_RESPONSES_API_STORE": _PLACE,
    "VLLM_ENFORCE_STRICT_TOOL_CALLING": _SAMPLING,
    "VLLM_ENGINE_READY_TIMEOUT_S": _START,
    "VLLM_FASTSAFETENSORS_QUEUE_SIZE": _START,
    "VLLM_GC_DEBUG": _TELLS,
    "VLLM_GPU_NIC_PCIE_MAPPING": _PLACE,
    "VLLM_IMAGE_TAG": "engine_version says what runs",
    "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": _TELLS,
    "VLLM_KV_OFFLOAD_": "another connector",
    "VLLM_LOG_": _TELLS,
    "VLLM_LOOPBACK_IP": _PLACE,
    "VLLM_LORA_RESOLVER_": "adapters are named by their content",
    "VLLM_MAX_": _LIMITS,
    "VLLM_MEMORY_PROFILER_": _MEMORY,
    "VLLM_MOONCAKE_": "another connector",
    "VLLM_MQ_MAX_CHUNK_BYTES_MB": "how processes talk",
    "VLLM_MSGPACK_": "how processes talk",
    "VLLM_NCCL_": _PLACE,
    "VLLM_NIC_SELECTION_VARS": _PLACE,
    "VLLM_NIXL_": "another connector",
    "VLLM_NVTX_": _TELLS,
    "VLLM_CUSTOM_SCOPES_FOR_PROFILING": _TELLS,
    "VLLM_P2P_": "another connector",
    "VLLM_PROCESS_NAME_PREFIX": _TELLS,
    "VLLM_RAY_": _PLACE,
    "VLLM_REGEX_COMPILATION_TIMEOUT_S": _SAMPLING,
    "VLLM_RUST_FRONTEND_PATH": _PLACE,
    "VLLM_SKIP_P2P_CHECK": _START,
    "VLLM_SYSTEM_START_DATE": _TOKENS,
    "VLLM_TOOL_": _SAMPLING,
    "VLLM_TRACE_FUNCTION": _TELLS,
    "VLLM_USAGE_SOURCE": _TELLS,
    "VLLM_USE_RAY_": _PLACE,
    "VLLM_USE_RUST_": _PLACE,
    "VLLM_USE_SIMPLE_KV_OFFLOAD": "another connector",
    "VLLM_USE_SPINLOOP_EXT": "how processes talk",
    "VLLM_V1_USE_OUTLINES_CACHE": _SAMPLING,
    "VLLM_WEIGHT_OFFLOADING_": "says where weights lie",
    "VLLM_XGRAMMAR_CACHE_MB": _SAMPLING,
}

# Of a Hugging Face configuration: differs between equal models.
_OF_NO_MODEL = {"_name_or_path", "name_or_path", "transformers_version", "_commit_hash"}
_MAX_DEPTH = 12


def fields_of(vllm_config):
    """{path: value} of all that is not harmless. Values are texts, numbers, booleans, None, and lists of them."""
    found = {}
    _walk(vllm_config, "", found, 0)
    return found


def set_by_hand(vllm_config):
    """Paths of fields_of() that differ from vLLM's own defaults, which engine_version fixes."""
    chosen = set()
    _differing(vllm_config, "", chosen)
    return chosen


def variables():
    """{name: value} of vLLM's environment variables that are not harmless, set or not."""
    from vllm import envs

    known = envs.compile_factors()
    left_out = tuple(HARMLESS_VARIABLES)
    return {name: _plain(value, 0) for name, value in known.items() if not name.startswith(left_out)}


def variables_set():
    """Names of variables() that the environment sets."""
    return {name for name in variables() if name in os.environ}


def _walk(value, path, found, depth):
    if path in HARMLESS:
        return
    if depth > _MAX_DEPTH:
        raise ValueError(f"the configuration of this engine is nested too deep at {path}")
    if isinstance(value, enum.Enum):
        found[path] = value.name
    elif _is_part(value):
        for name, one in _members(value).items():
            _walk(one, f"{path}.{name}" if path else name, found, depth + 1)
    elif isinstance(value, dict) and value:
        for name in sorted(value, key=str):
            if name not in _OF_NO_MODEL:
                _walk(value[name], f"{path}.{name}", found, depth + 1)
    else:
        found[path] = _plain(value, depth)


def _is_part(value):
    """A part of the configuration, whose members are fields of their own."""
    return not isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(value, "to_dict"))


def _members(part):
    if hasattr(part, "to_dict"):  # of Hugging Face: what the model's own file and its overrides lead to
        return {name: value for name, value in part.to_dict().items() if name not in _OF_NO_MODEL}
    members = {field.name: getattr(part, field.name, None) for field in dataclasses.fields(part)}
    return {**members, **{name: value for name, value in vars(part).items() if not name.startswith("_")}}


def _differing(part, path, chosen):
    if hasattr(part, "to_dict"):
        chosen.add(path)
        return
    for field in dataclasses.fields(part):
        value, at = getattr(part, field.name, None), f"{path}.{field.name}" if path else field.name
        if at in HARMLESS:
            continue
        if _is_part(value) and not isinstance(value, enum.Enum):
            _differing(value, at, chosen)
        elif _plain(value, 0) != _plain(_default_of(field), 0):
            chosen.add(at)


def _default_of(field):
    default = field.default
    if hasattr(default, "get_default"):  # pydantic's
        return default.get_default(call_default_factory=True)
    if default is not dataclasses.MISSING:
        return default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def _plain(value, depth):
    """As JSON has a form for it; sets in order; functions and classes by name; an address must not get in."""
    if depth > _MAX_DEPTH:
        raise ValueError("the configuration of this engine is nested too deep")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value.name if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dict):
        return {str(name): _plain(value[name], depth + 1) for name in sorted(value, key=str)}
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(one, depth + 1) for one in value), key=str)
    if isinstance(value, (list, tuple)):
        return [_plain(one, depth + 1) for one in value]
    name = getattr(value, "__qualname__", None)
    if name:
        return f"{value.__module__}.{name}"
    shown = str(value)
    if " at 0x" not in shown:
        return shown
    members = {key: one for key, one in vars(value).items() if not key.startswith("_")} if hasattr(value, "__dict__") else {}
    return {"class": type(value).__qualname__, **_plain(members, depth + 1)}
