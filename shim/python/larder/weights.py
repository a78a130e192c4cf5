"""Identity of a model's weights: which commit of a hub repository, or what stands in the local files.

Names identify nothing (every model that KServe serves is /mnt/models, and a fine-tune is often written over its base), so local
files are identified by name, size, header and bytes sampled from every tensor; time stamps and paths are left out, so that copies
agree."""

import glob
import hashlib
import json
import os
import struct
from concurrent.futures import ThreadPoolExecutor

_SPOTS = 8  # places read in each tensor: a fine-tune may leave most of a tensor as it was
_SPOT_BYTES = 64
_FILE_SPOTS = 4096  # places read in a file whose tensors are not known
_MAX_HEADER_BYTES = 100 << 20  # safetensors' own limit
_KINDS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


class UnknownWeights(Exception):
    """The weights cannot be identified; the text says what to set."""


def weights_identity(model, revision=None, load_format="auto", seed=None, named=None):
    """One line. `named` (extra config weights_id) is taken at its word."""
    if named:
        return f"named {named}"
    if load_format == "dummy":
        return f"dummy seed {seed}"
    files = _files(model)
    if files:
        return files_identity(files)
    commit = _hub_commit(model, revision)
    if commit:
        return f"hub {model}@{commit}"
    raise UnknownWeights(
        f"the weights of {model} are neither local files nor a cached hub commit; set weights_id in kv_connector_extra_config"
    )


def files_identity(paths):
    """Digest over all files; equal contents under equal names give equal lines wherever they lie."""
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(_file_digest, paths))
    total = hashlib.sha256(b"".join(parts)).hexdigest()[:32]
    return f"files {len(paths)} bytes {sum(os.path.getsize(p) for p in paths)} sampled {total}"


def _files(model):
    if os.path.isfile(model):
        return [model]
    for kind in _KINDS:
        found = sorted(glob.glob(os.path.join(glob.escape(model), kind)))
        if found:
            return found
    return []


def _hub_commit(model, revision):
    """The 40-digit commit of a hub model: given, or that of the local cache."""
    if revision and len(revision) == 40:
        return revision
    try:
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(model, "config.json", revision=revision)
    except Exception:  # no such package, or a name that is no repository
        return None
    if not isinstance(path, str):
        return None
    return os.path.basename(os.path.dirname(path))  # .../snapshots/COMMIT/config.json


def _file_digest(path):
    size = os.path.getsize(path)
    state = hashlib.sha256(f"{os.path.basename(path)} {size}\n".encode())
    descriptor = os.open(path, os.O_RDONLY)
    try:
        spans = _safetensors_spans(descriptor, size, state) if path.endswith(".safetensors") else None
        for begin, end, spots in spans or [(0, size, _FILE_SPOTS)]:
            _sample(descriptor, begin, end, spots, state)
    finally:
        os.close(descriptor)
    return state.digest()


def _safetensors_spans(descriptor, size, state):
    """Hashes the header and returns each tensor's (begin, end, spots); None where the file is not what its name says."""
    first = os.pread(descriptor, 8, 0)
    if len(first) < 8:
        return None
    (header_bytes,) = struct.unpack("<Q", first)
    if header_bytes > min(size - 8, _MAX_HEADER_BYTES):
        return None
    header = os.pread(descriptor, header_bytes, 8)
    state.update(header)
    start = 8 + header_bytes
    try:
        tensors = [v["data_offsets"] for k, v in json.loads(header).items() if k != "__metadata__"]
        return [(start + begin, start + end, _SPOTS) for begin, end in sorted(tensors)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _sample(descriptor, begin, end, spots, state):
    """Spots spread evenly, the first and the last bytes among them; a short span whole."""
    length = end - begin
    if length <= spots * _SPOT_BYTES:
        state.update(os.pread(descriptor, length, begin))
        return
    for spot in range(spots):
        at = begin + (length - _SPOT_BYTES) * spot // (spots - 1)
        state.update(os.pread(descriptor, _SPOT_BYTES, at))


class WeightsReader:
    """INTERIM"""

    @classmethod
    def of(cls, vllm_config, named, socket):
        self = cls()
        self._args = vllm_config, named
        self._result = None
        return self

    def start(self):
        import threading

        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        vllm_config, named = self._args
        model, load = vllm_config.model_config, vllm_config.load_config
        try:
            self._result = weights_identity(
                getattr(model, "model_weights", None) or model.model,
                model.revision,
                getattr(load.load_format, "value", load.load_format),
                model.seed,
                named,
            )
        except (UnknownWeights, OSError) as error:
            self._result = UnknownWeights(str(error))

    def poll(self):
        if isinstance(self._result, UnknownWeights):
            raise self._result
        return self._result

    def stop(self):
        pass
