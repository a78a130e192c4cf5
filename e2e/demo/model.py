"""A model made on the spot: Llama architecture, real random weights from a fixed seed, a tokenizer
trained on text of this machine.

Real weights, since with vLLM's load_format=dummy a changed KV cache does not change the tokens and
every comparison is void. python e2e/demo/model.py OUT_DIR makes the demo's: 12 layers, 12 KiB of KV
a token."""

import glob
import gzip
import json
import os
import sys
import tempfile

SPECIAL = ("<unk>", "<s>", "</s>")


def demo_model(progress=print):
    """Path of the demo's model, made in the cache folder ($LARDER_CACHE, ~/.cache/larder) if
    missing."""
    cache = os.environ.get("LARDER_CACHE") or os.path.expanduser("~/.cache/larder")
    out_dir = os.path.join(cache, "demo-model-1")
    if not os.path.exists(out_dir):
        progress(
            "making a small model: tokenizer trained on the manual pages, "
            "random weights (about 15 s, 390 MB)"
        )
    return make_model(out_dir)


def make_model(
    out_dir,
    layers=12,
    hidden=1024,
    intermediate=2816,
    heads=16,
    kv_heads=4,
    head_dim=64,
    vocab=32000,
    seed=0,
):
    """Writes config, weights (bfloat16 safetensors) and tokenizer, unless out_dir exists. Returns
    out_dir."""
    if os.path.exists(out_dir):
        return out_dir
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    os.makedirs(os.path.dirname(os.path.abspath(out_dir)), exist_ok=True)
    unfinished = tempfile.mkdtemp(prefix=out_dir + ".")
    vocab = make_tokenizer(unfinished, vocab)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=32768,
        rms_norm_eps=1e-5,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,
        initializer_range=0.08,
    )
    torch.manual_seed(seed)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        LlamaForCausalLM(config).save_pretrained(unfinished)
    finally:
        torch.set_default_dtype(default)
    os.rename(unfinished, out_dir)
    return out_dir


def make_tokenizer(out_dir, vocab):
    """A byte-level BPE tokenizer trained on texts(); returns the size of the vocabulary (rounded up
    to 64)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.save(os.path.join(out_dir, "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": SPECIAL[0],
        "bos_token": SPECIAL[1],
        "eos_token": SPECIAL[2],
        "model_max_length": 32768,
    }
    with open(os.path.join(out_dir, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump(settings, file)
    return -(-tokenizer.get_vocab_size() // 64) * 64


def texts(most_bytes=12 << 20):
    """Texts of every Debian or Python: manual pages, copyright notices, the standard library. The
    bash manual first."""
    names = glob.glob("/usr/share/man/man1/bash.1.gz")
    names += sorted(glob.glob("/usr/share/man/man1/*.gz"))[:300]
    names += (
        sorted(glob.glob("/usr/share/common-licenses/*"))
        + sorted(glob.glob("/usr/share/doc/*/copyright"))[:300]
    )
    names += sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))
    total = 0
    for name in dict.fromkeys(names):
        if total >= most_bytes:
            return
        text = _read(name)
        total += len(text)
        yield text


def _read(name):
    try:
        with (
            gzip.open(name, "rt", errors="replace")
            if name.endswith(".gz")
            else open(name, errors="replace") as file
        ):
            return file.read()
    except OSError:
        return ""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("model.py OUT_DIR")
    print(make_model(sys.argv[1]))
