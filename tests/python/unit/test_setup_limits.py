"""The limits of larderd that the connector checks, at the figures themselves."""

import re

import pytest

pytest.importorskip("vllm")

from setup_fakes import FullAttentionSpec, caches, config, named, spec  # noqa: E402

from larder.vllm.setup import Unsupported, setup_of  # noqa: E402


def large(page_bytes, block_size=128, kind=FullAttentionSpec, layers=1, count=1):
    found = caches(*(spec(kind, block_size) for _ in range(count)))
    for group in found.kv_cache_groups:
        group.kv_cache_spec.page_size_bytes = page_bytes
        group.layer_names = [f"layer.{i}" for i in range(layers)]
    return found


@pytest.mark.parametrize(
    ("found", "extra", "reason"),
    [
        (
            large(64 << 20, layers=17),
            {},
            "a chunk of 128 tokens has 1088 MiB on one rank, and Larder serves 1024 MiB at most: "
            "set a smaller --block-size",
        ),
        (
            large(1 << 20, 16, layers=80),
            {},
            "a chunk of 256 tokens has 1280 MiB .*: set chunk_tokens in kv_connector_extra_config "
            "to 192 or less",
        ),
        (
            large(1 << 20, layers=8),
            {"chunk_tokens": 1 << 40},
            "set chunk_tokens in kv_connector_extra_config to 16384 or less",
        ),
        (
            large((64 << 20) + 1),
            {},
            "a block of one layer has 65 MiB, and Larder serves 64 MiB at most: "
            "set a smaller --block-size",
        ),
        (large(4096, count=17), {}, "the model has 17 KV groups, and Larder serves 16 at most"),
    ],
)
def test_a_chunk_above_larders_limits_is_refused_with_the_figure_to_set(found, extra, reason):
    with pytest.raises(Unsupported, match=f"^{reason}|{reason}$"):
        setup_of(config(named(**extra)), found)


@pytest.mark.parametrize(
    ("found", "extra"),
    [
        (large(64 << 20, layers=16), {}),
        (large(1 << 20, 16, layers=80), {"chunk_tokens": 192}),
        (large(64 << 20), {}),
        (large(4096, count=16), {}),
    ],
)
def test_a_chunk_at_larders_limits_is_served(found, extra):
    setup_of(config(named(**extra)), found)


def test_more_ranks_than_larder_serves_are_refused():
    with pytest.raises(Unsupported, match="^257 ranks hold parts of the KV"):
        setup_of(config(named(), tensor_parallel_size=257), caches(spec()))


def test_the_limits_are_those_of_the_protocol(root):
    from larder.vllm import groups, naming

    text = (root / "shim" / "protocol" / "limits.h").read_text()
    names = {"kMaxGroups": groups.MOST_GROUPS, "kMaxShards": groups.MOST_SHARDS}
    names |= {"kMaxPieceBytes": groups.MOST_PAGE_BYTES, "kMaxPayloadBytes": groups.MOST_PART_BYTES}
    names["kMaxFingerprintBytes"] = naming.MOST_FINGERPRINT_BYTES
    for name, value in names.items():
        (expression,) = re.findall(rf" {name} = ([^;]+);", text)
        assert eval(expression.replace("ULL", "")) == value, name


def test_a_fingerprint_that_larderd_does_not_take_is_named():
    from larder.vllm import naming

    most = "x" * naming.MOST_FINGERPRINT_BYTES
    assert naming._checked(most) == most
    with pytest.raises(
        Unsupported,
        match=(
            "^the engine's fingerprint has 49154 bytes, and larderd takes 49152 at most: "
            "please report"
        ),
    ):
        naming._checked(most[:-1] + "€")
