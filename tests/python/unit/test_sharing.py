"""Real configurations of this vLLM, one flag changed at a time. Commonly varied flags leave the
fingerprint unchanged, and flags that change KV change the fingerprint."""

import os

import pytest
import varied_flags

pytest.importorskip("vllm")

from larder import package_files  # noqa: E402
from larder.fingerprint import differing_fields  # noqa: E402
from larder.vllm import engine_variables  # noqa: E402
from larder.vllm.groups import Unsupported  # noqa: E402
from larder.vllm.identity import text_of  # noqa: E402

BASE = {"max_model_len": 2048, "skip_tokenizer_init": True, "enforce_eager": True}

# Flags that operators commonly vary: engines share.
SHARES = {**varied_flags.ENGINE, **varied_flags.RARE}
# Flags that decide KV, or may: each is a namespace of its own, and the line of the text with the
# flag.
SEPARATES = {
    "dtype": ("float32", "model_config.dtype"),
    "quantization": ("fp8", "model_config.quantization"),
    "hf_overrides": (
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        "model_config.hf_config.rope_parameters.rope_theta",
    ),
    "disable_sliding_window": (True, "model_config.disable_sliding_window"),
    "compilation_config": ({"mode": 2, "backend": "eager"}, "compilation_config.backend"),
    "kernel_config": ({"linear_backend": "torch"}, "kernel_config.linear_backend"),
    "attention_backend": ("CPU_ATTN", "attention_config.backend"),
    "model_loader_extra_config": (
        {"concurrency": 4},
        "load_config.model_loader_extra_config.concurrency",
    ),
    "additional_config": ({"a_plugin": 1}, "additional_config.a_plugin"),
}


@pytest.fixture(scope="module")
def text(models):
    from vllm.engine.arg_utils import EngineArgs

    model = str(models("llama"))
    known = EngineArgs.__dataclass_fields__

    def made(**flags):
        unknown = set(flags) - set(known)
        if unknown:
            pytest.fail(f"this vLLM has no flag {sorted(unknown)[0]}")
        return text_of(
            "engine: vllm\n", EngineArgs(model=model, **{**BASE, **flags}).create_engine_config()
        )

    made.model = model
    return made


@pytest.fixture(scope="module")
def base(text):
    return text()


@pytest.mark.parametrize("flag", SHARES)
def test_flags_commonly_varied_by_operators_share(text, base, flag):
    assert differing_fields(base, text(**SHARES[flag])) == []


def test_flags_that_this_platform_or_a_model_without_a_tokenizer_refuses_share(text, base):
    """--enable-sleep-mode needs CUDA and --reasoning-parser a tokenizer: set in the made object."""
    from vllm.engine.arg_utils import EngineArgs

    config = EngineArgs(model=text.model, **BASE).create_engine_config()
    config.model_config.enable_sleep_mode = True
    config.structured_outputs_config.reasoning_parser = "qwen3"
    assert differing_fields(base, text_of("engine: vllm\n", config)) == []


@pytest.mark.parametrize("flag", varied_flags.ENGINE)
def test_engines_that_compile_share_too(text, flag):
    """As most engines run: vLLM's defaults for compilation, which follow other flags."""
    compiled = {"enforce_eager": False}
    assert differing_fields(text(**compiled), text(**compiled, **varied_flags.ENGINE[flag])) == []


@pytest.fixture(scope="module")
def of_server(text):
    """of_server(*flags): the text of an engine behind vLLM's server with these additional flags."""
    from server_flags import cli_args
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = cli_args.make_arg_parser(FlexibleArgumentParser())
    always = [
        "--model",
        text.model,
        "--max-model-len",
        "2048",
        "--skip-tokenizer-init",
        "--enforce-eager",
    ]

    def made(*flags):
        arguments = parser.parse_args([*always, *flags])
        cli_args.validate_parsed_serve_args(arguments)
        return text_of(
            "engine: vllm\n", AsyncEngineArgs.from_cli_args(arguments).create_engine_config()
        )

    return made


@pytest.mark.parametrize("flag", varied_flags.SERVER)
def test_flags_commonly_varied_by_servers_share(of_server, base, flag):
    assert differing_fields(base, of_server(*varied_flags.SERVER[flag])) == []


@pytest.mark.parametrize("name", varied_flags.ENVIRONMENT)
def test_a_variable_that_operators_commonly_vary_shares(of_server, base, monkeypatch, name):
    monkeypatch.setenv(name, varied_flags.ENVIRONMENT[name])
    assert differing_fields(base, of_server()) == []


@pytest.mark.parametrize("flag", SEPARATES)
# covers F-064
def test_settings_with_effect_on_kv_separate_and_are_named(text, base, flag):
    value, line = SEPARATES[flag]
    try:
        other = text(**{flag: value})
    except (ValueError, TypeError) as refused:
        pytest.fail(f"{flag}: {refused}")
    assert line in differing_fields(base, other) and "configuration" in differing_fields(
        base, other
    )


@pytest.fixture(scope="module")
def of_pictures(tmp_path_factory):
    """of_pictures(**flags): the text of an engine of a model that reads pictures."""
    import shapes
    from vllm.engine.arg_utils import EngineArgs

    model = shapes.make_image_model(tmp_path_factory.mktemp("pictures"))
    base = {"max_model_len": 2048, "enforce_eager": True}
    return lambda **flags: text_of(
        "engine: vllm\n", EngineArgs(model=str(model), **base, **flags).create_engine_config()
    )


# covers F-413
def test_embeddings_in_place_of_tokens_separate(text, base, of_pictures):
    """Gemma 3n and Gemma 4 compute other KV from the embeddings of tokens than from the tokens."""
    assert "\nmodel_input: tokens\n" in base
    embeds = text(enable_prompt_embeds=True)
    assert differing_fields(base, embeds) == ["configuration", "model_input"]
    items, text_alone = of_pictures(), of_pictures(limit_mm_per_prompt={"image": 0})
    assert differing_fields(items, text_alone) == ["configuration", "model_input"]
    for flags in ({"limit_mm_per_prompt": {"image": 2}}, {"enable_prompt_embeds": True}):
        assert differing_fields(items, of_pictures(**flags)) == [], (
            "tokens become embeddings anyway"
        )


# covers F-413
def test_the_second_model_runner_separates(text, base):
    from vllm.engine.arg_utils import EngineArgs

    config = EngineArgs(model=text.model, **BASE).create_engine_config()
    assert "\nmodel_runner: v1\n" in base, "without Triton"

    class Second(type(config)):
        use_v2_model_runner = True

    config.__class__ = Second
    assert "model_runner" in differing_fields(base, text_of("engine: vllm\n", config))


@pytest.mark.parametrize(
    "flag, value, line",
    [
        ("mm_processor_kwargs", {"do_normalize": False}, "mm_processor_kwargs.do_normalize"),
        (
            "media_io_kwargs",
            {"image": {"rgba_background_color": [0, 0, 0]}},
            "media_io_kwargs.image",
        ),
    ],
)
# covers F-064
def test_how_an_engine_reads_pictures_separates_and_is_named(of_pictures, flag, value, line):
    changed = differing_fields(of_pictures(), of_pictures(**{flag: value}))
    assert any(line in name for name in changed), changed


def test_the_folder_name_does_not_separate(text, base, tmp_path):
    from vllm.engine.arg_utils import EngineArgs

    link = tmp_path / "elsewhere"
    os.symlink(text.model, link)
    assert (
        text_of("engine: vllm\n", EngineArgs(model=str(link), **BASE).create_engine_config())
        == base
    )


def with_rope(kind, **parameters):
    return {
        "hf_overrides": {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, **parameters}}
    }


# As DeepSeek (TP 1: the model's build names the kind so) and Gemma 4 give their kinds.
@pytest.mark.parametrize("kind", ["deepseek_yarn", "deepseek_llama_scaling", "proportional", "ntk"])
def test_the_greatest_length_is_no_difference_where_rope_only_has_a_table_of_it(kind):
    from types import SimpleNamespace

    from larder.vllm.identity import _rope_length

    def model(kind):
        text = SimpleNamespace(to_dict=lambda: {"rope_parameters": {"rope_type": kind}})
        return SimpleNamespace(hf_text_config=text, max_model_len=2048)

    assert _rope_length(model(kind)) is None
    assert _rope_length(model("of a newer vLLM")) == 2048


def test_vllms_kinds_of_rope_take_the_length_as_identity_says():
    """The tables of vLLM itself: the first rows of a long and a short table are equal, but where
    the greatest length separates."""
    import torch
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.rotary_embedding import get_rope

    from larder.vllm.identity import _FIXED_ROPE

    more = {
        "linear": {"factor": 2.0},
        "ntk": {"factor": 2.0},
        "dynamic": {"factor": 2.0, "max_trained_positions": 256},
        "llama3": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 256,
        },
        "yarn": {"factor": 4.0, "original_max_position_embeddings": 256},
        "deepseek_yarn": {"factor": 4.0, "original_max_position_embeddings": 256},
    }
    differs = set()
    with set_current_vllm_config(VllmConfig()):
        for kind in ("default", "proportional", *more):
            parameters = {"rope_type": kind, "rope_theta": 1e4, **more.get(kind, {})}
            short, long = (
                get_rope(64, length, rope_parameters=dict(parameters), dtype=torch.float32)
                for length in (512, 2048)
            )
            if not torch.equal(short.cos_sin_cache[:512], long.cos_sin_cache[:512]):
                differs.add(kind)
    assert differs == {"dynamic"} and not differs & _FIXED_ROPE


def test_the_greatest_length_separates_where_rope_depends_on_it(text):
    rope = with_rope("dynamic", factor=2.0)
    assert differing_fields(text(**rope), text(**rope, max_model_len=1024)) == [
        "configuration",
        "rope_max_model_len",
    ]


@pytest.mark.parametrize(
    "more",
    [{"max_model_len": 65536}, {"override_generation_config": {"attn_temperature_tuning": True}}],
)
def test_other_fields_used_by_llama_4_separate(text, more):
    llama4 = {"hf_overrides": {"model_type": "llama4_text", "max_position_embeddings": 131072}}
    short, longer = text(**llama4, max_model_len=16384), text(**llama4, max_model_len=32768)
    assert differing_fields(short, longer) == []
    assert differing_fields(short, text(**{**llama4, "max_model_len": 16384, **more})) == [
        "configuration",
        "attn_temperature_tuning",
    ]


# covers F-413
def test_an_automatic_length_counts_as_it_was_when_the_model_was_built(text):
    """vLLM fits --max-model-len -1 to the memory, after the model has read the length."""
    from vllm.engine.arg_utils import EngineArgs

    length = {"max_position_embeddings": 131072}
    for overrides in (
        {"model_type": "llama4_text"},
        with_rope("dynamic", factor=2.0)["hf_overrides"],
    ):
        flags = {**BASE, "hf_overrides": {**length, **overrides}}
        automatic = EngineArgs(model=text.model, **{**flags, "max_model_len": -1})
        config = automatic.create_engine_config()
        config.model_config.max_model_len = 16384
        fitted = text_of("engine: vllm\n", config)
        assert differing_fields(fitted, text(**{**flags, "max_model_len": None})) == []
        assert differing_fields(fitted, text(**{**flags, "max_model_len": 16384})) != []


def test_a_plug_ins_own_class_for_a_model_separates(text, base):
    from vllm.model_executor.models import ModelRegistry
    from vllm.model_executor.models.llama import LlamaForCausalLM

    class Mine(LlamaForCausalLM):
        pass

    before = dict(ModelRegistry.models)
    try:
        ModelRegistry.register_model("LlamaForCausalLM", Mine)
        other = text()
    finally:
        ModelRegistry.models.clear()
        ModelRegistry.models.update(before)
    assert differing_fields(base, other) == ["configuration", "model_class"]


def test_a_model_that_is_left_to_transformers_has_its_version(text):
    import transformers

    assert f"of transformers {transformers.__version__}\n" in text(model_impl="transformers")


def test_a_variable_that_decides_a_kernel_separates_and_a_port_does_not(text, base, monkeypatch):
    monkeypatch.setenv("VLLM_NIXL_SIDE_CHANNEL_PORT", "1234")
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "0-1")
    assert differing_fields(base, text()) == []
    monkeypatch.setenv("VLLM_CPU_ATTN_SPLIT_KV", "0")
    assert differing_fields(base, text()) == ["configuration", "VLLM_CPU_ATTN_SPLIT_KV"]


def set_to_defaults(monkeypatch):
    """Every variable of the fingerprint whose default has a form in the environment."""
    forms = {True: "1", False: "0", None: None}
    for name, value in engine_variables.variables().items():
        if isinstance(value, dict):
            (value,) = value.values()  # the marked form of a tuple
        known = isinstance(value, bool) or value is None
        form = forms[value] if known else ",".join(value) if isinstance(value, list) else str(value)
        if form and name not in os.environ:
            monkeypatch.setenv(name, form)
            yield name


# covers F-064
def test_a_variable_that_is_set_to_its_default_shares(text, base, monkeypatch):
    assert len(list(set_to_defaults(monkeypatch))) > 80
    assert text() == base, "the whole text names the namespace, also its lines for people"
    monkeypatch.setenv("VLLM_CPU_ATTN_SPLIT_KV", "0")
    assert "VLLM_CPU_ATTN_SPLIT_KV: false" in text()
    assert os.environ["VLLM_CPU_ATTN_SPLIT_KV"] == "0"


def install(folder, group, name, value, version="1.0"):
    """A package with an entry point."""
    made = folder / f"{name}-{version}.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (made / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")


# covers F-064
def test_a_plug_in_that_vllm_loads_separates_and_is_named(text, base, monkeypatch, tmp_path):
    """A plug-in may replace any layer. vLLM's own configuration does not tell of plug-ins."""
    monkeypatch.syspath_prepend(str(tmp_path / "one"))
    install(tmp_path / "one", "vllm.general_plugins", "a_plugin", "a_plugin:register")
    assert differing_fields(base, text()) == ["configuration", "plugins"]
    assert 'plugins: ["a_plugin = a_plugin:register of a_plugin 1.0"]' in text()
    monkeypatch.syspath_prepend(str(tmp_path / "two"))
    install(tmp_path / "two", "vllm.general_plugins", "b_plugin", "b_plugin:register")
    assert text().count("_plugin:register") == 2
    monkeypatch.setenv("VLLM_PLUGINS", "b_plugin")
    assert 'plugins: ["b_plugin = ' in text(), "the others are not loaded"


@pytest.fixture
def code(monkeypatch, tmp_path):
    """code(text): the only file of the package a_plugin, of which nothing is imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "a_plugin").mkdir()

    def write(text):
        (tmp_path / "a_plugin" / "__init__.py").write_text(f"raise SystemExit({text})\n")
        package_files.forget()

    write(0)
    yield write
    package_files.forget()


# covers F-352
def test_the_code_of_a_plug_in_counts_beside_its_version(text, code, tmp_path):
    install(tmp_path, "vllm.general_plugins", "a_plugin", "a_plugin.sub:register")
    before = text()
    assert "\ncode.a_plugin: files 1 " in before
    code(1)
    assert differing_fields(before, text()) == ["configuration", "code.a_plugin"]


@pytest.mark.parametrize(
    "flag, value",
    [
        ("worker_cls", "a_plugin.Worker"),
        ("worker_extension_cls", "a_plugin.sub.Extension"),
        ("scheduler_cls", "a_plugin.sub:Scheduler"),
        ("compilation_config", {"mode": 2, "backend": "a_plugin.backend"}),
    ],
)
# covers F-352
def test_the_code_that_a_flag_names_counts(text, code, flag, value):
    flags = {flag: value}
    before = text(**flags)
    code(1)
    assert differing_fields(before, text(**flags)) == ["configuration", "code.a_plugin"]


@pytest.mark.parametrize("flag", ["worker_cls", "worker_extension_cls", "scheduler_cls"])
# covers F-411
def test_code_that_the_engines_own_process_does_not_find_is_refused(text, flag):
    """Workers may have a path of their own (Ray's runtime_env): two kinds of code, one name."""
    with pytest.raises(
        Unsupported, match=f"does not find the code of no_such_package.Mine .*{flag}"
    ):
        text(**{flag: "no_such_package.Mine"})


# covers F-352
def test_the_code_that_a_list_names_counts(text, code):
    named = {"additional_config": {"passes": ["a_plugin.one.Pass"]}}
    before = text(**named)
    code(1)
    assert differing_fields(before, text(**named)) == ["configuration", "code.a_plugin"]


# covers F-353
def test_a_patched_vllm_of_equal_version_separates(text, base, monkeypatch, tmp_path):
    real = package_files._place_of
    (tmp_path / "__init__.py").write_text("patched = True\n")
    assert "\ncode.vllm: files " in base
    monkeypatch.setattr(
        package_files,
        "_place_of",
        lambda module: ("vllm", str(tmp_path)) if module == "vllm" else real(module),
    )
    assert differing_fields(base, text()) == ["configuration", "code.vllm"]


def test_names_of_layers_are_no_code(text, code):
    named = {"hf_overrides": {"quantize": ["a_plugin.layers"], "one": "a_plugin.layers"}}
    before = text(**named)
    code(1)
    assert text(**named) == before


@pytest.mark.parametrize(
    "group, value",
    [
        ("vllm.stat_logger_plugins", "a_plugin:Made"),
        ("vllm.general_plugins", "larder.vllm_plugin:register"),
        ("vllm.general_plugins", "vllm.plugins.lora_resolvers.filesystem_resolver:register"),
    ],
)
def test_a_plug_in_that_changes_no_kv_shares(text, base, monkeypatch, tmp_path, group, value):
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, group, "a_plugin", value)
    assert text() == base


def test_the_text_is_small_and_a_users_long_configuration_does_not_grow_it(text, base):
    assert len(base) < 8000
    long = {
        "hf_overrides": {
            f"a_list_of_{i}": ["model.layers.%d.mlp" % j for j in range(400)] for i in range(20)
        }
    }
    assert len(text(**long)) < 45_000
