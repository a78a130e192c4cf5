"""Tiny models of many architectures with real random weights, and LoRA adapters for the models.
Made if missing."""

import json
from pathlib import Path

import nas_model

COMMON = dict(
    vocab_size=1024,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=8,
    max_position_embeddings=8192,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
    tie_word_embeddings=False,
    initializer_range=0.08,  # so that the tokens depend on the KV
)
_MLA = dict(
    model_type="deepseek_v2",
    num_key_value_heads=8,
    q_lora_rank=None,
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    qk_nope_head_dim=128,
    v_head_dim=128,
    n_routed_experts=4,
    num_experts_per_tok=2,
    n_shared_experts=1,
    moe_intermediate_size=128,
    first_k_dense_replace=4,
    topk_method="greedy",
    n_group=1,
    topk_group=1,
    head_dim=64,
    # Like DeepSeek's own models. Without scaling, vLLM 0.32's rotary embedding for CPUs takes the
    # wrong strides here. A prefill of several tokens computes other KV than decode, and no answer
    # equals its own continuation, with Larder or without.
    rope_parameters=dict(
        rope_type="yarn",
        rope_theta=10000.0,
        factor=4.0,
        original_max_position_embeddings=2048,
        mscale=0.707,
        mscale_all_dim=0.707,
        beta_fast=32,
        beta_slow=1,
    ),
)
SHAPES = {
    "llama": dict(model_type="llama", num_key_value_heads=4, head_dim=32),
    "llama_small": dict(
        model_type="llama", num_key_value_heads=4, head_dim=32, num_hidden_layers=2
    ),
    "llama_narrow": dict(
        model_type="llama", num_key_value_heads=2, head_dim=32, num_hidden_layers=2
    ),
    "llama_one_head": dict(model_type="llama", num_key_value_heads=1, head_dim=32),
    "qwen2": dict(model_type="qwen2", num_key_value_heads=2),
    "qwen3": dict(model_type="qwen3", num_key_value_heads=2, head_dim=64),
    "mixtral": dict(
        model_type="mixtral",
        num_key_value_heads=4,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=None,
    ),
    "mistral_window": dict(
        model_type="mistral", num_key_value_heads=4, head_dim=32, sliding_window=256
    ),
    "window_33": dict(model_type="mistral", num_key_value_heads=4, head_dim=32, sliding_window=33),
    "gemma3": dict(
        model_type="gemma3_text",
        num_key_value_heads=4,
        head_dim=32,
        num_hidden_layers=6,
        sliding_window=256,
        query_pre_attn_scalar=32,
        layer_types=["sliding_attention"] * 5 + ["full_attention"],
    ),
    "gemma4": dict(
        model_type="gemma4_text",
        num_key_value_heads=2,
        head_dim=32,
        global_head_dim=64,
        sliding_window=256,
        layer_types=["sliding_attention"] * 3 + ["full_attention"],
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=1024,
    ),
    "gpt_oss": dict(
        model_type="gpt_oss",
        num_key_value_heads=4,
        head_dim=32,
        sliding_window=128,
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=256,
        layer_types=["sliding_attention", "full_attention"] * 2,
    ),
    "llama4": dict(
        model_type="llama4_text",
        num_key_value_heads=4,
        head_dim=32,
        intermediate_size_mlp=512,
        num_local_experts=4,
        num_experts_per_tok=1,
        attention_chunk_size=256,
        interleave_moe_layer_step=2,
        no_rope_layers=[1, 1, 1, 0],
        attn_temperature_tuning=False,
        use_qk_norm=False,
    ),
    "mla": _MLA,
    "glm4_moe": dict(
        model_type="glm4_moe",
        num_hidden_layers=5,  # heads.make_mtp makes a module of the last one
        num_key_value_heads=4,
        head_dim=32,
        attention_bias=True,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_shared_experts=1,
        moe_intermediate_size=128,
        first_k_dense_replace=3,
        partial_rotary_factor=1.0,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0),
    ),
    "prefix_lm": dict(
        model_type="hrm_text", num_hidden_layers=1, head_dim=32, H_cycles=1, L_cycles=1
    ),
    "lfm2": dict(
        model_type="lfm2",
        num_key_value_heads=2,
        layer_types=["conv", "full_attention"] * 2,
        conv_L_cache=3,
        conv_dim=256,
        conv_dim_out=256,
        block_dim=256,
        block_ff_dim=512,
        block_multiple_of=64,
        block_ffn_dim_multiplier=1.0,
        conv_bias=False,
        block_auto_adjust_ff_dim=False,
    ),
    "granite4": dict(
        model_type="granitemoehybrid",
        num_key_value_heads=2,
        layer_types=["mamba", "attention"] * 2,
        shared_intermediate_size=256,
        num_local_experts=0,
        num_experts_per_tok=0,
        mamba_n_heads=8,
        mamba_d_head=64,
        mamba_d_state=64,
        mamba_n_groups=1,
        mamba_expand=2,
        mamba_d_conv=4,
        mamba_chunk_size=128,
        position_embedding_type="nope",
    ),
    "qwen3_next": dict(
        model_type="qwen3_next",
        num_key_value_heads=2,
        head_dim=64,
        layer_types=["linear_attention", "full_attention"] * 2,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=128,
        shared_expert_intermediate_size=128,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=64,
        linear_value_head_dim=64,
    ),
}


SHAPES["gemma4_per_layer"] = {
    **SHAPES["gemma4"],
    "hidden_size_per_layer_input": 32,  # an embedding of each token for each layer
}


def make_model(folder, shape, seed=0):
    """Path of a model of SHAPES[shape] in `folder`, with weights of this seed."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    path = Path(folder) / f"{shape}-{seed}"
    if shape == "nemotron_nas" and not path.exists():
        return nas_model.make(path, seed, COMMON)
    if not path.exists():
        fields = {**COMMON, **SHAPES[shape]}
        config = AutoConfig.for_model(fields.pop("model_type"), **fields)
        torch.manual_seed(seed)
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(path)
    return path


def make_adapter(path, seed, layers=4, hidden=256, kv=128, rank=8):
    """A LoRA adapter for the llama shape in PEFT's form; replaces an adapter at the same path."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(layers):
        for name, out in (("q_proj", hidden), ("v_proj", kv)):
            key = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{key}.lora_A.weight"] = torch.randn(rank, hidden, generator=generator) * 0.2
            tensors[f"{key}.lora_B.weight"] = torch.randn(out, rank, generator=generator) * 0.2
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": 2 * rank,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
    }
    (path / "adapter_config.json").write_text(json.dumps(config))
    return path


def make_image_model(folder):
    """A small BLIP-2, whose image becomes 16 tokens before the prompt, with the processor that vLLM
    needs. (Most other kinds need torchvision, which a vLLM for CPUs lacks.)"""
    import torch
    from tokenizers import AddedToken, Tokenizer, models
    from transformers import (
        Blip2Config,
        Blip2ForConditionalGeneration,
        Blip2Processor,
        Blip2QFormerConfig,
        Blip2VisionConfig,
        BlipImageProcessor,
        OPTConfig,
        PreTrainedTokenizerFast,
    )

    path = Path(folder) / "image"
    words = {
        word: i
        for i, word in enumerate(
            ["<pad>", "<s>", "</s>", "<image>", *(f"w{i}" for i in range(4, 1024))]
        )
    }
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.add_special_tokens([AddedToken("<image>", special=True)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    small = dict(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        initializer_range=0.08,
    )
    config = Blip2Config(
        vision_config=Blip2VisionConfig(**small, image_size=56, patch_size=14).to_dict(),
        qformer_config=Blip2QFormerConfig(
            **small, vocab_size=1024, encoder_hidden_size=64
        ).to_dict(),
        text_config=OPTConfig(
            vocab_size=1024,
            hidden_size=256,
            ffn_dim=512,
            num_hidden_layers=4,
            num_attention_heads=8,
            word_embed_proj_dim=256,
            max_position_embeddings=2048,
            init_std=0.08,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        ).to_dict(),
        num_query_tokens=16,
        image_token_index=3,
    )
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        Blip2ForConditionalGeneration(config).save_pretrained(path)
    finally:
        torch.set_default_dtype(default)
    images = BlipImageProcessor(size={"height": 56, "width": 56})
    Blip2Processor(image_processor=images, tokenizer=fast, num_query_tokens=16).save_pretrained(
        path
    )
    return path
