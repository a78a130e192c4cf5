"""The namespace fingerprint: canonical text of everything besides tokens that decides the bytes of a KV page.

"field: value" lines in the order of FIELDS, so that two texts can be compared line by line and the line that differs has a name.
Pure: the identity of the weights comes in as a line (larder.weights)."""

import hashlib
import json

LAYOUT = 2  # raised whenever the shim's own serialisation of a chunk changes

FIELDS = (
    "engine",
    "engine_version",
    "layout",
    "architectures",
    "model_type",
    "rope",
    "rope_max_model_len",
    "sliding_window",
    "hf_overrides",
    "config",
    "weights",
    "dtype",
    "kv_cache_dtype",
    "quantization",
    "kv_scales",
    "attention_backend",
    "attention_kernel",
    "kv_cache_layout",
    "parallel",
    "block_size",
    "hash_block_size",
    "chunk_tokens",
    "hash_algorithm",
    "none_hash",
    "layers",
)

# The lines that come from the model's configuration, which models change as they are built: config_fields().
CONFIG_FIELDS = ("architectures", "model_type", "rope", "rope_max_model_len", "sliding_window", "hf_overrides", "config")

# Fields of a Hugging Face config that differ between equal models, or that have a line of their own.
_VOLATILE = {"_name_or_path", "name_or_path", "transformers_version", "_commit_hash"}
_ROPE = ("rope_parameters", "rope_scaling", "rope_theta", "rope_local_base_freq", "partial_rotary_factor", "rope_interleave")
_NAMED = {"architectures", "model_type", "sliding_window", "dtype", "torch_dtype", "quantization_config", *_ROPE}
# Kinds of rope whose table does not depend on the greatest length that the engine was started with.
_FIXED_ROPE = {None, "default", "linear", "llama3", "yarn", "mrope"}


def text(fields):
    """The canonical text. KeyError names a field that is missing or unknown: a fingerprint is never partial."""
    unknown = set(fields) - set(FIELDS)
    if unknown:
        raise KeyError(f"unknown fingerprint field {sorted(unknown)[0]}")
    lines = []
    for field in FIELDS:
        value = fields[field]
        if isinstance(value, (list, tuple)):
            lines += [f"{field}.{index}: {_flat(item)}" for index, item in enumerate(value)]
        else:
            lines.append(f"{field}: {_flat(value)}")
    return "\n".join(lines) + "\n"


def differing_fields(one, other):
    """Names of the lines in which two texts differ, in their order."""
    left, right = (dict(line.split(": ", 1) for line in t.splitlines()) for t in (one, other))
    return [name for name in {**left, **right} if left.get(name) != right.get(name)]


def config_fields(config, text_config=None, hf_overrides=None, max_model_len=None):
    """The fields that come from a resolved Hugging Face config, given as a dict (text_config: its language part, where nested)."""
    language = text_config or config
    rope = {name: language[name] for name in _ROPE if language.get(name) is not None}
    return {
        "architectures": config.get("architectures"),
        "model_type": config.get("model_type"),
        "rope": rope,
        "rope_max_model_len": max_model_len if _rope_kinds(rope) - _FIXED_ROPE else None,
        "sliding_window": language.get("sliding_window"),
        "hf_overrides": hf_overrides or None,
        "config": digest(_stable({k: v for k, v in config.items() if k not in _NAMED})),
    }


def digest(value):
    return hashlib.sha256(_json(value).encode()).hexdigest()[:32]


def _rope_kinds(rope):
    """The rope kinds named in the config: of all layers, or one for each kind of layer."""
    parameters = rope.get("rope_parameters") or rope.get("rope_scaling") or {}
    sets = [p for p in parameters.values() if isinstance(p, dict)] or [parameters]
    return {p.get("rope_type", p.get("type")) for p in sets}


def _stable(value):
    if isinstance(value, dict):
        return {str(k): _stable(v) for k, v in value.items() if k not in _VOLATILE}
    if isinstance(value, (list, tuple)):
        return [_stable(v) for v in value]
    return value


def _json(value):
    return json.dumps(_stable(value), sort_keys=True, separators=(",", ":"), default=_name_of)


def _name_of(value):
    """A value that JSON has no form for. Functions and classes by name; an address must not get in."""
    name = getattr(value, "__qualname__", None)
    shown = f"{getattr(value, '__module__', '')}.{name}" if name else str(value)
    return shown if " at 0x" not in shown else type(value).__qualname__


def _flat(value):
    shown = value if isinstance(value, str) else _json(value)
    return " ".join(shown.split())
