"""Source: the place where an engine reads one model, and the files there that decide the weights.

Known are the load formats of vLLM 0.32 (model_executor/model_loader) that read files of this
machine. UnknownWeights, with the remedy `weights_id`, for all others."""

import glob
import os
import re
from dataclasses import dataclass

from larder.folders import TooManyFiles
from larder.model_files import files_below, is_weights

DEFAULT_FORMATS = (
    "auto",
    "hf",
    "safetensors",
    "fastsafetensors",
    "instanttensor",
    "mistral",
    "pt",
    "npcache",
)
# These read the same files of a folder, for the files that each format reads.
_USUAL_FORMATS = ("auto", "hf", "safetensors", "fastsafetensors", "instanttensor")
# Read files of the model's folder by rules of their own: all weights in the folder count. The last
# two are of older vLLMs and of plug-ins.
_WHOLE_FOLDER = (
    "sharded_state",
    "runai_streamer",
    "runai_streamer_sharded",
    "bitsandbytes",
    "gguf",
)
_ELSEWHERE = {
    "ipc_cache": "are those of a weight cache daemon, which may have read them at any time",
    "modelexpress": "come from another process (load format modelexpress)",
}


class UnknownWeights(Exception):
    """The weights cannot be identified; the text gives the reason (`why`) and the remedy."""

    def __init__(self, why):
        self.why = why
        super().__init__(f"{why}; set weights_id in kv_connector_extra_config")


@dataclass(frozen=True)
class Source:
    model: str  # a folder, a file, or a name in the hub's cache
    revision: str | None = None  # of a name: a commit, a branch or a tag
    load_format: str = "auto"
    loader_options: object = None  # model_loader_extra_config
    download_dir: str | None = None  # the hub's cache for weights, if not the usual one
    quantization: str | None = None
    dummy: str = ""  # seed and device, which decide the values of load format dummy
    own_class: bool = False  # the model's class is vLLM's own: other formats' weights are left out
    weights: bool = True  # False: only configuration and code count
    tokenizer: bool = False  # the model itself reads the tokenizer, whose files count then
    optional: bool = False  # the engine uses this only if this machine has the file
    others: tuple = ()  # more Sources that this model reads


def files_of(source):
    """[(name, path)] in the order of names, which do not tell where the model lies. OSError,
    UnknownWeights."""
    files = dict(_own_files(source))
    for number, other in enumerate(source.others):
        # The number keeps equal names of two models apart.
        files.update((f"{number}:{name}", path) for name, path in _own_files(other).items())
    return sorted(files.items())


def reads_as_usual(source):
    """Whether the files alone tell which files are read. Else the load format decides too: a folder
    may have weights in several formats, and for some models all count."""
    if source.load_format not in _USUAL_FORMATS:
        return False
    beside = source.load_format != "auto" or source.own_class
    return beside or not any(
        os.path.basename(name).startswith("consolidated") for name in _own_files(source)
    )


def _own_files(source):
    weights = source.weights and source.load_format not in ("dummy", "tensorizer")
    _check_format(source)
    files = {}
    for number, place in enumerate(_places(source)):
        found = _files_at(place, source, weights)
        files.update(
            found if number == 0 else {f"cache/{name}": path for name, path in found.items()}
        )
    if source.load_format == "tensorizer" and source.weights:
        files.update(_tensorizer_files(source))
    # Configuration and code alone do not tell two fine-tuned models apart.
    if weights and not any(is_weights(name) for name in files):
        raise UnknownWeights(f"{source.model} has no weights on this machine")
    return files


def _check_format(source):
    name = source.load_format
    if name in _ELSEWHERE:
        raise UnknownWeights(f"the weights of {source.model} {_ELSEWHERE[name]}")
    if name == "dummy" and source.quantization:
        raise UnknownWeights(
            f"dummy weights of a quantised model ({source.quantization}) are partly memory that "
            "was never written"
        )
    if name not in (*DEFAULT_FORMATS, *_WHOLE_FOLDER, "dummy", "tensorizer"):
        raise UnknownWeights(
            f"the weights of {source.model} are read by a loader that Larder does not know (load "
            f"format {name})"
        )
    pattern = _option(source, "pattern")
    # Files outside of the folder would decide the weights without being counted.
    if pattern and (os.path.isabs(pattern) or ".." in pattern.split("/")):
        raise UnknownWeights(
            f"the pattern {pattern} of load format {name} leads out of the model's folder"
        )


def _option(source, name):
    """An option of the loader, or None."""
    try:
        return source.loader_options[name]
    except (KeyError, TypeError):
        return None


def _places(source):
    """Folders, or one file. UnknownWeights if this machine has no such path."""
    if "://" in source.model:
        raise UnknownWeights(f"the weights of {source.model} are in an object store")
    if os.path.exists(source.model):
        return [source.model]
    if from_modelscope():
        raise UnknownWeights(
            f"the weights of {source.model} come from ModelScope, whose cache Larder does not read"
        )
    # A dict keeps the order and drops a repetition: the given cache comes first, then the usual
    # one.
    caches = dict.fromkeys((source.download_dir, None))
    places = [
        place for cache in caches if (place := hub_folder(source.model, source.revision, cache))
    ]
    if not places and not source.optional:
        raise UnknownWeights(
            f"the weights of {source.model} are neither local files nor a cached hub commit"
        )
    return places


def from_modelscope():
    """Whether vLLM takes names of repositories from ModelScope. Larder does not read its cache."""
    return os.environ.get("VLLM_USE_MODELSCOPE", "").lower() in ("1", "true")


def hub_folder(model, revision, cache):
    """The folder of one commit in the hub's cache, or None. Uses no network."""
    try:
        from huggingface_hub import snapshot_download

        return snapshot_download(
            model,
            revision=getattr(revision, "resolved", revision),
            cache_dir=cache,
            local_files_only=True,
        )
    # huggingface_hub raises many classes, which differ between versions. Each means "not here".
    except Exception:  # no such package, no name of a repository, or an empty cache
        return None


def _files_at(place, source, weights):
    if os.path.isfile(place):
        return {os.path.basename(path): path for path in [place, *_beside(place)]}
    chosen = (
        source.load_format if source.own_class and source.load_format in DEFAULT_FORMATS else None
    )
    try:
        return files_below(place, chosen, weights, source.tokenizer)
    except TooManyFiles as error:
        raise UnknownWeights(str(error)) from None


def _beside(path):
    """The files that a loader reads beside a GGUF file: the other parts of a split one, and the
    tower of a multi-modal one."""
    folder, name = os.path.split(path)
    split = re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.gguf", name)
    parts = (
        glob.glob(f"{glob.escape(os.path.join(folder, split[1]))}-*-of-{split[2]}.gguf")
        if split
        else []
    )
    return parts + glob.glob(os.path.join(glob.escape(folder), "*mmproj*.gguf"))


def _tensorizer_files(source):
    """The files of tensorizer_uri: one a rank if the URI has a place for the rank's number."""
    options = _option(source, "tensorizer_config") or source.loader_options or {}
    uri = options.get("tensorizer_uri") or os.path.join(
        options.get("tensorizer_dir") or "", "model.tensors"
    )
    if "://" in uri:
        raise UnknownWeights(f"the weights of {source.model} are at {uri}, in an object store")
    # For example model-rank-%03d.tensors becomes model-rank-[0-9]*.tensors.
    pattern = re.sub(r"%0?\d*d", "[0-9]*", glob.escape(uri))
    found = glob.glob(pattern)
    if not found:
        raise UnknownWeights(f"the weights of {source.model} are not there: {uri}")
    return {f"tensorizer/{os.path.basename(path)}": path for path in found}
