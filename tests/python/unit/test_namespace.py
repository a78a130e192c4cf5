"""One thing changed in an engine's configuration at a time: another namespace, and the line that differs is the one named for
it."""

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from test_setup import caches, config, named, spec  # noqa: E402

from larder import fingerprint  # noqa: E402
from larder.vllm.setup import setup_of  # noqa: E402


def hf(**changes):
    def change(engine):
        before = engine.model_config.hf_config.to_dict()
        engine.model_config.hf_config.to_dict = lambda: {**before, **changes}

    return change


def model(**changes):
    return lambda engine: engine.model_config.__dict__.update(changes)


def cache(**changes):
    return lambda engine: engine.cache_config.__dict__.update(changes)


def parallel(**changes):
    return lambda engine: engine.parallel_config.__dict__.update(changes)


def option(**changes):
    return lambda engine: engine.kv_transfer_config.kv_connector_extra_config.update(changes)


def pages(**changes):
    return lambda engine: engine.pages.kv_cache_groups[0].kv_cache_spec.__dict__.update(changes)


def pools(**changes):
    return lambda engine: engine.pages.__dict__.update(changes)


def of_module(name, value):
    return lambda engine: engine.monkeypatch.setattr(name, value)


def layer_names(engine):
    engine.pages.kv_cache_groups[0].layer_names = ["layer.7"]


CPU = "vllm.v1.attention.backends.cpu_attn."
CHANGES = {  # field: (change, the other fields that cannot but change with it)
    "engine_version": (of_module("vllm.version.__version__", "0.99.0"), set()),
    "layout": (of_module("larder.fingerprint.LAYOUT", 99), set()),
    "architectures": (hf(architectures=["OtherForCausalLM"]), set()),
    "model_type": (hf(model_type="other"), set()),
    "rope": (hf(rope_parameters={"rope_type": "dynamic", "rope_theta": 5e5}), set()),
    "rope_max_model_len": (model(max_model_len=8192), set()),
    "sliding_window": (hf(sliding_window=64), set()),
    "hf_overrides": (model(hf_overrides={"rope_theta": 1}), set()),
    "config": (hf(hidden_size=512), set()),
    "weights": (option(weights_id="v"), set()),
    "dtype": (model(dtype=torch.float16), set()),
    "kv_cache_dtype": (cache(cache_dtype="fp8_e4m3"), set()),
    "quantization": (model(quantization="awq"), set()),
    "kv_scales": (cache(kv_cache_dtype_skip_layers=["0"]), set()),
    "attention_backend": (of_module(CPU + "CPUAttentionBackend.get_name", staticmethod(lambda: "OTHER")), set()),
    "attention_kernel": (of_module(CPU + "_get_attn_isa", lambda *_: "amx"), set()),
    "kv_cache_layout": (pools(kv_cache_layout="BLHNC"), set()),
    "parallel": (parallel(tensor_parallel_size=2), set()),
    "block_size": (pages(block_size=64), {"layers"}),
    "hash_block_size": (pools(hash_block_size=64), set()),
    "chunk_tokens": (option(chunk_tokens=256), {"layers"}),
    "hash_algorithm": (cache(prefix_caching_hash_algo="sha256_cbor"), {"none_hash"}),
    "none_hash": (lambda engine: engine.monkeypatch.setenv("PYTHONHASHSEED", "7"), set()),
    "layers": (layer_names, set()),
}
MORE = {
    "a stage more": ("parallel", parallel(pipeline_parallel_size=2), {"layers"}),
    "replicated KV heads": ("parallel", pools(kv_tp_replicas=1), set()),
    "pages of another size": ("layers", pages(page_size_bytes=4096), set()),
    "heads of another size": ("layers", pages(head_size=64), set()),
    "another kind of KV quantisation": ("layers", pages(kv_quant_mode="per_token"), set()),
    "weights quantised at the start": ("quantization", model(quantization_config={"bits": 4}), set()),
    "a quantised checkpoint": ("quantization", hf(quantization_config={"bits": 4}), set()),
}
ALL = {**{field: (field, *change) for field, change in CHANGES.items()}, **MORE}


@pytest.fixture
def fingerprint_with(monkeypatch):
    """Text of an engine's fingerprint after a change, with nothing that this machine decides."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.setattr(CPU + "_get_attn_isa", lambda *_: "vec")

    def text(change=lambda engine: None):
        engine = config(named(chunk_tokens=128))
        hf(rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0})(engine)
        engine.pages = caches(spec())
        engine.pages.hash_block_size, engine.pages.kv_tp_replicas = 128, 2
        engine.parallel_config.tensor_parallel_size = 4
        engine.monkeypatch = monkeypatch
        change(engine)
        return setup_of(engine, engine.pages).fingerprint

    return text


def test_every_field_has_its_change():
    assert set(CHANGES) == set(fingerprint.FIELDS) - {"engine"}, "the connector is vLLM's: no setting changes that field"


@pytest.mark.parametrize("what", ALL)
def test_one_thing_changed_is_another_namespace_and_named(what, fingerprint_with):
    field, change, others = ALL[what]
    one = fingerprint_with()
    assert one == fingerprint_with()
    other = fingerprint_with(change)
    assert {name.split(".")[0] for name in fingerprint.differing_fields(one, other)} == {field, *others}
