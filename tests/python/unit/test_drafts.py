"""Which speculative decoding takes part, on stand-ins and on this vLLM's own configurations."""

from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")

from larder.vllm.drafts import drafts_of, has_kv  # noqa: E402
from larder.fingerprint import differing_fields  # noqa: E402
from larder.vllm.groups import Unsupported  # noqa: E402
from larder.vllm.identity import text_of  # noqa: E402
from larder.vllm.model_source import weights_source  # noqa: E402
from larder.weights_source import files_of  # noqa: E402


def config(method, parallel=None, lookahead=0, load="auto", **fields):
    draft = Fake(max_model_len=2048, hf_text_config=Fake(num_hidden_layers=1))
    speculative = dict(
        method=method, num_speculative_tokens=3, draft_model_config=draft, draft_load_config=None
    )
    return Fake(
        speculative_config=Fake(
            **{**speculative, "draft_parallel_config": Fake(tensor_parallel_size=1), **fields}
        ),
        parallel_config=Fake(
            **{"tensor_parallel_size": 1, "pipeline_parallel_size": 1, **(parallel or {})}
        ),
        model_config=Fake(max_model_len=4096),
        load_config=Fake(load_format=load),
        num_prefill_lookahead_tokens=lookahead,
    )


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu", "suffix"])
def test_methods_without_kv_are_served_whatever_they_are_set_to(method):
    assert (
        drafts_of(
            config(
                method,
                {"pipeline_parallel_size": 2},
                num_speculative_tokens_per_batch_size=[(1, 2, 3)],
            )
        )
        is None
    )
    assert not has_kv(None) and drafts_of(Fake(speculative_config=None)) is None


REFUSED = [
    (
        {"method": "dflash"},
        "by dflash is not served yet, only ngram, ngram_gpu, suffix, draft_model, eagle, eagle3, "
        "mtp",
    ),
    ({"method": "dspark"}, "by dspark is not served yet"),
    ({"method": "extract_hidden_states"}, "by extract_hidden_states is not served yet"),
    ({"method": "custom_class"}, "by custom_class is not served yet"),
    ({"method": "of a newer vLLM"}, "by of a newer vLLM is not served yet"),
    (
        {"method": "mtp", "use_gemma4_mtp": lambda: True},
        "by mtp with layers that share the target's KV is not served yet",
    ),
    (
        {"method": "mtp", "use_step3p5_mtp": lambda: True},
        "by mtp with layers that share the target's KV is not served yet",
    ),
    (
        {"method": "mtp", "use_multi_module_mtp": lambda: True},
        "by mtp with several modules is not served yet",
    ),
    (
        {"method": "eagle", "num_speculative_tokens_per_batch_size": [(1, 2, 3)]},
        "by eagle with num_speculative_tokens_per_batch_size is not",
    ),
    (
        {"method": "draft_model", "use_heterogeneous_vocab": True},
        "by draft_model with use_heterogeneous_vocab is not served yet",
    ),
    (
        {"method": "eagle3", "parallel": {"pipeline_parallel_size": 2}},
        "by eagle3 with pipeline_parallel_size 2 is not served yet: the last",
    ),
    (
        {"method": "draft_model", "parallel": {"tensor_parallel_size": 2}},
        "draft_tensor_parallel_size 1 beside tensor_parallel_size 2 is not",
    ),
    (
        {"method": "eagle", "draft_load_config": Fake(load_format="dummy")},
        "with dummy weights in the draft model alone is not served",
    ),
]


@pytest.mark.parametrize(
    ("fields", "words"), REFUSED, ids=lambda one: one if isinstance(one, str) else None
)
def test_refused_methods_have_a_reason(fields, words):
    with pytest.raises(Unsupported, match=f"speculative decoding .*{words}"):
        drafts_of(config(**fields))


def test_a_vllm_that_does_not_tell_its_lookahead_is_refused():
    other = config("eagle")
    del other.num_prefill_lookahead_tokens, other.speculative_config.draft_load_config
    with pytest.raises(Unsupported, match="num_prefill_lookahead_tokens"):
        drafts_of(other)


class TestOfThisVllm:
    """A Llama with a draft model of its own shape or of another one."""

    @pytest.fixture(scope="class")
    def made(self, models):
        from vllm.engine.arg_utils import EngineArgs

        def made(draft, target="llama", **fields):
            speculative = {
                "method": "draft_model",
                "model": str(models(draft)),
                "num_speculative_tokens": 3,
                **fields,
            }
            own = {"max_model_len": 2048, "skip_tokenizer_init": True, "enforce_eager": True}
            return EngineArgs(
                model=str(models(target)), speculative_config=speculative, **own
            ).create_engine_config()

        return made

    @pytest.fixture(scope="class")
    def text(self, made):
        return lambda draft, **fields: text_of("engine: vllm\n", made(draft, **fields))

    @pytest.mark.parametrize(
        "fields",
        [
            {"num_speculative_tokens": 2},
            {"rejection_sample_method": "block"},
            {"max_model_len": 300},
            {"disable_padded_drafter_batch": True},
        ],
    )
    def test_settings_without_effect_on_draft_kv_share(self, text, fields):
        assert differing_fields(text("llama"), text("llama", **fields)) == []

    def test_settings_with_effect_on_draft_kv_separate(self, text, made, models):
        assert "configuration" in differing_fields(text("llama"), text("qwen2"))
        for name, value in (("quantization", "fp8"), ("dtype", "float16")):
            other = made("llama")
            before = text_of("", other)
            setattr(other.speculative_config.draft_model_config, name, value)
            assert differing_fields(before, text_of("", other)) != [], name

    def test_the_weights_of_both_models_count(self, made, models):
        target, draft = str(models("llama")), str(models("qwen2"))
        source = weights_source(made("qwen2"))
        assert (source.model, [one.model for one in source.others]) == (target, [draft])
        files = files_of(source)
        assert {path.split("/")[-1] for name, path in files if name.startswith("0:")} >= {
            "config.json",
            "model.safetensors",
        }
        assert weights_source(made("llama")).others == (), "one model is read once"

    def test_weights_id_names_the_model_alone(self, made, models, monkeypatch):
        from fakes import setup

        from larder.vllm import naming
        from larder.vllm.attention_kernels import Attention
        from larder.vllm.naming import Naming

        # This process writes the models itself.
        monkeypatch.setattr(naming, "_earliest_load", lambda: None)

        def weights(draft, **changes):
            naming = Naming(
                setup(weights_id="w", attention=Attention(("A",), ("rows",), (32,)), **changes),
                made("llama", model=str(draft)),
            )
            try:
                return naming.poll(wait_s=60).splitlines()[-1]
            finally:
                naming.stop()

        assert weights(models("llama")) == "weights: named w", "the draft model is the model"
        lines = {weights(models("llama_small", seed)) for seed in (3, 4)}
        assert len(lines) == 2 and all(
            line.startswith("weights: named w, draft ") for line in lines
        )
