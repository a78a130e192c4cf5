"""A long prompt out of text that is on this machine anyway."""

from __future__ import annotations

from demo.model import texts


def prompt_of(tokenizer_dir: str, tokens: int) -> str:
    """A text of about `tokens` tokens: the bash manual if installed, else other texts of this
    machine."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    text = "\n".join(texts(most_bytes=16 * tokens))[: 16 * tokens]
    encoded = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    return text[: encoded[min(tokens, len(encoded)) - 1][1]]
