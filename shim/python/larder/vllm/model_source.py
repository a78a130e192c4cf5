"""Where one vLLM engine reads its model from: a larder.weights.Source of its configuration."""

from dataclasses import replace

from larder import package_files
from larder.vllm.drafts import has_kv
from larder.weights import Source
from larder.weights_source import DEFAULT_FORMATS

# Fields of Ultravox's configuration that name repositories of their own (secondary_weights in
# vLLM's models/ultravox.py).
_TOWERS = ("audio_model_id", "text_model_id")


def weights_source(vllm_config):
    """The engine's model, with its draft model."""
    draft = draft_source(vllm_config)
    drafter = (replace(draft, others=()), *draft.others) if draft else ()
    return _source(vllm_config.model_config, vllm_config.load_config, drafter)


def draft_source(vllm_config):
    """The draft model. None: no drafter's KV, or the files are the model's own, as with MTP."""
    speculative = getattr(vllm_config, "speculative_config", None)
    if not has_kv(speculative):
        return None
    target = _source(vllm_config.model_config, vllm_config.load_config)
    draft = _source(
        speculative.draft_model_config, speculative.draft_load_config or vllm_config.load_config
    )
    own = (draft.model, draft.revision, draft.load_format) != (
        target.model,
        target.revision,
        target.load_format,
    )
    return draft if own else None


def _source(model, load, drafter=()):
    own_class, tokenizer = _is_of_vllm(model), reads_tokenizer(model)
    load_format = getattr(load.load_format, "value", load.load_format)
    return Source(
        model=getattr(model, "model_weights", None) or model.model,
        revision=_revision(model),
        load_format=load_format,
        loader_options=getattr(load, "model_loader_extra_config", None),
        download_dir=getattr(load, "download_dir", None),
        quantization=model.quantization,
        dummy=f"device {_device()}" if load_format == "dummy" else "",
        own_class=own_class,
        tokenizer=tokenizer,
        others=(
            *(_tokenizer(model) if tokenizer else ()),
            *_settings(model),
            *_code(model),
            *_towers(model, load_format, own_class),
            *drafter,
        ),
    )


def _revision(model):
    """The commit that the configuration came from: a branch may have moved since. The commit
    does not count where the configuration lies elsewhere."""
    elsewhere = getattr(model, "hf_config_path", None) not in (None, model.model)
    return (
        model.revision
        if elsewhere
        else getattr(model.hf_config, "_commit_hash", None) or model.revision
    )


def _settings(model):
    """Configuration that lies elsewhere than the model."""
    path = getattr(model, "hf_config_path", None)
    if path and path != model.model:
        yield Source(
            path, getattr(model, "_hf_config_revision", None) or model.revision, weights=False
        )
    overrides = model.hf_overrides if isinstance(model.hf_overrides, dict) else {}
    if overrides.get("quantization_config_file"):
        yield Source(overrides["quantization_config_file"], weights=False)
    # Scales of the encoder's attention: other scales make other embeddings, and so other KV.
    scales = getattr(getattr(model, "multimodal_config", None), "mm_encoder_fp8_scale_path", None)
    if scales:
        yield Source(scales, weights=False)


def reads_tokenizer(model):
    """Whether the model's own code may read the tokenizer: tokens alone do not decide KV then. A
    pruned video has embeddings of texts (the times of its frames), and DeepSeek V4.1's n-gram
    memory goes by the texts of tokens. vLLM's own models for text without the word in their code
    read no tokenizer."""
    if getattr(model, "multimodal_config", None) is not None or not _is_of_vllm(model):
        return True
    from vllm.model_executor.models import ModelRegistry

    module = ModelRegistry.models[model.architecture].module_name
    # A model below vllm.models has a folder of modules.
    whole = ".".join(module.split(".")[:3]) if module.startswith("vllm.models.") else module
    return package_files.mentions(whole, b"tokenizer")


def _tokenizer(model):
    """A tokenizer that lies elsewhere than the model."""
    path = getattr(model, "tokenizer", None)
    if path and path != model.model:
        revision = getattr(model, "tokenizer_revision", None) or model.revision
        yield Source(path, revision, weights=False, tokenizer=True)


def _code(model):
    """Repositories of remote code, which the model's configuration names as
    REPOSITORY--FILE.CLASS."""
    if not getattr(model, "trust_remote_code", False):
        return
    places = getattr(model.hf_config, "auto_map", None) or {}
    named = [
        place
        for value in places.values()
        for place in (value if isinstance(value, (list, tuple)) else [value])
    ]
    for repository in sorted(
        {place.split("--")[0] for place in named if isinstance(place, str) and "--" in place}
    ):
        yield Source(
            repository, getattr(model, "code_revision", None), weights=False, optional=True
        )


def _towers(model, load_format, own_class):
    for field in _TOWERS if load_format in DEFAULT_FORMATS else ():
        name = getattr(model.hf_config, field, None)
        if name:
            yield Source(name, load_format=load_format, own_class=own_class)


def _is_of_vllm(model):
    """Whether the model's class is vLLM's own. The load format then tells the weights."""
    try:
        from vllm.model_executor.models import ModelRegistry

        return ModelRegistry.models[model.architecture].module_name.startswith("vllm.")
    except (ImportError, AttributeError, KeyError):
        return False


def _device():
    """Random values differ from one kind of GPU to another: the generator deals out the values by
    the number of processors."""
    from vllm.platforms import current_platform

    return current_platform.get_device_name()
