"""Stand-ins for the configuration of vLLM that setup_of() reads."""

from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402


class FullAttentionSpec(Fake):
    pass


class CrossAttentionSpec(Fake):
    pass


class SlidingWindowSpec(Fake):
    sliding_window = 64


def spec(kind=FullAttentionSpec, block_size=128):
    return kind(
        block_size=block_size,
        num_kv_heads=4,
        head_size=32,
        head_size_v=32,
        dtype=torch.bfloat16,
        page_size_bytes=block_size * 512,
    )


def caches(*specs):
    groups = [Fake(layer_names=[f"layer.{i}"], kv_cache_spec=s) for i, s in enumerate(specs)]
    return Fake(kv_cache_groups=groups, kv_cache_layout="LBHNC", hash_block_size=None)


def config(extra=None, **sizes):
    hf = Fake(
        num_hidden_layers=4,
        to_dict=lambda: {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 256,
        },
    )
    parallel = dict(
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        prefill_context_parallel_size=1,
        decode_context_parallel_size=1,
    )
    return Fake(
        kv_transfer_config=Fake(
            kv_connector_extra_config=extra or {}, is_kv_producer=True, is_kv_consumer=True
        ),
        parallel_config=Fake(**{**parallel, **sizes}),
        speculative_config=None,
        load_config=Fake(load_format="auto"),
        cache_config=Fake(
            cache_dtype="auto", prefix_caching_hash_algo="sha256", enable_prefix_caching=True
        ),
        model_config=Fake(
            model="/nowhere/model",
            served_model_name=None,
            hf_config=hf,
            hf_text_config=hf,
            hf_overrides={},
            max_model_len=4096,
            revision=None,
            seed=0,
            dtype=torch.bfloat16,
            quantization=None,
            is_prefix_caching_supported=True,
            runner_type="generate",
            attn_type="decoder",
        ),
    )


def named(**extra):
    return {"weights_id": "w", **extra}
