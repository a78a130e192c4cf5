"""The files of a LoRA adapter, each with the attributes that change with the content. Reads no
content."""

import os
from collections import namedtuple
from os.path import abspath, exists, expanduser, isabs

from larder.weights_source import from_modelscope, hub_folder

File = namedtuple("File", "path device inode size mtime_ns ctime_ns")

# Files that vLLM does not read for an adapter, by name or ending.
_NOT_READ = (
    "readme", "license", ".md", ".txt", ".png", ".jpg", ".gitattributes", "training_args.bin",
    "optimizer.pt", "scheduler.pt", "trainer_state.json", "rng_state.pth", "tokenizer.json",
    "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "chat_template.jinja",
)  # fmt: skip
WEIGHTS = (".safetensors", ".bin", ".pt")


class FilesUnknown(Exception):
    """The folder cannot be read, or holds no adapter."""


def files_of(path):
    """(File, ...) in the order of their names. path: as a user gives the adapter to vLLM."""
    folder = _folder(path)
    try:
        with os.scandir(folder) as entries:
            paths = sorted(
                entry.path
                for entry in entries
                if not entry.name.lower().endswith(_NOT_READ) and entry.is_file()
            )
        found = tuple(_file(path) for path in paths)
    except OSError as error:
        raise FilesUnknown(f"the files cannot be read: {error}") from None
    if not any(file.path.endswith(WEIGHTS) for file in found):
        raise FilesUnknown(f"{folder} has no local weights")
    return found


def _folder(path):
    """The folder that vLLM loads (get_adapter_absolute_path in vLLM's lora/utils): a path, or the
    name of a repository of the hub. vLLM has downloaded the repository before a request can use the
    adapter, so the cache on disk answers without the network."""
    if isabs(path):
        return path
    if path.startswith("~"):
        return expanduser(path)
    if exists(path):
        return abspath(path)
    if from_modelscope():
        return path
    return hub_folder(path, None, None) or path


def _file(path):
    stat = os.stat(path)
    return File(path, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
