"""The refusals of the connector, by name, and the derived setup; on stand-ins for vLLM's
configuration."""

import os
from contextlib import nullcontext
from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402

from setup_fakes import CrossAttentionSpec, SlidingWindowSpec, caches, config, named, spec  # noqa: E402

from larder.fingerprint import differing_fields  # noqa: E402
from larder.vllm.drafts import Drafts  # noqa: E402
from larder.vllm.setup import Unsupported, check_scales, setup_of  # noqa: E402


@pytest.mark.parametrize(
    ("block_size", "extra", "chunk"),
    [
        (16, {}, 256),
        (32, {}, 256),
        (128, {}, 128),
        (256, {}, 256),
        (32, {"chunk_tokens": 64}, 64),
        (128, {"chunk_tokens": 512}, 512),
    ],
)
def test_chunks(block_size, extra, chunk):
    setup = setup_of(config(named(**extra)), caches(spec(block_size=block_size)))
    assert (setup.chunk_tokens, setup.groups[0].blocks) == (chunk, chunk // block_size)
    assert f"chunk_tokens: {chunk}\n" in setup.facts


# covers F-464
def test_tails_add_groups_of_pieces_where_hits_may_end_inside_a_chunk():
    whole = setup_of(config(named()), caches(spec(block_size=32)))
    setup = setup_of(config(named(tails=True)), caches(spec(block_size=32)))
    assert setup.facts == whole.facts and setup.token_groups == whole.groups
    assert (setup.tails, setup.pieces.per_chunk, setup.tails_refused) == (1, 8, "")
    assert (whole.tails, whole.pieces, whole.tails_refused) == (0, None, "")
    window = setup_of(config(named(tails=True)), caches(spec(), spec(SlidingWindowSpec)))
    assert (window.tails, window.pieces) == (0, None) and "window" in window.tails_refused
    one = setup_of(config(named(tails=True)), caches(spec(block_size=128)))
    assert (one.tails, one.pieces, one.tails_refused) == (0, None, ""), "a chunk of one block"


def test_the_served_name_falls_back_to_the_folder():
    assert setup_of(config(named()), caches(spec())).model == "model"


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (named(sokcet="x"), "unknown key sokcet"),
        (named(tails=1), "tails in kv_connector_extra_config must be true or false, not 1"),
        (named(fetch="off"), "fetch in kv_connector_extra_config must be true or false, not 'off'"),
        (named(chunk_tokens=100), "no multiple of the block size 128"),
        (named(min_tokens="5"), "min_tokens"),
        (named(copy_threads=-1), "copy_threads"),
        ({"weights_id": 5}, "weights_id in kv_connector_extra_config must be a text, not 5"),
        ({"weights_id": " "}, "weights_id in kv_connector_extra_config must be a text"),
        (named(socket=5), "socket in kv_connector_extra_config must be a text, not 5"),
        (
            named(socket="/run/" + "x" * 103),
            "socket in kv_connector_extra_config is no path of a Unix socket, "
            "which has 107 bytes at most: '/run/xxx",
        ),
        (named(socket="/run/" + "ü" * 52), "107 bytes at most"),
        (named(socket="/run/\0"), "is no path of a Unix socket"),
        (
            named(traces_endpoint=True),
            "traces_endpoint in kv_connector_extra_config must be a text",
        ),
        *(
            (
                named(traces_endpoint=url),
                "traces_endpoint in kv_connector_extra_config must be the URL",
            )
            for url in (
                "collector:4318",
                "grpc://collector:4317",
                "http://",
                "http://c:x",
                "/v1/traces",
            )
        ),
    ],
)
def test_bad_options_are_named(extra, reason):
    with pytest.raises(Unsupported, match=reason):
        setup_of(config(extra), caches(spec()))


@pytest.mark.parametrize(
    ("option", "variable", "endpoint"),
    [
        ({}, "", ""),
        ({}, "http://c:4318", "http://c:4318/v1/traces"),
        ({"traces_endpoint": "https://c/"}, "http://no", "https://c/v1/traces"),
        ({"traces_endpoint": "http://c:4318/otlp/v1/traces"}, "", "http://c:4318/otlp/v1/traces"),
    ],
)
def test_the_endpoint_of_traces(monkeypatch, option, variable, endpoint):
    """The endpoint is no part of the names of KV."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://never:4318")
    plain = setup_of(config(named()), caches(spec()))
    monkeypatch.setenv("LARDER_TRACES_ENDPOINT", variable)
    made = setup_of(config(named(**option)), caches(spec()))
    assert (made.traces_endpoint, made.facts) == (endpoint, plain.facts)


@pytest.mark.parametrize("size", ["prefill_context_parallel_size", "decode_context_parallel_size"])
def test_context_parallel_is_refused(size):
    with pytest.raises(Unsupported, match=f"{size} 2 is not served yet"):
        setup_of(config(named(), **{size: 2}), caches(spec()))


def test_drafts_beside_kv_that_vllm_computes_anew_are_refused(monkeypatch):
    monkeypatch.setattr("larder.vllm.setup.drafts_of", lambda _: Drafts("mtp", 1, 4096, None))
    assert setup_of(config(named()), caches(spec())).lookahead == 1
    monkeypatch.setattr("larder.vllm.setup.is_rebuilt", lambda _: True)
    with pytest.raises(
        Unsupported,
        match=(
            "speculative decoding by mtp with KV that vLLM computes anew behind a hit is not "
            "served yet"
        ),
    ):
        setup_of(config(named()), caches(spec()))


# covers F-082
def test_other_kinds_of_kv_are_refused():
    with pytest.raises(Unsupported, match="CrossAttentionSpec is not served yet"):
        setup_of(config(named()), caches(spec(), spec(CrossAttentionSpec)))


def test_a_vllm_that_is_told_of_failed_loads_by_page_has_one_group_alone(monkeypatch):
    from vllm.distributed.kv_transfer.kv_connector.v1 import base

    assert not setup_of(config(named()), caches(spec())).fails_by_page
    monkeypatch.delattr(base, "KVConnectorTransferResults")  # as in vLLM 0.29 and older
    assert setup_of(config(named()), caches(spec())).fails_by_page
    with pytest.raises(Unsupported, match="failed loads of several KV groups"):
        setup_of(config(named()), caches(spec(), spec(SlidingWindowSpec)))


def on(monkeypatch, device):
    """vLLM takes itself to be on such a device. No code runs on the device."""
    from vllm import platforms
    from vllm.v1.attention import selector

    platform = Fake(
        device_type=device, is_cpu=lambda: device == "cpu", is_cuda=lambda: device == "cuda"
    )
    monkeypatch.setattr(platforms, "current_platform", platform)
    monkeypatch.setattr(
        selector,
        "get_attn_backend",
        lambda *_, use_mla, **__: Fake(get_name=lambda: "MLA" if use_mla else "FLASH_ATTN"),
    )
    monkeypatch.setattr("vllm.config.set_current_vllm_config", lambda _: nullcontext())


def test_pages_on_a_cuda_device_are_served_and_shared_with_those_of_its_backend_alone(monkeypatch):
    of_cpu = setup_of(config(named()), caches(spec())).attention.text()
    on(monkeypatch, "cuda")
    of_cuda = setup_of(config(named()), caches(spec(block_size=16)))
    assert (of_cuda.chunk_tokens, of_cuda.groups[0].blocks) == (256, 16)
    assert "attention_backend: FLASH_ATTN\n" in of_cuda.attention.text()
    same_block = setup_of(config(named()), caches(spec()))
    assert differing_fields(of_cpu, same_block.attention.text()) == [
        "attention_backend",
        "attention_kernel",
    ]


@pytest.mark.parametrize("device", ["rocm", "xpu", "tpu"])
def test_pages_on_other_devices_are_refused(monkeypatch, device):
    on(monkeypatch, device)
    with pytest.raises(
        Unsupported, match=f"KV pages on {device} are not served yet, only on cpu and cuda"
    ):
        setup_of(config(named()), caches(spec()))


@pytest.mark.parametrize("layout", ["LBHNC", "LBNHC", "BLHNC", "BLNHC", None])
def test_layouts_that_keep_a_block_together_are_served(layout):
    found = caches(spec())
    found.kv_cache_layout = layout
    setup_of(config(named()), found)


@pytest.mark.parametrize("layout", ["LHBNC", "BHLNC"])
def test_layouts_that_take_a_block_apart_are_refused(layout):
    """Unless a layer has one head: MLA, or one KV head a rank."""
    found = caches(spec())
    found.kv_cache_layout = layout
    with pytest.raises(Unsupported, match=f"the KV layout {layout} takes a block apart"):
        setup_of(config(named()), found)
    found.kv_cache_groups[0].kv_cache_spec.num_heads = 1
    setup_of(config(named()), found)
    found = caches(spec(), spec(SlidingWindowSpec))
    found.kv_cache_layout = layout
    found.kv_cache_groups[0].kv_cache_spec.num_heads = 1
    with pytest.raises(Unsupported, match=f"the KV layout {layout} takes a block apart"):
        setup_of(config(named()), found)


# covers F-055
def test_ranks_with_a_scheduler_each_are_refused():
    with pytest.raises(Unsupported, match="an external_launcher starts have a scheduler each"):
        setup_of(
            config(named(), distributed_executor_backend="external_launcher", world_size=2),
            caches(spec()),
        )


@pytest.mark.parametrize(
    "fields",
    [
        dict(nnodes_within_dp=1, data_parallel_size=2),
        dict(distributed_executor_backend="external_launcher", world_size=1),
        dict(distributed_executor_backend="ray", world_size=2),
        dict(nnodes_within_dp=2, tensor_parallel_size=2),
    ],
)
def test_ranks_of_one_scheduler_are_served(fields):
    setup = setup_of(config(named(), **fields), caches(spec()))
    assert setup.data_parallel == ("data_parallel_size" in fields)
    assert setup.spread == ("tensor_parallel_size" in fields)


@pytest.mark.parametrize(
    ("v2", "zeroing", "zeroes"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_blocks_are_held_where_the_second_runner_zeroes_them(v2, zeroing, zeroes):
    vllm_config, found = config(named()), caches(spec())
    vllm_config.use_v2_model_runner, found.needs_kv_cache_zeroing = v2, zeroing
    setup = setup_of(vllm_config, found)
    assert (setup.v2_runner, setup.zeroes) == (v2, zeroes)


def test_padding_of_pages_is_not_stored():
    found = caches(spec())
    found.kv_cache_groups[0].kv_cache_spec.unpadded_page_size_bytes = 128 * 384
    setup = setup_of(config(named()), found)
    assert setup.groups[0].page_bytes == 128 * 384


def test_the_layouts_are_those_of_this_vllm():
    from vllm.v1.kv_cache_layout import KVCacheLayout

    from larder.vllm import setup

    assert {layout.name for layout in KVCacheLayout if layout.is_block_compact} == set(
        setup._LAYOUTS
    )


def test_an_engine_that_may_sleep_has_the_namespace_of_one_that_may_not():
    found = []
    for asleep in (False, True):
        vllm_config = config(named())
        vllm_config.model_config.enable_sleep_mode, vllm_config.model_config.sleep_mode_backend = (
            asleep,
            "cumem",
        )
        found.append(setup_of(vllm_config, caches(spec())))
    assert found[0] == found[1]


def test_sleep_by_another_backend_is_refused():
    vllm_config = config(named())
    vllm_config.model_config.enable_sleep_mode, vllm_config.model_config.sleep_mode_backend = (
        True,
        "criu",
    )
    with pytest.raises(Unsupported, match="sleep mode by the backend criu"):
        setup_of(vllm_config, caches(spec()))


@pytest.mark.parametrize(
    "dtype", ["int4_per_token_head", "int8_per_token_head", "fp8_per_token_head", "fp8"]
)
@pytest.mark.parametrize(
    ("v2", "warms_up", "fills_late"),
    [(False, True, True), (True, False, True), (True, True, False)],
)
def test_scales_that_the_first_pass_overwrites_are_refused(
    monkeypatch, models, dtype, v2, warms_up, fills_late
):
    """vLLM's own configuration. vLLM's Triton kernels set the scales of all tokens to 1 at the
    first pass that sees the cache. Without a warm-up this is a request's pass behind its load."""
    from vllm.config import vllm as of_engine
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.kv_cache_interface import FullAttentionSpec as Spec
    from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, get_kv_quant_mode

    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", str(int(v2)))
    monkeypatch.setattr(of_engine, "HAS_TRITON", True)
    vllm_config = EngineArgs(
        model=str(models("llama")), kv_cache_dtype=dtype, enforce_eager=not warms_up
    ).create_engine_config()
    of_layer = Spec(
        block_size=16,
        num_kv_heads=4,
        head_size=32,
        dtype=torch.int8,
        kv_quant_mode=get_kv_quant_mode(dtype),
    )
    found = KVCacheConfig(
        num_blocks=8, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer.0"], of_layer)]
    )
    refused = (
        pytest.raises(Unsupported, match=f"KV scales of {dtype} are set to 1")
        if fills_late and dtype != "fp8"
        else nullcontext()
    )
    with refused:
        check_scales(vllm_config, found)


def test_an_engine_with_such_scales_is_off(monkeypatch):
    vllm_config, found = config(named()), caches(spec())
    vllm_config.cache_config.cache_dtype = "int8_per_token_head"
    found.kv_cache_groups[0].kv_cache_spec.kv_quant_mode = Fake(is_per_token_head=True)
    with pytest.raises(Unsupported, match="KV scales of int8_per_token_head are set to 1"):
        setup_of(vllm_config, found)


def test_a_vllm_that_does_not_tell_whom_it_preempts_is_refused(monkeypatch):
    from vllm.v1.core.sched.output import SchedulerOutput

    monkeypatch.delitem(SchedulerOutput.__dataclass_fields__, "preempted_req_ids")
    with pytest.raises(Unsupported, match="preempted_req_ids is missing"):
        setup_of(config(named()), caches(spec()))


def test_a_vllm_that_does_not_carry_what_workers_report_is_refused(monkeypatch):
    from vllm.distributed.kv_transfer.kv_connector.v1 import base

    monkeypatch.delattr(base, "KVConnectorWorkerMetadata")  # as in vLLM 0.15
    with pytest.raises(Unsupported, match="build_connector_worker_meta is missing"):
        setup_of(config(named()), caches(spec()))


def test_scales_calculated_at_run_time_are_refused():
    vllm_config = config(named())
    vllm_config.cache_config.calculate_kv_scales = True
    with pytest.raises(Unsupported, match="calculate_kv_scales"):
        setup_of(vllm_config, caches(spec()))


def test_stages_of_a_pipeline_reach_one_fingerprint_although_each_knows_its_own_layers():
    def text(*layers, **sizes):
        found = caches(spec(), spec(SlidingWindowSpec))
        for group, names in zip(found.kv_cache_groups, layers):
            group.layer_names = names
        return setup_of(config(named(), **sizes), found).facts

    one, other = (
        text(["l.0"], ["l.1"], pipeline_parallel_size=2),
        text(["l.2", "l.4"], ["l.3"], pipeline_parallel_size=2),
    )
    assert one == other and "stage 1 layers 2 to 4" in one
    assert text(["l.0"], ["l.1"]) != text(["l.2"], ["l.3"])


def test_speculation_other_than_ngram_is_refused():
    vllm_config = config(named())
    vllm_config.speculative_config = Fake(method="dflash")
    with pytest.raises(Unsupported, match="dflash"):
        setup_of(vllm_config, caches(spec()))
    vllm_config.speculative_config = Fake(method="ngram")
    setup_of(vllm_config, caches(spec()))


def test_weak_hashes_are_refused_unless_allowed_and_reproducible(monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    for extra, reason in (
        (named(), "allow_weak_hash"),
        (named(allow_weak_hash=True), "PYTHONHASHSEED"),
    ):
        vllm_config = config(extra)
        vllm_config.cache_config.prefix_caching_hash_algo = "xxhash"
        with pytest.raises(Unsupported, match=reason):
            setup_of(vllm_config, caches(spec()))


def test_a_vllm_that_would_start_its_hash_chain_at_random_is_given_a_seed(monkeypatch):
    from vllm.v1.core import kv_cache_utils

    monkeypatch.delattr(kv_cache_utils, "resolve_none_hash_seed")  # as in vLLM 0.24
    monkeypatch.delattr(kv_cache_utils, "NONE_HASH", raising=False)
    monkeypatch.setenv("PYTHONHASHSEED", "any")  # so that the variable is unset again afterwards
    monkeypatch.delenv("PYTHONHASHSEED")
    given = setup_of(config(named()), caches(spec())).facts
    assert os.environ.pop("PYTHONHASHSEED") == "0"
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert setup_of(config(named()), caches(spec())).facts == given
    monkeypatch.delenv("PYTHONHASHSEED")
    monkeypatch.setattr(kv_cache_utils, "NONE_HASH", b"random", raising=False)
    with pytest.raises(
        Unsupported, match="has started its hash chain at random; set PYTHONHASHSEED"
    ):
        setup_of(config(named()), caches(spec()))


def test_the_hash_seed_is_part_of_the_namespace(monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    unset = setup_of(config(named()), caches(spec())).facts
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    seeded = setup_of(config(named()), caches(spec())).facts
    assert differing_fields(unset, seeded) == ["none_hash"]


# covers F-066
def test_layers_that_attend_in_both_directions_are_refused():
    """HRM-Text and other prefix LMs: the KV of a chunk depends on the text behind the chunk."""
    both = spec()
    both.non_causal = True
    with pytest.raises(Unsupported, match="attend in both directions"):
        setup_of(config(named()), caches(both))


def engine(**model):
    made = config(named())
    made.model_config.__dict__.update(model)
    return made


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            {
                "is_prefix_caching_supported": False,
                "runner_type": "pooling",
                "pooler_config": Fake(seq_pooling_type="MEAN"),
            },
            "pooled by MEAN",
        ),
        ({"is_prefix_caching_supported": False, "attn_type": "encoder_decoder"}, "encoder_decoder"),
        ({"is_prefix_caching_supported": None}, "is_prefix_caching_supported is missing"),
        ({"is_diffusion": True}, "diffusion"),
        ({"rswa_window": 128}, "rswa_window"),
    ],
)
# covers F-066
def test_a_prefix_that_vllm_does_not_reuse_is_refused_with_the_reason(model, reason):
    with pytest.raises(Unsupported, match=reason):
        setup_of(engine(**model), caches(spec()))


# covers F-067
def test_prefix_caching_that_is_off_is_served_only_where_the_reason_is_harmless():
    """The user's own flag on a decoder that generates text, and MLA on a CPU, leave the KV of a
    prefix unchanged."""
    for model, served in (
        ({}, True),
        ({"runner_type": "pooling"}, False),
        ({"attn_type": "encoder_only"}, False),
    ):
        made = engine(**model)
        made.cache_config.enable_prefix_caching = False
        if served:
            setup_of(made, caches(spec()))
        else:
            with pytest.raises(Unsupported, match="vLLM has switched prefix caching off"):
                setup_of(made, caches(spec()))


def test_prefix_caching_that_vllm_switches_off_for_one_architecture_is_off_for_larder_too(
    monkeypatch,
):
    """Unlimited-OCR: the KV of a generated token is not that of the same token in a prompt."""
    served = []
    for architecture in ("UnlimitedOCRForCausalLM", "GptOssForCausalLM", "LlamaForCausalLM"):
        made = engine(architecture=architecture)
        made.cache_config.enable_prefix_caching = False
        try:
            setup_of(made, caches(spec()))
            served.append(architecture)
        except Unsupported as reason:
            assert "vLLM has switched prefix caching off" in str(reason)
    assert served == ["GptOssForCausalLM", "LlamaForCausalLM"]
    # for which vLLM has kernels that cannot continue a prefix
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    with pytest.raises(Unsupported, match="vLLM has switched prefix caching off"):
        setup_of(made, caches(spec()))


def test_an_engine_that_runs_an_encoder_alone_is_refused():
    made = engine()
    made.is_mm_encoder_only = True
    with pytest.raises(Unsupported, match="encoder alone"):
        setup_of(made, caches(spec()))


def test_a_socket_of_the_environment_that_is_too_long_is_named(monkeypatch):
    monkeypatch.setenv("LARDER_SOCKET", "/run/" + "x" * 102)
    assert setup_of(config(named()), caches(spec())).socket is None
    monkeypatch.setenv("LARDER_SOCKET", "/run/" + "x" * 103)
    with pytest.raises(Unsupported, match="^LARDER_SOCKET is no path of a Unix socket"):
        setup_of(config(named()), caches(spec()))
    monkeypatch.delenv("LARDER_SOCKET")
    assert setup_of(config(named(socket="")), caches(spec())).socket is None


def test_a_model_without_kv_is_refused_as_such():
    """BERT: vLLM gives no KV group."""
    encoder = engine(
        is_prefix_caching_supported=False, runner_type="pooling", attn_type="encoder_only"
    )
    with pytest.raises(
        Unsupported,
        match=(
            "^this model keeps no KV cache, as encoders and many embedding models: "
            "Larder has nothing to store"
        ),
    ):
        setup_of(encoder, Fake(kv_cache_groups=[], kv_cache_layout=None))
