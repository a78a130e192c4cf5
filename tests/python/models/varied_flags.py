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
