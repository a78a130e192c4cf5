"""Engines that differ in commonly varied settings share, with hits. The flags one by one:
tests/python/unit/test_sharing.py."""

from engine_life import alone, ask, live
from engines import prompt

TEXT = prompt("sharing", 600)
VARIED = {
    "max_model_len": 1024,
    "max_num_seqs": 7,
    "max_num_batched_tokens": 256,
    "gpu_memory_utilization": 0.5,
    "served_model_name": ["one", "two"],
    "seed": 5,
    "scheduling_policy": "priority",
    "async_scheduling": False,
    "max_logprobs": 5,
    "stream_interval": 4,
    "kv_cache_metrics": True,
    "load_format": "safetensors",
    "master_port": 29999,
}
UNCHUNKED = {"enable_chunked_prefill": False, "max_num_batched_tokens": 2048}


def test_engines_that_operators_start_differently_share(world, models):
    (stored,) = live(world, models("llama"), ask(TEXT))
    for options in (VARIED, UNCHUNKED):
        hit, without = live(world, models("llama"), ask(TEXT), alone(TEXT), **options)
        assert hit["hit"] == 512
        assert hit["tokens"] == without["tokens"] == stored["tokens"]
