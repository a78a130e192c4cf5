"""The attention of an engine's layers: by vLLM's choice for a scheduler without layers, and by the
workers' reports.

vLLM's own layers and selection. vLLM's GPU backends are not here: stand-ins are chosen."""

import time
from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from fakes import Client, Request, blocks, ended, setup, step  # noqa: E402
from vllm.config import CacheConfig, VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.v1.attention import selector  # noqa: E402
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    get_kv_quant_mode,
)  # noqa: E402
from worker_fakes import Client as WorkerClient  # noqa: E402
from worker_fakes import move  # noqa: E402

from larder.fingerprint import differing_fields  # noqa: E402
from larder.vllm import attention_kernels, naming  # noqa: E402
from larder.vllm.adapters import NotYet  # noqa: E402
from larder.vllm.attention_kernels import Attention, attention_of, attention_of_worker  # noqa: E402
from larder.vllm.messages import StepWork, WorkerReport  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402


class Backend:
    """The attributes of a layer that Larder reads."""

    @staticmethod
    def get_name():
        return "BACKEND"

    @staticmethod
    def supports_alibi_sqrt():
        return False

    @staticmethod
    def get_supported_kernel_block_sizes(spec=None):
        return [16, 32]


class Other(Backend):
    @staticmethod
    def get_name():
        return "OTHER"


def spec(kind=FullAttentionSpec, head=64, **more):
    return kind(block_size=64, num_kv_heads=1, head_size=head, dtype=torch.bfloat16, **more)


def engine(model_type="llama", layers=None, **cache):
    text = Fake(model_type=model_type)
    model = Fake(
        dtype=torch.bfloat16,
        hf_text_config=text,
        is_mm_prefix_lm=False,
        get_num_attention_heads=lambda _: 12,
    )
    made = VllmConfig(cache_config=CacheConfig(**cache))
    made.compilation_config.static_forward_context = layers or {}
    object.__setattr__(made, "model_config", model)
    return made


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(attention_kernels, "_by_machine", lambda _: False)


@pytest.fixture
def asked(gpu, monkeypatch):
    """Each call of vLLM's selection, by the names of its arguments."""
    calls = []

    def select(head_size, dtype, kv_cache_dtype, use_mla=False, has_sink=False, use_sparse=False,
               use_mm_prefix=False, use_per_head_quant_scales=False, attn_type=None,
               num_heads=None, has_sliding_window=False):  # fmt: skip
        calls.append({name: value for name, value in locals().items() if name != "calls"})
        return Backend

    monkeypatch.setattr(selector, "get_attn_backend", select)
    import vllm.model_executor.layers.attention.attention as layer

    monkeypatch.setattr(layer, "get_attn_backend", select)
    return calls


def groups_of(*specs):
    return tuple(
        Fake(spec=one, layers=(f"model.layers.{i}.attn",), block_size=one.block_size)
        for i, one in enumerate(specs)
    )


CACHES = Fake(kv_cache_tensors=())


class TestGuess:
    @pytest.mark.parametrize(
        ("window", "cache"),
        [
            (None, {}),
            (64, {}),
            (None, {"cache_dtype": "fp8"}),
            (64, {"cache_dtype": "fp8", "kv_cache_dtype_skip_layers": ["sliding_window"]}),
        ],
    )
    def test_the_selection_gets_the_arguments_of_the_layer(self, asked, window, cache):
        """vLLM's own layer is made, and the call compared."""
        from vllm.model_executor.layers.attention.attention import Attention as Layer

        config, before = engine(**cache), torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with set_current_vllm_config(config):
                Layer(
                    12,
                    64,
                    1.0,
                    num_kv_heads=1,
                    cache_config=config.cache_config,
                    per_layer_sliding_window=window,
                    prefix="model.layers.0.attn",
                )
        except Exception:  # the selection counts; this machine may have no such kernel
            pass
        finally:
            torch.set_default_dtype(before)
        (of_layer,) = asked
        quant = get_kv_quant_mode(of_layer["kv_cache_dtype"])
        like = (
            spec(kv_quant_mode=quant)
            if window is None
            else spec(SlidingWindowSpec, sliding_window=window, kv_quant_mode=quant)
        )
        config.compilation_config.static_forward_context.clear()
        attention_of(config, CACHES, groups_of(like))
        of_layer["attn_type"] = None  # "decoder", which the selection takes for None
        assert asked[1] == of_layer

    def test_mla_and_sinks_are_selected(self, asked):
        attention_of(engine("deepseek_v3"), CACHES, groups_of(spec(MLAAttentionSpec, 576)))
        attention_of(engine("gpt_oss"), CACHES, groups_of(spec()))
        assert asked[0]["use_mla"] and asked[0]["num_heads"] == 12 and not asked[0]["use_sparse"]
        assert asked[1]["has_sink"]

    def test_each_group_is_selected_separately(self, asked):
        found = attention_of(
            engine(), CACHES, groups_of(spec(), spec(SlidingWindowSpec, sliding_window=64))
        )
        assert [one["has_sliding_window"] for one in asked] == [False, True]
        assert found == Attention(("BACKEND", "BACKEND"), ("device", "device"), (32, 32))

    @pytest.mark.parametrize(
        "error",
        [
            ValueError("No valid attention backend"),
            AssertionError(),
            ImportError("flash_attn"),
            RuntimeError("NVML"),
        ],
    )
    def test_a_selection_that_raises_is_left_to_the_workers(self, gpu, monkeypatch, error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(selector, "get_attn_backend", fail)
        assert attention_of(engine(), CACHES, groups_of(spec())) is None

    def test_a_process_with_the_layers_asks_them_and_selects_nothing(self, asked):
        layers = {"model.layers.0.attn": Fake(get_attn_backend=lambda: Other)}
        assert attention_of(engine(layers=layers), CACHES, groups_of(spec())).backends == ("OTHER",)
        assert attention_of_worker(engine(layers=layers), groups_of(spec()), (16,)) == Attention(
            ("OTHER",), ("device",), (16,)
        )
        assert not asked


def attention(backend="A", block=32):
    return Attention((backend,), ("device",), (block,))


def test_another_backend_kernel_or_block_is_another_name():
    texts = [attention(), attention("B"), attention(block=16), Attention(("A",), ("amx",), (32,))]
    assert len({one.text() for one in texts}) == 4
    assert differing_fields(attention().text(), attention(block=16).text()) == ["kernel_block_size"]


def test_workers_that_differ_in_different_steps_have_no_name_either(named):
    naming_of = named(None)
    assert naming_of.correct({attention("A")}) and naming_of.poll() is not None
    assert not naming_of.correct({attention("A")}), "no news"
    assert naming_of.correct({attention("B")})
    with pytest.raises(naming.Unsupported, match="differ in the attention of their layers"):
        naming_of.poll()


@pytest.fixture
def named(monkeypatch):
    """Naming of an engine with known weights."""
    reader = Fake(start=lambda: None, stop=lambda: None, poll=lambda: "w", log_lines=lambda: ())
    monkeypatch.setattr(naming, "WeightsReader", lambda *_, **__: reader)
    monkeypatch.setattr(naming, "weights_source", lambda _: None)
    monkeypatch.setattr(naming, "configuration_of", lambda _: ({}, set()))
    return lambda guess: naming.Naming(setup(attention=guess), None)


# covers F-071, F-354
def test_files_of_the_users_own_process_are_held_against_its_plug_ins(monkeypatch):
    """Of an engine without a process of its own: vLLM calls its plug-ins before it reads
    weights."""
    monkeypatch.setattr(naming.vllm_plugin, "_called_at", None)
    assert naming.vllm_plugin.called_at() is None
    assert naming._earliest_load() is None, "the process may write the files and then make engines"
    naming.vllm_plugin.register()
    called = naming.vllm_plugin.called_at()
    assert time.time() - 60 < called == naming._earliest_load()
    naming.vllm_plugin.register()
    assert naming.vllm_plugin.called_at() == called, "the first call counts"
    monkeypatch.setattr(naming.multiprocessing, "parent_process", lambda: "vLLM")
    assert time.time() - 10_000 < naming._earliest_load() < called, "a process for the engine"


# covers F-056
def test_missing_worker_reports_are_logged_once(named, monkeypatch, caplog):
    now, naming_of = [100.0], named(None)
    monkeypatch.setattr(naming.time, "monotonic", lambda: now[0])
    with caplog.at_level("WARNING", logger=naming.logger.name):
        for at in (100.0, 159.0):
            now[0] = at
            assert naming_of.poll() is None and not caplog.records
        for at in (160.0, 300.0):
            now[0] = at
            assert naming_of.poll() is None
        assert [
            record.getMessage().startswith(
                "Larder: the workers have not all reported their layers within 60 s"
            )
            for record in caplog.records
        ] == [True]
        naming_of.correct({attention("A")})
        assert naming_of.poll(), "a late report names the engine all the same"


class World:
    """Both halves: the scheduler's guess, and the workers' layers."""

    def __init__(self, naming, guess, actual, monkeypatch):
        self.client, self.worker_client = Client(), WorkerClient()
        self.half = LarderConnectorScheduler(setup(attention=guess), self.client, naming(guess))
        self.worker = LarderConnectorWorker(setup(attention=guess), self.worker_client)
        monkeypatch.setattr("larder.vllm.worker.attention_of_worker", lambda *_: actual)
        monkeypatch.setattr("larder.vllm.worker.pages.register", lambda *_: actual.blocks)
        monkeypatch.setattr("larder.vllm.worker.stream_of", lambda _: None)
        self.worker.register_kv_caches({}, vllm_config=object())

    def step(self, **scheduled):
        work = self.half.build_connector_meta(step(**scheduled))
        self.worker.bind_connector_metadata(work)
        self.worker.wait_for_save()
        self.half.update_connector_output(ended(meta=self.worker.report()))
        return work

    def run(self, name, tokens=128):
        request = Request(name, range(tokens))
        self.half.get_num_new_matched_tokens(request, 0)
        self.half.update_state_after_alloc(request, blocks(range(1, tokens // 32 + 1)), 0)
        self.step(new=[(name, 0, tokens)], tables={name: range(1, tokens // 32 + 1)})
        return request


class TestNames:
    @pytest.mark.parametrize("guess", [None, attention("GUESS"), attention(block=16)])
    # covers F-056
    def test_the_workers_layers_name_the_engine(self, named, monkeypatch, guess):
        world = World(named, guess, attention(), monkeypatch)
        first = world.run("first")
        assert not world.worker_client.begun and not world.worker_client.namespaces, (
            "under a wrong name no chunk is stored"
        )
        request = world.run("second")
        assert world.half.off is None and world.worker.off is None
        assert len(world.worker_client.begun) == 1
        world.step(cached=[("first", 128, 1)], tables={"first": range(1, 5)})
        # the first request's too, if the request had a name
        assert len(world.worker_client.begun) == 1 + (guess is not None)
        (text,) = world.worker_client.namespaces
        assert attention().text() in text and list(world.client.open) == [text]
        number = world.client.open[text]
        world.client.stored.update(
            key if number == 0 else (number, key) for key in request.block_hashes
        )
        assert (
            world.half.get_num_new_matched_tokens(Request("third", first.tokens + [1]), 0)[0] == 128
        )

    def test_a_request_whose_adapter_is_read_anew_is_left_out(self, named, monkeypatch):
        world = World(named, attention("GUESS"), attention(), monkeypatch)

        def not_yet(_):
            raise NotYet

        request = Request("r", range(128))
        world.half.get_num_new_matched_tokens(request, 0)
        world.half.update_state_after_alloc(request, blocks(range(1, 5)), 0)
        monkeypatch.setattr(world.half._names, "of", not_yet)
        world.step(new=[("r", 0, 128)], tables={"r": range(1, 5)})
        assert world.half.off is None and not world.half._tracked

    def test_a_right_guess_names_the_engine_from_the_first_step(self, named, monkeypatch):
        world = World(named, attention(), attention(), monkeypatch)
        world.run("first")
        assert len(world.worker_client.begun) == 1 and len(world.client.namespaces) == 1

    # covers F-056
    def test_a_load_that_was_planned_under_the_wrong_name_fails(self, named, monkeypatch):
        world = World(named, attention("GUESS"), attention(), monkeypatch)
        request = Request("r", range(128))
        world.client.stored.update(request.block_hashes)
        assert world.half.get_num_new_matched_tokens(Request("r", [*range(128), 1]), 0)[0] == 128
        world.worker.bind_connector_metadata(
            StepWork(namespace=world.half._text, loads=[move("r")])
        )
        assert not world.worker_client.loads
        ended_, failed = world.worker.get_transfer_results()
        assert failed == {"r"} and world.worker.off is None

    # covers F-057
    def test_workers_that_differ_have_no_name(self, named, monkeypatch):
        world = World(named, attention(), attention(), monkeypatch)
        both = WorkerReport(attention=frozenset([attention()])).aggregate(
            WorkerReport(attention=frozenset([attention("B")]))
        )
        world.half.update_connector_output(ended(meta=both))
        assert "differ in the attention of their layers" in world.half.off

    def test_attention_is_reported_once(self, named, monkeypatch):
        world = World(named, attention(), attention(), monkeypatch)
        assert world.worker.report().attention and world.worker.report() is None


def test_other_facts_that_differ_are_a_fault():
    half = LarderConnectorWorker(setup(attention=attention()), WorkerClient())
    half.bind_connector_metadata(StepWork(namespace="engine: other\n" + attention().text()))
    assert "derived different fingerprints: engine" in half.off
