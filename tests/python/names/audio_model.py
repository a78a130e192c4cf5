"""A tiny Qwen2-Audio with random weights, and its processor."""

from pathlib import Path

import shapes

AUDIO_TOKEN = 3
SPECIAL = ["<pad>", "<s>", "</s>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"]
_TEXT = {**shapes.COMMON, "num_key_value_heads": 4}


def make_audio_model(folder):
    import torch
    from safetensors.torch import save_file
    from transformers import (
        Qwen2AudioConfig,
        Qwen2AudioEncoderConfig,
        Qwen2AudioForConditionalGeneration,
        Qwen2AudioProcessor,
        Qwen2Config,
        WhisperFeatureExtractor,
    )

    tower = Qwen2AudioEncoderConfig(
        num_mel_bins=16,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        d_model=64,
        init_std=0.3,
    )
    config = Qwen2AudioConfig(
        audio_config=tower.to_dict(),
        text_config=Qwen2Config(**_TEXT).to_dict(),
        audio_token_index=AUDIO_TOKEN,
    )
    path = Path(folder) / "audio"
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        model = Qwen2AudioForConditionalGeneration(config)
    finally:
        torch.set_default_dtype(default)
    # greater than the embeddings of text, so that the answer depends on the sound
    torch.nn.init.normal_(model.model.multi_modal_projector.linear.weight, std=0.5)
    config.architectures = [type(model).__name__]
    config.save_pretrained(path)
    weights = {_name_of_vllm(name): tensor for name, tensor in model.state_dict().items()}
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    Qwen2AudioProcessor(WhisperFeatureExtractor(feature_size=16), _tokenizer()).save_pretrained(
        path
    )
    return path


def _name_of_vllm(name):
    """transformers puts the parts into one module `model`, whose names vLLM 0.32 does not load."""
    if name.startswith("lm_head."):
        return f"language_model.{name}"
    name = name.removeprefix("model.")
    return name.replace("language_model.", "language_model.model.", 1)


def _tokenizer():
    from tokenizers import AddedToken, Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = [*SPECIAL, *(f"w{i}" for i in range(len(SPECIAL), 1024))]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
    made.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
