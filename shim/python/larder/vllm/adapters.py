"""LoRA adapters: what one adds to the namespace. By its files, since the engine's hash knows only its name and path.

Owned by the scheduler's thread. The files are read when an adapter is first seen; from then on it must stay what it was: where its
files change, or its number is given to another, nobody knows any more which weights vLLM holds, and its requests run without the
cache."""

import hashlib
import os
from dataclasses import dataclass

from larder.weights import files_identity

_WEIGHTS = (".safetensors", ".bin", ".pt")


class Unserved(Exception):
    """Requests of this adapter run without the cache; the text says why."""


@dataclass(frozen=True)
class _Known:
    name: str
    path: str
    files: tuple  # (path, size, time of change) of each
    line: str


class Adapters:
    def __init__(self, lora_config):
        self._dtype = str(getattr(lora_config, "lora_dtype", None))
        self._known: dict[int, _Known] = {}

    def line(self, request):
        """The line of the fingerprint for a vLLM LoRARequest. Unserved: leave its requests alone."""
        if getattr(request, "load_inplace", False):
            raise Unserved("is loaded in place (load_inplace), again and again")
        known = self._known.get(request.lora_int_id)
        if known is None:
            known = self._known[request.lora_int_id] = self._read(request)
        if (known.name, known.path) != (request.lora_name, request.lora_path):
            raise Unserved(f"has the number {request.lora_int_id} of another adapter, {known.name}")
        if known.files != _files(request.lora_path):
            raise Unserved("has other files than when it was first used: load it under another name")
        return known.line

    def _read(self, request):
        files = _files(request.lora_path)
        weights = [path for path, *_ in files if path.endswith(_WEIGHTS)]
        if not weights:
            raise Unserved(f"has no local weights in {request.lora_path}")
        settings = hashlib.sha256()
        for path, *_ in files:
            if path not in weights:
                with open(path, "rb") as file:
                    settings.update(file.read())
        line = f"adapter: {files_identity(weights)} settings {settings.hexdigest()[:32]} dtype {self._dtype}\n"
        return _Known(request.lora_name, request.lora_path, files, line)


def _files(folder):
    try:
        with os.scandir(folder) as entries:
            found = sorted(e.path for e in entries if e.name.endswith(_WEIGHTS) or e.name == "adapter_config.json")
        return tuple((path, (stat := os.stat(path)).st_size, stat.st_mtime_ns, stat.st_ino) for path in found)
    except OSError as error:
        raise Unserved(f"cannot be read: {error}") from None
