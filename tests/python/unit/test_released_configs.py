"""The closed world over other releases of vLLM: every field of the configuration and every counted
variable is in the fingerprint, or on the list. The fields are recorded
(tests/python/models/config_fields.py); `make test-models` compares the records with the wheels."""

import dataclasses
from pathlib import Path

import config_fields
import pytest

vllm = pytest.importorskip("vllm")

from test_engine_config import LEAVES, is_listed  # noqa: E402

from larder.vllm import engine_config, engine_variables, identity  # noqa: E402

RECORDS = config_fields.records()
# Fields that the installed vLLM does not have, and that may change KV.
COUNTED = {
    "attention_config.use_fp4_indexer_cache", "attention_config.use_prefill_decode_attention",
    "cache_config.calculate_kv_scales", "cache_config.user_specified_mamba_block_size",
    "compilation_config.pass_config.enable_sp", "compilation_config.pass_config.fuse_gemm_comms",
    "compilation_config.pass_config.sp_min_token_num", "ec_transfer_config.ec_parallel_size",
    "ec_transfer_config.ec_rank", "model_config.override_attention_dtype",
    "parallel_config.sd_worker_cls", "attention_config.indexer_tp_shard_min_rows",
    "attention_config.minimax_m3_indexer_cp", "attention_config.trtllm_ragged_backend",
    "kernel_config.monokernel", "speculative_config.draft_model_config.override_attention_dtype",
    "speculative_config.draft_parallel_config.sd_worker_cls", "speculative_config.xpress_topc",
}  # fmt: skip
COUNTED_VARIABLES = {
    "K_SCALE_CONSTANT", "Q_SCALE_CONSTANT", "V_SCALE_CONSTANT", "VLLM_CPU_SGL_KERNEL",
    "VLLM_FLASHINFER_ALLREDUCE_FUSION_THRESHOLDS_MB", "VLLM_MM_HASHER_ALGORITHM",
    "VLLM_NIXL_EP_MAX_NUM_RANKS", "VLLM_PREFIX_CACHE_RETENTION_INTERVAL",
    "VLLM_ROCM_USE_AITER_PAGED_ATTN", "VLLM_TEST_FORCE_FP8_MARLIN", "VLLM_TPU_BUCKET_PADDING_GAP",
    "VLLM_TPU_MOST_MODEL_LEN", "VLLM_TRITON_ATTN_USE_TD", "VLLM_XPU_ENABLE_XPU_GRAPH",
    "VLLM_BEAM_ALWAYS_CONSTRAIN_OUTPUT", "VLLM_COHERE2_ATTN_MOE_DUAL_STREAM_TOKEN_THRESHOLD",
    "VLLM_ROCM_MUSE_MOE_ONLINE_QUANT", "VLLM_ROCM_MUSE_MOE_REDUCE_DTYPE",
    "VLLM_STEP5_SHARD_SP_SHARED_EXPERT",
}  # fmt: skip


def here():
    """The sources of the installed vLLM."""
    root = Path(vllm.__file__).parents[1]
    return {
        str(path.relative_to(root)): path.read_text()
        for path in [root / "vllm/envs.py", *(root / "vllm/config").rglob("*.py")]
    }


def is_within(path, paths):
    parts = path.split(".")
    return any(".".join(parts[:end]) in paths for end in range(1, len(parts) + 1))


INSTALLED = {path for path, *_ in LEAVES}


def with_leaf(path, value):
    """A configuration of parts within parts, in which one field has that value."""
    for name in reversed(path.split(".")):
        value = dataclasses.make_dataclass("Part", [name])(value)
    return value


def test_the_releases_are_those_that_are_tested():
    assert set(RECORDS) == {"0.24.0", "0.33.0"}
    assert all(
        len(record["fields"]) > 600 and len(record["variables"]) > 200
        for record in RECORDS.values()
    )


def test_reading_the_source_finds_the_fields_that_running_it_finds():
    """Parts that vLLM's configuration takes from elsewhere end earlier, as one field."""
    read = set(config_fields.fields_of(here()))
    assert [path for path in INSTALLED if not is_within(path, read)] == []
    assert [
        path
        for path in read
        if path not in INSTALLED and not any(one.startswith(f"{path}.") for one in INSTALLED)
    ] == []


def test_reading_the_source_finds_the_variables_that_running_it_finds():
    from vllm import envs

    assert {name for name in envs.compile_factors() if not name.startswith("RAY_")} == set(
        config_fields.variables_of(here())
    )


@pytest.mark.parametrize("release", RECORDS)
# covers F-065
def test_every_field_is_in_the_fingerprint_or_on_the_list(release):
    wrong = []
    for path in RECORDS[release]["fields"]:
        one, other = (engine_config.fields_of(with_leaf(path, value)) for value in (None, "other"))
        if (one == other) is not is_listed(path):
            wrong.append(path)
    assert wrong == []


@pytest.mark.parametrize("release", RECORDS)
# covers F-065
def test_every_field_that_the_installed_vllm_does_not_have_is_sorted(release):
    """An unlisted field costs hits until a person has read its purpose."""
    known = INSTALLED | {
        ".".join(path.split(".")[:end]) for path in INSTALLED for end in range(1, 6)
    }
    new = {path for path in RECORDS[release]["fields"] if path not in known and not is_listed(path)}
    assert new - COUNTED == set()


@pytest.mark.parametrize("release", RECORDS)
def test_every_variable_that_the_installed_vllm_does_not_count_is_sorted(release):
    from vllm import envs

    new = (
        set(RECORDS[release]["variables"])
        - set(envs.compile_factors())
        - set(engine_variables.HARMLESS)
    )
    assert new - COUNTED_VARIABLES == set()


def test_the_lists_name_only_what_a_tested_release_has():
    fields = {path for record in RECORDS.values() for path in record["fields"]}
    variables = {name for record in RECORDS.values() for name in record["variables"]}
    assert (COUNTED - fields, COUNTED_VARIABLES - variables) == (set(), set())
    assert (
        COUNTED & set(engine_config.HARMLESS)
        == COUNTED_VARIABLES & set(engine_variables.HARMLESS)
        == set()
    )


# covers F-065
def test_a_client_s_key_that_vllm_0_24_counts_neither_separates_nor_is_shown(monkeypatch):
    """vLLM 0.24 has VLLM_API_KEY among its compile factors. The text of a fingerprint is in logs
    and in larderd's status."""
    from vllm import envs

    assert "VLLM_API_KEY" in RECORDS["0.24.0"]["variables"]
    factors = envs.compile_factors()
    monkeypatch.setattr(
        envs,
        "compile_factors",
        lambda: {**factors, "VLLM_API_KEY": "a-secret", "VLLM_NEWER_API_KEY": "another"},
    )
    monkeypatch.setenv("VLLM_API_KEY", "a-secret")
    monkeypatch.setenv("VLLM_NEWER_API_KEY", "another")
    config = vllm.config.VllmConfig()
    config.load_config.model_loader_extra_config = {
        "s3_secret_access_key": "a-third",
        "concurrency": 4,
    }
    for of_a_model in ("_own", "_runner"):
        monkeypatch.setattr(identity, of_a_model, lambda _: {})
    fields, shown = identity.configuration_of(config)
    assert "VLLM_API_KEY" not in fields
    assert "load_config.model_loader_extra_config.concurrency" in shown
    text = identity.fingerprint.text("", fields, shown)
    assert not any(secret in text for secret in ("a-secret", "another", "a-third"))
    assert {
        "VLLM_NEWER_API_KEY",
        "load_config.model_loader_extra_config.s3_secret_access_key",
    } <= set(fields), "a secret counts"
