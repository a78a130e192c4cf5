"""A long prompt out of text that is on this machine anyway: the bash manual, else the GPL."""

from __future__ import annotations

import gzip
import pathlib

_SOURCES = ["/usr/share/man/man1/bash.1.gz", "/usr/share/doc/bash/CHANGES.gz", "/usr/share/common-licenses/GPL-3"]


def local_text() -> tuple[str, str]:
    """(where it is from, the text). Raises FileNotFoundError naming what was looked for."""
    for source in _SOURCES:
        path = pathlib.Path(source)
        if path.exists():
            raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            return source, raw.decode(errors="replace")
    raise FileNotFoundError(f"no long text here for the prompt: none of {', '.join(_SOURCES)}")


def prompt_of(tokenizer_dir: str, tokens: int, skip_chars: int = 0) -> tuple[str, str]:
    """(where it is from, a text of about `tokens` tokens that starts skip_chars into it)."""
    from transformers import AutoTokenizer

    source, text = local_text()
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    text = text[skip_chars:]
    while len(encoded := tokenizer(text, return_offsets_mapping=True)["offset_mapping"]) < tokens:
        text += "\n" + text
    return source, text[: encoded[tokens - 1][1]]
