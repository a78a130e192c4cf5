"""The Source of one vLLM configuration: the files of its engine, and their commit."""

from types import SimpleNamespace as Fake

import pytest

from larder.vllm import model_source
from larder.vllm.model_source import weights_source
from larder.weights import Source, weights_identity

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def source_of(load=None, hf_config=None, **model):
    fields = {
        "model": "org/name",
        "revision": "main",
        "quantization": None,
        "seed": 7,
        "hf_overrides": {},
        "architecture": "LlamaForCausalLM",
        "hf_config": Fake(_commit_hash=COMMIT, **(hf_config or {})),
        **model,
    }
    return weights_source(
        Fake(
            model_config=Fake(**fields), load_config=Fake(**{"load_format": "auto", **(load or {})})
        )
    )


@pytest.fixture(autouse=True)
def classes(monkeypatch):
    """Llama and Ultravox are vLLM's own."""
    own = ("LlamaForCausalLM", "UltravoxModel")
    monkeypatch.setattr(model_source, "_is_of_vllm", lambda model: model.architecture in own)
    monkeypatch.setattr(model_source, "_device", lambda: "cpu")


def test_the_commit_is_that_of_the_configuration():
    assert source_of() == Source("org/name", COMMIT, own_class=True)
    assert source_of(hf_config_path="org/other").revision == "main", (
        "the commit is of another repository"
    )
    assert source_of(hf_config_path="org/name").revision == COMMIT


def test_the_loaders_options_and_place_count():
    load = {
        "load_format": Fake(value="tensorizer"),
        "model_loader_extra_config": {"tensorizer_uri": "m"},
        "download_dir": "/d",
    }
    source = source_of(load)
    assert (source.load_format, source.loader_options, source.download_dir) == (
        "tensorizer",
        {"tensorizer_uri": "m"},
        "/d",
    )
    assert source_of(model_weights="s3://bucket/m").model == "s3://bucket/m"
    assert not source_of(architecture="MineForCausalLM").own_class


def test_dummy_weights_are_made_of_a_fixed_seed_by_the_device():
    assert source_of({"load_format": "dummy"}).dummy == "device cpu"
    assert source_of().dummy == ""


def test_configuration_and_code_of_elsewhere_count_without_their_weights():
    hf_config = {
        "auto_map": {
            "AutoModel": "org/code--modeling.Model",
            "AutoConfig": "here.Config",
            "AutoTokenizer": [None, "b/t--t.T"],
        }
    }
    source = source_of(hf_config=hf_config, trust_remote_code=True, code_revision="v2")
    assert source.others == tuple(
        Source(name, "v2", weights=False, optional=True) for name in ("b/t", "org/code")
    )
    assert source_of(hf_config=hf_config, trust_remote_code=False).others == ()
    source = source_of(
        hf_config_path="/config", hf_overrides={"quantization_config_file": "/q.json"}
    )
    assert source.others == (
        Source("/config", "main", weights=False),
        Source("/q.json", weights=False),
    )


def test_a_file_of_scales_for_the_encoder_counts():
    scales = Fake(mm_encoder_fp8_scale_path="/cfg/scales.json")
    assert source_of(multimodal_config=scales).others == (
        Source("/cfg/scales.json", weights=False),
    )


def test_towers_of_other_repositories_count():
    hf_config = {"audio_model_id": "org/audio", "text_model_id": None}
    source = source_of({"load_format": "safetensors"}, hf_config, architecture="UltravoxModel")
    assert source.others == (Source("org/audio", load_format="safetensors", own_class=True),)
    assert source_of({"load_format": "dummy"}, hf_config).others == ()


# covers F-410
def test_the_tokenizer_of_a_model_that_reads_the_tokenizer_counts(tmp_path):
    """Also one that lies elsewhere; a place counts by its content."""
    source = source_of(multimodal_config=Fake(), tokenizer="org/name")
    assert source.tokenizer and source.others == ()
    source = source_of(multimodal_config=Fake(), tokenizer="org/words", tokenizer_revision="v1")
    assert source.others == (Source("org/words", "v1", weights=False, tokenizer=True),)
    assert source_of(architecture="MineForCausalLM").tokenizer, "not known: of a plug-in"
    assert source_of(tokenizer="org/words") == source_of()
    lines = set()
    for number, texts in enumerate(("a", "b", "a")):
        model, words = tmp_path / f"m{number}", tmp_path / f"t{number}"
        for folder in (model, words):
            folder.mkdir()
        (model / "model.safetensors").write_text("weights")
        (words / "tokenizer.json").write_text(texts)
        for fields in ({"multimodal_config": Fake()}, {}):
            source = source_of(model=str(model), tokenizer=str(words), **fields)
            lines.add(weights_identity(source))
    assert len(lines) == 3, "two of the multi-modal model, one of the text model"


@pytest.mark.parametrize(
    "architecture, reads",
    [
        ("LlamaForCausalLM", False),
        ("Qwen3MoeForCausalLM", False),
        ("DeepseekV3ForCausalLM", False),
        ("GptOssForCausalLM", False),
        ("DeepseekV41ForCausalLM", True),
        ("DSparkV41DraftModel", True),
        ("Qwen3_5ForCausalLM", True),
    ],
)
# covers F-410
def test_models_of_vllm_that_read_the_tokenizer(architecture, reads, monkeypatch):
    """DeepSeek V4.1 looks up n-grams by the texts of tokens."""
    monkeypatch.undo()
    registry = pytest.importorskip("vllm.model_executor.models").ModelRegistry
    if architecture not in registry.models:
        pytest.skip("a model of another vLLM")
    assert model_source.reads_tokenizer(Fake(architecture=architecture)) == reads


def test_the_class_of_a_real_model_is_vllms_own(monkeypatch):
    monkeypatch.undo()
    pytest.importorskip("vllm")
    assert model_source._is_of_vllm(Fake(architecture="LlamaForCausalLM"))
    assert not model_source._is_of_vllm(Fake(architecture="SomebodysForCausalLM"))


def test_repositories_of_vllms_own_models_that_name_others_are_known():
    """A model with secondary weights in another repository needs an entry in _TOWERS: the names are
    those of vLLM 0.32."""
    models = pytest.importorskip("vllm.model_executor.models")
    import pathlib
    import re

    named = set()
    for path in pathlib.Path(models.__file__).parent.rglob("*.py"):
        named |= set(re.findall(r"model_or_path=([\w.]+),", path.read_text(encoding="utf-8")))
    assert named - {"vllm_config.model_config.model", "model_config.model"} == {
        f"config.{field}" for field in model_source._TOWERS
    }
