"""Flags that operators commonly vary, one each: engines that differ in one of these alone share.
tests/python/unit compares fingerprints, tests/python/names counts hits."""

# Arguments of vLLM's EngineArgs.
ENGINE = {
    "max_model_len": {"max_model_len": 1024},
    "max_num_seqs": {"max_num_seqs": 7},
    "max_num_batched_tokens": {"max_num_batched_tokens": 512},
    "gpu_memory_utilization": {"gpu_memory_utilization": 0.5},
    "kv_cache_memory_bytes": {"kv_cache_memory_bytes": 1 << 28},
    "num_gpu_blocks_override": {"num_gpu_blocks_override": 100},
    "served_model_name": {"served_model_name": ["one", "two"]},
    "seed": {"seed": 5},
    "scheduling_policy": {"scheduling_policy": "priority"},
    "async_scheduling": {"async_scheduling": False},
    "enable_chunked_prefill": {"enable_chunked_prefill": False},
    "long_prefill_token_threshold": {"long_prefill_token_threshold": 100},
    "stream_interval": {"stream_interval": 4},
    "max_logprobs": {"max_logprobs": 5},
    "disable_log_stats": {"disable_log_stats": True},
    "kv_cache_metrics": {"kv_cache_metrics": True},
    "enable_mfu_metrics": {"enable_mfu_metrics": True},
    "show_hidden_metrics_for_version": {"show_hidden_metrics_for_version": "0.31"},
    "number_of_api_servers": {"_api_process_count": 3, "_api_process_rank": 1},
    "master_port": {"master_port": 29999},
    "load_format": {"load_format": "safetensors"},
}
# Rarely varied ones.
RARE = {
    "logprobs_mode": {"logprobs_mode": "raw_logits"},
    "enable_prefix_caching": {"enable_prefix_caching": False},
    "generation_config": {"generation_config": "vllm"},
    "override_generation_config": {"override_generation_config": {"temperature": 0.1}},
    "tokenizer_mode": {"tokenizer_mode": "slow"},
    "otlp_traces_endpoint": {"otlp_traces_endpoint": "http://127.0.0.1:4317"},
    "distributed_timeout_seconds": {"distributed_timeout_seconds": 77},
    "max_parallel_loading_workers": {"max_parallel_loading_workers": 2},
    "allowed_local_media_path": {"allowed_local_media_path": "/srv"},
    "download_dir": {"download_dir": "/srv"},
    "safetensors_load_strategy": {"safetensors_load_strategy": "eager"},
    "use_tqdm_on_load": {"use_tqdm_on_load": False},
    "enable_lora": {"enable_lora": True},
    "structured_outputs_config": {"structured_outputs_config": {"backend": "xgrammar"}},
    "shutdown_timeout": {"shutdown_timeout": 9},
    "speculative_config": {
        "speculative_config": {
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        }
    },
    "data_parallel_rpc_port": {"data_parallel_rpc_port": 30000},
    "master_addr": {"master_addr": "10.0.0.1"},
}
# Arguments of vLLM's server that no engine has.
SERVER = {
    "port": ["--port", "8123"],
    "host": ["--host", "127.0.0.2"],
    "api_key": ["--api-key", "a-secret"],
    "root_path": ["--root-path", "/v"],
    "uvicorn_log_level": ["--uvicorn-log-level", "debug"],
    "disable_uvicorn_access_log": ["--disable-uvicorn-access-log"],
    "enable_log_requests": ["--enable-log-requests"],
    "max_log_len": ["--max-log-len", "10"],
    "enable_prompt_tokens_details": ["--enable-prompt-tokens-details"],
    "enable_force_include_usage": ["--enable-force-include-usage"],
}
ENVIRONMENT = {
    "VLLM_API_KEY": "a-secret",
    "VLLM_LOGGING_LEVEL": "DEBUG",
    "VLLM_PORT": "29000",
    "VLLM_LOG_STATS_INTERVAL": "1",
}
