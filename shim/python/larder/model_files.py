"""Which files of a model decide the bytes of KV, after vLLM 0.32's model_executor/model_loader.

The rule is a closed world: every regular file in and below the model's folder counts, except for
the kinds listed here with a reason. A kind of file that a later vLLM reads is in the identity
before this module knows the kind."""

import json
import os
from fnmatch import fnmatchcase

from larder import folders

MOST_FILES = 50_000

# Patterns of names of files that do not count, by the reason.
HARMLESS = {
    "hidden: no loader's pattern matches it": ".*",
    "text for people": "*.md README LICENSE LICENSE.txt NOTICE NOTICE.txt *.pdf *.ipynb",
    "examples for people": "*.png *.jpg *.jpeg *.gif *.svg *.webp *.mp3 *.mp4 *.wav *.flac",
    "tokenizer: a chunk is named by its tokens (but see files_below)": "tokenizer.json "
    "tokenizer_config.json "
    "tokenizer.model tokenizer.model.v* vocab.json vocab.txt merges.txt *.tiktoken "
    "sentencepiece.bpe.model spiece.model special_tokens_map.json added_tokens.json",
    "chat template: a chunk is named by its tokens": "*.jinja chat_template.json",
    "sampling: the next token, not its KV": "generation_config.json",
    "left out by vLLM's filter_files_not_needed_for_inference": "optimizer.bin optimizer.pt "
    "scheduler.pt scaler.pt training_args.bin",
    "a trace of the training": "trainer_state.json rng_state*.pth events.out.tfevents.* *.log",
}
_HARMLESS = tuple(" ".join(HARMLESS.values()).split())
_TOKENIZER = tuple(
    next(names for why, names in HARMLESS.items() if why.startswith("tokenizer:")).split()
)
# No loader and no model of vLLM opens these: weights for other run times.
_FOREIGN = tuple("*.h5 *.msgpack *.tflite *.onnx *.onnx_data *.ot *.mlmodel *.gguf".split())
_HIDDEN_FOLDERS = (".*", "__pycache__")
# Folders that no model of vLLM's own reads: formats of Meta, Apple and other run times,
# and earlier states of a training.
_UNREAD_FOLDERS = tuple("original metal onnx openvino coreml checkpoint-* global_step*".split())
# Names that transformers, Mistral and Meta give to the weights of a whole model: read in the chosen
# format, left alone in others.
_WHOLE_MODEL = tuple(
    "model*.safetensors pytorch_model*.bin consolidated*.safetensors consolidated*.pth "
    "consolidated*.pt".split()
)
_WEIGHTS = tuple("*.safetensors *.bin *.pt *.pth *.ckpt *.gguf *.npz *.tensors".split())

_PATTERNS = {  # DefaultModelLoader._prepare_weights; *.pt is its fallback
    "hf": ("*.safetensors", "*.bin", "*.pt"),
    "safetensors": ("*.safetensors",),
    "fastsafetensors": ("*.safetensors",),
    "instanttensor": ("*.safetensors",),
    "mistral": ("consolidated*.safetensors",),
    "pt": ("*.pt",),
}
_INDEX = {"mistral": "consolidated.safetensors.index.json"}


def files_below(folder, load_format=None, weights=True, tokenizer=False):
    """{name below the folder: path} of the files that count. `load_format`: of DefaultModelLoader,
    for a model with a class of vLLM's own, so that weights in other formats are left out; None
    counts all files. weights=False: all files except weights. tokenizer: the model itself reads the
    tokenizer, so the tokenizer's files count. OSError, folders.TooManyFiles."""

    def enters(name):
        return not _matches(name, _HIDDEN_FOLDERS) and not (
            load_format and _matches(name, _UNREAD_FOLDERS)
        )

    def counts(name):
        if is_harmless(name) and not (tokenizer and _matches(name, _TOKENIZER)):
            return False
        return not (load_format and _matches(name, _FOREIGN))

    found = folders.files_below(folder, enters, counts, MOST_FILES)
    if load_format:
        read = _read_weights(folder, list(found), load_format)
        found = {
            name: path
            for name, path in found.items()
            if not read or name in read or not _matches(name, _WHOLE_MODEL)
        }
    return (
        found if weights else {name: path for name, path in found.items() if not is_weights(name)}
    )


def is_harmless(name):
    """`name`: of a file, without its folder."""
    return _matches(name, _HARMLESS)


def is_weights(name):
    return _matches(os.path.basename(name), _WEIGHTS)


def _matches(name, patterns):
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _read_weights(folder, names, load_format):
    """Names of the weights that DefaultModelLoader reads from the folder itself. Empty: not known,
    so that all count."""
    here = [name for name in names if "/" not in name]
    if load_format == "auto":
        load_format = (
            "mistral"
            if any(_matches(name, ("consolidated*.safetensors",)) for name in here)
            else "hf"
        )
    for pattern in _PATTERNS.get(load_format, ()):
        chosen = {name for name in here if fnmatchcase(name, pattern)}
        if chosen and pattern.endswith(".safetensors"):
            return _in_index(
                folder, chosen, _INDEX.get(load_format, "model.safetensors.index.json")
            )
        if chosen:
            return chosen
    return set()


def _in_index(folder, chosen, index):
    """vLLM reads the files that an index names (filter_duplicate_safetensors_files)."""
    try:
        with open(os.path.join(folder, index), encoding="utf-8") as file:
            named = set(json.load(file)["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return chosen
    return chosen & named
