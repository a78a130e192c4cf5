"""Under vLLM's real scheduler no block is written while a store reads the block, however late
stores end, and no block is lost. The controls, each without one part of the protocol, see blocks
written."""

import json
import random

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from late_world import BLOCK, CHUNK, LateClient, World, cache_of, full, window  # noqa: E402
from vllm.config import KVTransferConfig  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.utils.hashing import get_hash_fn_by_name  # noqa: E402

LATE = 6  # steps
REQUESTS = 60

LLAMA = dict(
    architectures=["LlamaForCausalLM"],
    model_type="llama",
    hidden_size=256,
    intermediate_size=512,
    num_attention_heads=4,
    num_key_value_heads=4,
    num_hidden_layers=2,
    vocab_size=512,
    max_position_embeddings=2048,
    torch_dtype="bfloat16",
)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return str(tmp_path)


@pytest.fixture(autouse=True)
def no_library(monkeypatch):
    monkeypatch.setattr("larder.vllm.connector.Client", LateClient)
    monkeypatch.setenv("PYTHONHASHSEED", "0")


def config_of(model, blocks, depth, monkeypatch, v2=False):
    transfer = KVTransferConfig(
        kv_connector="LarderConnector",
        kv_connector_module_path="larder.vllm",
        kv_role="kv_both",
        kv_connector_extra_config={"chunk_tokens": CHUNK, "weights_id": "w"},
    )
    config = EngineArgs(
        model=model,
        skip_tokenizer_init=True,
        load_format="dummy",
        enforce_eager=True,
        max_model_len=1024,
        block_size=BLOCK,
        max_num_batched_tokens=256,
        max_num_seqs=16,
        async_scheduling=depth > 1,
        num_gpu_blocks_override=blocks,
        kv_transfer_config=transfer,
    ).create_engine_config()
    config.cache_config.num_gpu_blocks = blocks
    config.scheduler_config.async_scheduling = depth > 1
    if v2 or depth > 2:
        monkeypatch.setattr(type(config), "use_v2_model_runner", property(lambda self: True))
    if depth > 2:
        config.parallel_config.pipeline_parallel_size = depth - 1
    assert config.max_concurrent_batches == depth
    return config


def run(
    model, monkeypatch, specs, blocks, depth, seeds, v2=False, change=lambda half: None, **worker
):
    """Counts over all seeds."""
    config = config_of(model, blocks, depth, monkeypatch, v2)
    hash_function = get_hash_fn_by_name(config.cache_config.prefix_caching_hash_algo)
    total = None
    for seed in range(seeds):
        world = World(
            config,
            cache_of(specs, blocks),
            hash_function,
            random.Random(seed),
            depth,
            LATE,
            **worker,
        )
        change(world.half)
        counts = world.run(REQUESTS)
        assert counts["bad"] or world.left_over() == (0, 0, False, False)
        total = counts if total is None else total + counts
    return total


WINDOWS = [full(), window(64)]
# KV in fp8 beside layers without fp8 (--kv-cache-dtype-skip-layers): pages of one size, of two
# precisions.
MIXED = [full(), full(torch.uint8, heads=8)]


@pytest.mark.parametrize("depth", [1, 2, 3], ids=["synchronous", "asynchronous", "two stages"])
def test_full_attention(model, monkeypatch, depth):
    counts = run(model, monkeypatch, [full()], 40, depth, seeds=2)
    assert counts["bad"] == 0 and counts["waited"] == 0
    assert min(counts[name] for name in ("stores", "loads", "preempted", "aborted")) > 5, counts


@pytest.mark.parametrize("depth", [2, 3], ids=["asynchronous", "two stages"])
# covers F-052
def test_windows_in_a_starving_pool(model, monkeypatch, depth):
    counts = run(model, monkeypatch, WINDOWS, 60, depth, seeds=2)
    assert counts["bad"] == 0 and counts["waited"] > 0, counts


def test_windows_in_a_pool_with_room_are_hardly_ever_waited_for(model, monkeypatch):
    counts = run(model, monkeypatch, WINDOWS, 600, 2, seeds=2)
    assert counts["bad"] == 0 and counts["stores"] > 50
    assert counts["waited"] * 20 < counts["stores"], counts


@pytest.mark.parametrize("depth", [2, 3], ids=["asynchronous", "two stages"])
# covers F-051
def test_the_second_runner_zeroes_no_block_under_a_store(model, monkeypatch, depth):
    counts = run(model, monkeypatch, MIXED, 120, depth, seeds=4, v2=True, zeroes_first=True)
    assert counts["bad"] == 0 and min(counts["stores"], counts["preempted"]) > 5, counts


@pytest.mark.parametrize(
    ("specs", "seen"),
    [([full()], "preempted"), (WINDOWS, "abandoned")],
    ids=["full attention", "windows"],
)
def test_stores_that_read_from_the_next_step_on(model, monkeypatch, specs, seen):
    """vLLM's first runner on a GPU."""
    counts = run(model, monkeypatch, specs, 60, 2, seeds=4, reads_later=True)
    assert counts["bad"] == 0 and min(counts["stores"], counts[seen]) > 0, counts


def test_windows_beside_kv_that_the_second_runner_zeroes(model, monkeypatch):
    counts = run(
        model,
        monkeypatch,
        [full(torch.uint8, heads=8), window(64)],
        80,
        2,
        seeds=4,
        v2=True,
        zeroes_first=True,
    )
    assert counts["bad"] == 0 and min(counts["stores"], counts["preempted"]) > 0, counts


CONTROLS = {
    "the worker does not hear whom a step preempts": (
        [full()],
        60,
        dict(ignores=("preempted",)),
        None,
    ),
    "a store that reads later does not hear of the preemption either": (
        [full()],
        60,
        dict(reads_later=True, ignores=("preempted",)),
        None,
    ),
    "nor does the store wait for windows": (
        WINDOWS,
        60,
        dict(reads_later=True, ignores=("rewritten",)),
        None,
    ),
    "requests that end keep no blocks": (
        [full()],
        60,
        {},
        lambda half: setattr(half._stored._kept, "keeps", lambda _: False),
    ),
    "the worker waits for no window": (WINDOWS, 60, dict(ignores=("rewritten",)), None),
    "no block is held under a runner that zeroes": (
        MIXED,
        120,
        dict(v2=True, zeroes_first=True),
        lambda half: setattr(half._stored, "_zeroes", False),
    ),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_without_one_part_blocks_are_written_under_stores(model, monkeypatch, name):
    specs, blocks, worker, change = CONTROLS[name]
    counts = run(
        model,
        monkeypatch,
        specs,
        blocks,
        2,
        seeds=4,
        change=change or (lambda half: None),
        **worker,
    )
    assert counts["bad"] > 0, counts
