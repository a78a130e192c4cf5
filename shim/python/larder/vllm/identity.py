"""The namespace fingerprint of one vLLM engine: facts that scheduler and workers each find, and the
scheduler's configuration."""

import os
import re
from importlib import metadata

from larder import fingerprint, package_files
from larder.vllm import engine_config, engine_variables
from larder.vllm.drafts import has_kv
from larder.vllm.groups import Unsupported, parallel_sizes

# Two prompts with one hash would share KV. A client could search for such prompts.
_WEAK_HASHES = ("xxhash", "xxhash_cbor")
# Fields of vLLM's KVCacheSpec classes. Absent ones are left out, so one list serves all versions.
_SHOWN = (
    "block_size",
    "num_kv_heads",
    "head_size",
    "head_size_v",
    "dtype",
    "kv_quant_mode",
    "cache_dtype_str",
    "sliding_window",
    "attention_chunk_size",
    "mamba_type",
    "shapes",
    "dtypes",
    "page_size_bytes",
)
# Kinds of rope with values that do not depend on the engine's --max-model-len (get_rope in vLLM's
# rotary_embedding): the length cuts the table of these kinds and changes no row of the table.
# "dynamic" and "longrope" take the length into their frequencies. A kind that is not listed here,
# also one of a newer vLLM, separates engines by their lengths.
_FIXED_ROPE = {
    None,
    "default",
    "mrope",
    "bailing_mrope",
    "proportional",
    "linear",
    "llama3",
    "ntk",
    "yarn",
    "deepseek_yarn",
    "deepseek_llama_scaling",
}


def facts_of(
    vllm_config, kv_cache_config, options, groups, shards, chunk_tokens, hash_block, drafts=None
):
    """The first part of the text: the shape of the KV and of its keys. Equal in the scheduler and
    in every worker. The lines of the attention follow (attention_kernels.Attention)."""
    from vllm.version import __version__

    model, cache = vllm_config.model_config, vllm_config.cache_config
    return fingerprint.facts_text(
        {
            "engine": "vllm",
            "engine_version": __version__,
            "layout": fingerprint.LAYOUT,
            "dtype": str(model.dtype),
            "kv_cache_dtype": str(cache.cache_dtype),
            "kv_cache_layout": str(getattr(kv_cache_config, "kv_cache_layout", None)),
            "parallel": {
                **parallel_sizes(vllm_config.parallel_config),
                "kv_replicas": shards.replicas,
            },
            "block_size": _one(group.block_size for group in groups),
            "hash_block_size": hash_block,
            "chunk_tokens": chunk_tokens,
            "hash_algorithm": cache.prefix_caching_hash_algo,
            # Another start of the hash chain gives other hashes for the same tokens.
            "none_hash": _none_hash(cache, options),
            "layers": _layer_lines(model, groups, shards),
            **(
                {"drafts": {"method": drafts.method, "lookahead": drafts.lookahead}}
                if drafts
                else {}
            ),
        }
    )


def text_of(facts, vllm_config):
    """The facts and the whole configuration, without the line of the weights (naming)."""
    return fingerprint.text(facts, *configuration_of(vllm_config))


def configuration_of(vllm_config):
    """({path: value} of all fields that may decide KV, the paths with a line for people)."""
    fields, variables = (
        engine_config.fields_of(vllm_config, engine_config.harmless_of(vllm_config)),
        engine_variables.variables(),
    )
    own = {**_own(vllm_config.model_config), **_runner(vllm_config)}
    executor = getattr(vllm_config.parallel_config, "distributed_executor_backend", None)
    modules = _modules(fields) | _modules({"executor": executor, **own})
    if loaded := plugins():
        own["plugins"] = [line for line, _ in loaded]
        modules |= {module: "plugins" for _, module in loaded}
    speculative = getattr(vllm_config, "speculative_config", None)
    # A draft model with KV of its own stores pages too, so the draft's configuration counts.
    if has_kv(speculative):
        own.update(
            {f"draft_{name}": value for name, value in _own(speculative.draft_model_config).items()}
        )
    own.update(_code(modules))
    by_hand = tuple(engine_config.set_by_hand(vllm_config))
    shown = {path for path in fields if path.startswith(by_hand)} | set(own)
    # For the log only. The hash of the namespace covers all fields, shown or not.
    shown |= engine_variables.variables_set()
    fields = _joined(fields, own, variables)
    return fields, {
        path for path in shown if not engine_config.may_be_secret(path, fields.get(path))
    }


def _joined(*parts):
    """One dictionary. A newer vLLM may have a field with a name of ours: both count."""
    joined = {}
    for part in parts:
        for name, value in part.items():
            joined[f"<also>.{name}" if name in joined else name] = value
    return joined


# A class or a function, as vLLM's flags name code: package.module.Class, package.module:function.
_NAMED_CODE = re.compile(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)+")
_BY_VERSION = ("larder", "torch", "transformers", "vllm")  # vllm has its line in any case
# Parts of the configuration with dots in names of layers and files, not of code.
_NAMES_NO_CODE = re.compile(r"\b(hf_config|hf_overrides|quantization_config|<class>)")


# Fields that name code and nothing else.
_NAMES_CODE = re.compile(r"_cls$")


def _modules(fields):
    """{name of code: path} in {path: value}. Each field with such a value counts, also one of a
    newer vLLM."""
    found = {}
    for path, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, type):
                one = f"{one.__module__}.{one.__qualname__}"
            name = one.split(" of ")[0] if isinstance(one, str) else ""  # of model_class
            if _NAMED_CODE.fullmatch(name) and not _NAMES_NO_CODE.search(path):
                found[name] = path
    return found


def _code(modules):
    """{line: digest} of the packages with the code, and of vLLM itself: two builds may have one
    version. modules: of _modules()."""
    found = {}
    named = {module.replace(":", "."): path for module, path in modules.items()}
    others = {one for one in named if one.split(".")[0] not in _BY_VERSION}
    for module in sorted(others | {"vllm"}):
        try:
            code = package_files.digest_of(module)
        except OSError as error:
            raise Unsupported(f"the code of {module} cannot be read: {error}") from None
        if code:
            found[f"code.{code.name}"] = f"files {code.files} {code.digest}"
        elif _NAMES_CODE.search(named.get(module, "")):
            # The workers may have a path of their own, by Ray's runtime_env for example.
            raise Unsupported(
                f"the engine's own process does not find the code of {module} ({named[module]}): "
                "put its folder on the PYTHONPATH that starts vLLM"
            )
    return found


def _own(model):
    """Fields that vLLM's configuration does not have."""
    return {
        "rope_max_model_len": _rope_length(model),
        "attn_temperature_tuning": _temperature(model),
        "model_class": _model_class(model),
    }


def _runner(vllm_config):
    """How vLLM gives a prompt to the model. Gemma 3n and Gemma 4 embed a token once more for each
    layer: they compute other KV from the embeddings of tokens than from the tokens."""
    model = vllm_config.model_config
    items = getattr(model, "supports_multimodal_inputs", None)
    if items is None:  # an older vLLM
        from vllm.multimodal import MULTIMODAL_REGISTRY

        items = MULTIMODAL_REGISTRY.supports_multimodal_inputs(model)
    embeds = getattr(model, "enable_prompt_embeds", False)
    return {
        "model_input": "items" if items else "embeddings" if embeds else "tokens",
        "model_runner": "v2" if getattr(vllm_config, "use_v2_model_runner", False) else "v1",
    }


# Groups of plug-ins that vLLM loads in its workers. A plug-in may replace any operator or layer.
_PLUGIN_GROUPS = ("vllm.general_plugins", "vllm.platform_plugins")


def plugins():
    """[(NAME = CODE of PACKAGE VERSION, CODE)] of the plug-ins that vLLM loads. vLLM's own and
    Larder's change no KV."""
    from vllm import envs

    allowed, found = envs.VLLM_PLUGINS, set()
    for group in _PLUGIN_GROUPS:
        for one in metadata.entry_points(group=group):
            if one.value.split(".")[0].split(":")[0] in ("vllm", "larder"):
                continue
            if allowed is None or one.name in allowed:
                package = f"{one.dist.name} {one.dist.version}" if one.dist else "unknown"
                found.add((f"{one.name} = {one.value} of {package}", one.module))
    return sorted(found)


def _one(values):
    """The value where all values are equal, else the list of values."""
    found = list(values)
    return found[0] if len(set(found)) == 1 else found


def _layer_lines(model, groups, shards):
    """A line for each group: the pages, and a digest of the names of the layers. A pipeline stage
    knows only the names of the stage's layers. With a pipeline the lines therefore give the range
    of layers of each stage."""
    lines = [_spec_line(group) for group in groups]
    if shards.stages == 1:
        named = [
            f"layers={len(group.layers)} names={fingerprint.digest(group.layers)}"
            for group in groups
        ]
        pages = [f" page={group.page_bytes}" if group.unlike else "" for group in groups]
        return [f"{line}{page} {names}" for line, page, names in zip(lines, pages, named)]
    from vllm.distributed.utils import get_pp_indices

    hidden = model.hf_text_config.num_hidden_layers
    stages = [get_pp_indices(hidden, stage, shards.stages) for stage in range(shards.stages)]
    return lines + [
        f"stage {stage} layers {begin} to {end}" for stage, (begin, end) in enumerate(stages)
    ]


def _spec_line(group):
    spec = group.first or group.spec
    shown = {key: getattr(spec, key, None) for key in _SHOWN}
    values = " ".join(f"{key}={value}" for key, value in shown.items() if value is not None)
    return f"{group.table} {type(spec).__name__} {values} kept={group.blocks}"


def _rope_length(model):
    """The greatest length where the kind of rope depends on that length, else None."""
    text = model.hf_text_config.to_dict()
    parameters = text.get("rope_parameters") or text.get("rope_scaling") or {}
    sets = [one for one in parameters.values() if isinstance(one, dict)] or [parameters]
    kinds = {one.get("rope_type", one.get("type")) for one in sets}
    # An unknown kind counts as dependent: a second namespace costs a miss, a shared one wrong KV.
    return _built_length(model) if kinds - _FIXED_ROPE else None


def _built_length(model):
    """The greatest length when vLLM built the model. vLLM fits an automatic length
    (--max-model-len -1) to the memory afterwards."""
    if getattr(model, "original_max_model_len", None) != -1:
        return model.max_model_len
    return model.get_and_verify_max_len(-1)


def _model_class(model):
    """The code of the model: a plug-in of vLLM may replace vLLM's class, and vLLM may leave a model
    to transformers."""
    from vllm.model_executor.models import ModelRegistry

    known = ModelRegistry.models.get(model.architecture)
    kind = getattr(known, "model_cls", None)
    module = kind.__module__ if kind else getattr(known, "module_name", None)
    package = "transformers" if ".transformers" in str(module) else str(module).split(".")[0]
    code = f"{module}.{kind.__qualname__ if kind else getattr(known, 'class_name', None)}"
    return code if package == "vllm" else f"{code} of {package} {_version(package)}"


def _version(package):
    try:
        names = metadata.packages_distributions().get(package, [package])
        return " ".join(metadata.version(name) for name in sorted(set(names)))
    except metadata.PackageNotFoundError:
        return None


def _temperature(model):
    """Whether Llama 4 scales its queries by their place. vLLM takes the value from the generation
    config, and else from the greatest length given at the engine's start (models/llama4.py). None
    for other models."""
    if getattr(model.hf_text_config, "model_type", "") != "llama4_text":
        return None
    found = {**model.try_get_generation_config(), **model.override_generation_config}
    return found.get("attn_temperature_tuning", _built_length(model) > 32768)


def _none_hash(cache_config, options):
    """The start of vLLM's hash chain, as hex. Computed here, since workers never initialise the
    chain."""
    from vllm.utils import hashing
    from vllm.v1.core import kv_cache_utils

    name = cache_config.prefix_caching_hash_algo
    if name in _WEAK_HASHES and not options.get("allow_weak_hash"):
        raise Unsupported(
            f"prefix caching hashes by {name}, which is not cryptographic; "
            "set allow_weak_hash to accept that"
        )
    seed = os.environ.get("PYTHONHASHSEED")
    if seed is None and name in _WEAK_HASHES:
        raise Unsupported(f"with {name} every start of vLLM hashes differently; set PYTHONHASHSEED")
    # An older vLLM draws the start of the chain at random, in each process.
    if not hasattr(kv_cache_utils, "resolve_none_hash_seed") and seed is None:
        seed = _choose_seed(kv_cache_utils)
    hash_function = hashing.get_hash_fn_by_name(name)
    if seed is None:
        seed = kv_cache_utils.resolve_none_hash_seed(hash_function)
    return bytes(hash_function(seed)).hex()


def _choose_seed(kv_cache_utils):
    """Sets a seed for a vLLM that would start its hash chain at random, after the creation of the
    connectors. The seed is a whole number, since Python reads the variable too, in every process
    that starts from now on."""
    if hasattr(kv_cache_utils, "NONE_HASH"):
        raise Unsupported("this vLLM has started its hash chain at random; set PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    return "0"
