"""The closed world: every field of every part of this vLLM's configuration is in the fingerprint,
or on the list with a reason."""

import dataclasses
import functools
import json
import re
import threading
import typing

import config_fields
import pytest

pytest.importorskip("vllm")

from vllm.config import VllmConfig  # noqa: E402

from larder.vllm import engine_config, engine_variables  # noqa: E402
from larder.vllm.groups import Unsupported  # noqa: E402


hints_of = functools.cache(typing.get_type_hints)


def parts_of(kind):
    """The dataclasses in the type of a field."""
    if dataclasses.is_dataclass(kind):
        return [kind]
    return [part for one in typing.get_args(kind) for part in parts_of(one)]


def leaves(kind, path="", seen=()):
    """(path, dataclass, field) of every field that is no part of the configuration itself."""
    hints = hints_of(kind)
    for field in dataclasses.fields(kind):
        at = f"{path}.{field.name}" if path else field.name
        parts = [part for part in parts_of(hints[field.name]) if part not in seen]
        for part in parts:
            yield from leaves(part, at, (*seen, kind))
        if not parts:
            yield at, kind, field


LEAVES = list(leaves(VllmConfig))


class Other:
    """A value that no configuration has."""

    def __repr__(self):
        return "other"


def bare(kind, **values):
    """An object of the configuration with the given values and None for the rest, without vLLM's
    checks."""
    made = object.__new__(kind)
    for field in dataclasses.fields(kind):
        object.__setattr__(made, field.name, values.get(field.name))
    return made


def with_leaf(path, value):
    """A configuration in which one field has that value."""

    def build(kind, names):
        name, *rest = names
        if not rest:
            return bare(kind, **{name: value})
        hints = hints_of(kind)
        return bare(kind, **{name: build(next(p for p in parts_of(hints[name])), rest)})

    return build(VllmConfig, path.split("."))


def is_listed(path):
    parts = path.split(".")
    return any(".".join(parts[:end]) in engine_config.HARMLESS for end in range(1, len(parts) + 1))


def test_there_are_hundreds_of_fields():
    assert len(LEAVES) > 300 and len({path.split(".")[0] for path, *_ in LEAVES}) > 20


@pytest.mark.parametrize("path", sorted({path for path, *_ in LEAVES}))
# covers F-065
def test_every_field_is_in_the_fingerprint_or_on_the_list(path):
    try:
        one, other = (engine_config.fields_of(with_leaf(path, value)) for value in (None, Other()))
    except StopIteration:
        pytest.fail(f"{path} cannot be reached")
    assert (one == other) is is_listed(path)


def test_the_list_names_only_fields_that_a_tested_vllm_has():
    paths = {path for path, *_ in LEAVES} | {
        path for record in config_fields.records().values() for path in record["fields"]
    }
    known = {".".join(path.split(".")[:end]) for path in paths for end in range(1, 9)}
    # Attributes that vLLM adds.
    derived = {
        "model_config.original_max_model_len",
        "model_config.model_arch_config",
        "model_config.encoder_config",
        "model_config.config_updated",
    }
    derived |= {f"speculative_config.draft_{path}" for path in derived}
    assert set(engine_config.HARMLESS) - known - derived == set()


def test_speculation_without_draft_kv_is_harmless_as_a_whole():
    def fields(method):
        config = with_leaf("speculative_config.quantization", "fp8")
        config.speculative_config.method = method
        return engine_config.fields_of(config, engine_config.harmless_of(config))

    assert fields("ngram") == fields("suffix") != fields("eagle")
    assert "speculative_config.quantization" in set(fields("eagle")) - set(fields("ngram"))


def test_each_reason_is_one_line():
    for reasons in (engine_config.HARMLESS, engine_variables.HARMLESS):
        assert all(
            reason and "\n" not in reason and len(reason) < 110 for reason in reasons.values()
        )


# covers F-065
def test_a_field_that_a_newer_vllm_adds_is_in_the_fingerprint():
    @dataclasses.dataclass
    class Newer(VllmConfig):
        future_config: object = None

    assert "future_config" in engine_config.fields_of(bare(Newer))


def test_names_of_a_part_are_not_held_against_the_list_of_the_whole():
    @dataclasses.dataclass
    class Part:
        lora_config: object = 1
        listed: object = 2

    assert "lora_config" in engine_config.HARMLESS
    assert engine_config.fields_of(Part(), {"listed": "of this part"}) == {"lora_config": 1}


def test_attributes_that_are_no_fields_count_too():
    config = with_leaf("model_config.dtype", "x")
    config.model_config.added_later = 1
    assert engine_config.fields_of(config)["model_config.added_later"] == 1


def test_a_property_that_one_process_has_asked_for_is_no_difference():
    """With its workers in one process the scheduler shares a configuration that the model was built
    from."""
    config = with_leaf("model_config.dtype", "x")
    before = engine_config.fields_of(config)
    kind = type(config.model_config)
    cached = [
        name for name, value in vars(kind).items() if isinstance(value, functools.cached_property)
    ]
    assert "is_mm_prefix_lm" in cached
    for name in cached:
        config.model_config.__dict__[name] = True
    assert engine_config.fields_of(config) == before


def test_neither_an_address_nor_a_secret_gets_in():
    config = with_leaf("model_config.hf_token", "hf_secret")
    config.additional_config = {"object": object(), "function": is_listed}
    fields = engine_config.fields_of(config)
    assert "hf_secret" not in str(fields) and not re.search("0x[0-9a-f]{6}", str(fields))
    assert ".is_listed (" in fields["additional_config.function"]["<code>"]


def fields_with(value):
    return engine_config.fields_of(with_leaf("additional_config", value))


@dataclasses.dataclass
class OneClass:
    x: object = None


@dataclasses.dataclass
class AnotherClass:
    x: object = None


@dataclasses.dataclass(slots=True)
class Slots:
    x: object


def noted(x):
    made = OneClass(x)
    made._noted = x
    return made


UNLIKE = [
    None, {}, {"a.b": 1}, {"a": {"b": 1}}, {"a": {"b": {}}}, {"a": {}}, {"a": None}, {1: 2},
    {"1": 2}, {"<1>": 2}, {"<class>": 2}, {"": 1}, {'"': 1}, {'""': 1}, {"a b": 1}, {"a  b": 1},
    {(1, 2): 1},
    {"name_or_path": "x"}, {"_commit_hash": "x"}, OneClass(), AnotherClass(), OneClass({}),
    {"x": None}, Slots(1), Slots(2), noted(1), noted(2), OneClass(1), OneClass("1"),
    OneClass({"a.b": 1}), OneClass({"a": {"b": 1}}), [{"a.b": 1}], [{"a": {"b": 1}}],
]  # fmt: skip


# covers F-350
def test_unlike_settings_have_unlike_fields():
    for number, one in enumerate(UNLIKE):
        for other in UNLIKE[:number]:
            assert fields_with(one) != fields_with(other), (one, other)


# covers F-351
def test_a_value_without_a_name_is_refused_by_the_name_of_its_field():
    with pytest.raises(Unsupported, match=r"value of additional_config\.a\.lock cannot be named"):
        fields_with({"a": {"lock": threading.Lock()}})
    nested = {}
    for _ in range(20):
        nested = {"a": nested}
    with pytest.raises(Unsupported, match=r"nested too deep at additional_config\.a\.a"):
        fields_with(nested)


def test_secrets_inside_of_a_value_are_not_shown():
    class_of = dataclasses.make_dataclass("Loader", ["api_key"])
    for value in (
        {"my.api_key": "s"}, [{"api_key": "s"}], ({"token": 1, "x": {"password": "s"}},),
        [{1: 2, "secret": "s"}], class_of("s"), [OneClass({"access_token": "s"})],
    ):  # fmt: skip
        shown = [
            form for path, form in fields_with(value).items()
            if not engine_config.may_be_secret(path, form)
        ]  # fmt: skip
        assert '"s"' not in json.dumps(shown), value
    assert not engine_config.may_be_secret("a", ["key", {"a_field": {"<tuple>": ["secret"]}}])


def test_an_environment_variable_that_vllm_knows_counts_unless_it_is_listed(monkeypatch):
    before = engine_variables.variables()
    monkeypatch.setenv("VLLM_NIXL_SIDE_CHANNEL_PORT", "1")
    assert engine_variables.variables() == before
    monkeypatch.setenv("VLLM_USE_TRITON_AWQ", "1")
    changed = engine_variables.variables()
    assert [name for name in before if before[name] != changed[name]] == ["VLLM_USE_TRITON_AWQ"]
    assert "VLLM_USE_TRITON_AWQ" in engine_variables.variables_set()


@pytest.mark.parametrize(
    "path",
    [
        "mamba_config.backend",
        "mamba_config.enable_stochastic_rounding",
        "cache_config.mamba_cache_dtype",
        "cache_config.mamba_ssm_cache_dtype",
    ],
)
def test_how_recurrent_states_are_computed_and_kept_separates_engines(path):
    assert path in {path for path, *_ in LEAVES} and not is_listed(path)


def test_the_layout_of_convolution_states_separates_engines(monkeypatch):
    before = engine_variables.variables()
    monkeypatch.setenv("VLLM_SSM_CONV_STATE_LAYOUT", "DS")
    changed = engine_variables.variables()
    assert [name for name in before if before[name] != changed[name]] == [
        "VLLM_SSM_CONV_STATE_LAYOUT"
    ]


def test_the_list_names_only_variables_that_a_tested_vllm_counts():
    from vllm import envs

    counted = {name for record in config_fields.records().values() for name in record["variables"]}
    assert set(engine_variables.HARMLESS) - set(envs.compile_factors()) - counted == set()
