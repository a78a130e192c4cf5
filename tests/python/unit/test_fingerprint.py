"""Each field alone changes the text, and the text names the field."""

import pytest

from larder import fingerprint

BASE = {
    "engine": "vllm",
    "engine_version": "0.32.0",
    "layout": 1,
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "rope": {"rope_theta": 10000.0},
    "rope_max_model_len": None,
    "sliding_window": None,
    "hf_overrides": None,
    "config": "0123",
    "weights": "files 1 bytes 2 whole ab",
    "dtype": "torch.bfloat16",
    "kv_cache_dtype": "auto",
    "quantization": {"method": None, "config": None},
    "kv_scales": {"calculated": False, "skip_layers": []},
    "attention_backend": "CPU_ATTN",
    "attention_kernel": "amx",
    "kv_cache_layout": "LBHNC",
    "parallel": {"tensor_parallel_size": 1},
    "block_size": 128,
    "hash_block_size": 128,
    "chunk_tokens": 128,
    "hash_algorithm": "sha256",
    "none_hash": "00ff",
    "layers": ["model.layers.0 FullAttentionSpec page_size_bytes=131072"],
}
OTHER = {
    "architectures": ["OtherForCausalLM"],
    "rope": {"rope_theta": 500000.0},
    "quantization": {"method": "awq", "config": None},
    "kv_scales": {"calculated": True, "skip_layers": []},
    "parallel": {"tensor_parallel_size": 2},
    "layers": ["model.layers.0 FullAttentionSpec page_size_bytes=65536"],
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "sliding_window": None,
    "_name_or_path": "/models/a",
    "transformers_version": "5.0",
}


def test_the_cases_cover_every_field():
    assert set(BASE) == set(fingerprint.FIELDS)


@pytest.mark.parametrize("field", fingerprint.FIELDS)
def test_each_field_alone_changes_the_text_by_its_own_line(field):
    one, other = fingerprint.text(BASE), fingerprint.text({**BASE, field: OTHER.get(field, f"{BASE[field]}x")})
    assert one != other
    assert {name.split(".")[0] for name in fingerprint.differing_fields(one, other)} == {field}


def test_equal_fields_give_equal_text_in_any_order():
    assert fingerprint.text(dict(reversed(BASE.items()))) == fingerprint.text(BASE)


def test_a_missing_and_an_unknown_field_are_refused_by_name():
    with pytest.raises(KeyError, match="weights"):
        fingerprint.text({k: v for k, v in BASE.items() if k != "weights"})
    with pytest.raises(KeyError, match="wieghts"):
        fingerprint.text({**BASE, "wieghts": 1})


def test_a_value_cannot_forge_a_line():
    text = fingerprint.text({**BASE, "model_type": "llama\nweights: forged"})
    assert [line for line in text.splitlines() if line.startswith("weights: ")] == ["weights: files 1 bytes 2 whole ab"]


def config_of(**changes):
    return fingerprint.config_fields({**CONFIG, **changes}, max_model_len=4096)


def test_paths_and_versions_are_no_part_of_the_config():
    assert config_of(_name_or_path="/mnt/models", transformers_version="6.0") == config_of()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hidden_size": 512}, "config"),
        ({"some_new_key": 1}, "config"),
        ({"sliding_window": 256}, "sliding_window"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "rope"),
        ({"architectures": ["Mistral"]}, "architectures"),
    ],
)
def test_config_changes_stand_in_the_field_named_for_them(change, field):
    base, other = config_of(), config_of(**change)
    assert [name for name in base if base[name] != other[name]] == [field]


@pytest.mark.parametrize(("kind", "counts"), [("default", False), ("llama3", False), ("dynamic", True), ("longrope", True)])
def test_the_greatest_length_counts_where_rope_depends_on_it(kind, counts):
    config = {**CONFIG, "rope_parameters": {"rope_type": kind}}
    short, long = (fingerprint.config_fields(config, max_model_len=n) for n in (4096, 8192))
    assert (short != long) is counts


def test_hf_overrides_that_are_a_function_are_named_without_an_address():
    def override(config):
        return config

    fields = {**BASE, "hf_overrides": override}
    assert "0x" not in fingerprint.text(fields) and "override" in fingerprint.text(fields)
