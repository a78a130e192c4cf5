"""KV groups whose layers have pages of several sizes, made and allocated by vLLM. Both halves of
the connector find the same groups, and every page is found, whole and alone."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")
pytest.importorskip("vllm.v1.kv_cache_layout")

import torch  # noqa: E402
from fakes import setup  # noqa: E402
from test_kv_layouts import full, mla, window  # noqa: E402
from vllm.v1.core import kv_cache_utils  # noqa: E402
from vllm.v1.kv_cache_interface import (  # noqa: E402
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    KVCacheGroupSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)
from vllm.v1.kv_cache_layout import KVCacheLayout  # noqa: E402
from vllm.v1.worker.utils import allocate_kv_cache  # noqa: E402

from larder.kv_pages import pages_of  # noqa: E402
from larder.vllm import identity, pages  # noqa: E402
from larder.vllm.groups import Shards, Unsupported, check_sizes, groups_of, is_rebuilt, shards_of  # noqa: E402
from larder.vllm.setup import check_scales  # noqa: E402

BLOCKS = 6
LINES = Path(__file__).with_name("layer_lines.txt")


def indexer(block=64, **more):
    """The keys of DeepSeek's indexer: 128 bytes and a scale of 4."""
    return replace(mla(block), head_size=132, dtype=torch.uint8, **more)


def layers(*specs, repeats=2):
    """{layer: specification} of a model that has these kinds of layers in turn."""
    return {f"model.layers.{i}.{j}": spec for i in range(repeats) for j, spec in enumerate(specs)}


V32 = layers(mla(cache_dtype_str="fp8_ds_mla"), indexer())
DRAFT = {**layers(full()), "draft.layers.0": full(heads=2)}
# Blocks of 16 tokens, so that vLLM keeps the windows apart in two groups, each with one
# specification.
GEMMA4 = layers(window(heads=4, head=64), full(heads=2, head=256))
LOCAL = ChunkedLocalAttentionSpec(
    block_size=16, num_kv_heads=4, head_size=64, dtype=torch.bfloat16, attention_chunk_size=256
)
STATE = MambaSpec(
    block_size=16,
    shapes=((3, 64), (4, 16)),
    dtypes=(torch.bfloat16, torch.float32),
    mamba_cache_mode="align",
    page_size_padded=16384,
)
MIMO = layers(
    full(heads=4, head=192, head_size_v=128),
    SlidingWindowSpec(
        block_size=16,
        num_kv_heads=8,
        head_size=192,
        head_size_v=128,
        dtype=torch.bfloat16,
        sliding_window=128,
    ),
)
PADDED = layers(mla(block_stride_alignment=4096), indexer(block_stride_alignment=4096))
ONE_GROUP = {"V3.2": V32, "a draft of another shape": DRAFT, "padded": PADDED}


def configured(specs, layout):
    """(the worker's kv_cache_config, the scheduler's), by vLLM's own functions."""
    layout = KVCacheLayout[layout]
    cache = Fake(
        get_resolved_kv_cache_layout=lambda: layout,
        prefix_cache_retention_interval=None,
        num_gpu_blocks_override=None,
    )
    config = Fake(
        cache_config=cache,
        attention_config=Fake(hisparse_config=None),
        scheduler_config=Fake(disable_hybrid_kv_cache_manager=False),
        speculative_config=None,
        model_config=None,
        parallel_config=Fake(),
        kv_transfer_config=None,
    )
    found = kv_cache_utils.get_kv_cache_groups(config, specs)
    memory = kv_cache_utils._get_kv_cache_bytes_per_block(found, layout) * BLOCKS
    worker = kv_cache_utils.get_kv_cache_config_from_groups(config, found, memory)
    assert worker.num_blocks == BLOCKS
    return worker, kv_cache_utils.generate_scheduler_kv_cache_config([worker])


def tensors_of(config, layout):
    sizes = [group.kv_cache_spec.block_size for group in config.kv_cache_groups]
    return allocate_kv_cache(config, torch.device("cpu"), KVCacheLayout[layout], sizes)


def told(groups):
    """The part of a Group that both halves must know alike."""
    return [
        (
            one.table,
            one.layers,
            one.page_bytes,
            one.block_size,
            one.span,
            one.blocks,
            one.window,
            one.unlike,
        )
        for one in groups
    ]


CASES = [(name, layout) for name in ONE_GROUP for layout in ("LBHNC", "BLHNC")]


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_both_halves_find_the_same_groups_and_the_same_lines(name, layout):
    worker, scheduler = configured(ONE_GROUP[name], layout)
    assert isinstance(worker.kv_cache_groups[0].kv_cache_spec, UniformTypeKVCacheSpecs)
    assert not isinstance(scheduler.kv_cache_groups[0].kv_cache_spec, UniformTypeKVCacheSpecs)
    (workers, chunk), (schedulers, other) = groups_of(worker, 0), groups_of(scheduler, 0)
    assert told(workers) == told(schedulers) and chunk == other
    assert (
        len(workers) == 2
        and {one.table for one in workers} == {0}
        and all(one.unlike for one in workers)
    )
    assert {layer for one in workers for layer in one.layers} == ONE_GROUP[name].keys()
    assert [one.spec for one in workers] == list(dict.fromkeys(ONE_GROUP[name].values())), (
        "a worker knows the specification of each"
    )
    lines = identity._layer_lines(None, workers, Shards())
    assert lines == identity._layer_lines(None, schedulers, Shards()) and len(set(lines)) == 2


def runs_of(specs, layout):
    """{block table: [(begin, end) of each page of the library, in bytes of vLLM's memory]}, and the
    size of this memory."""
    config, _ = configured(specs, layout)
    tensors, (groups, _) = tensors_of(config, layout), groups_of(config, 0)
    given = []
    client = Fake(
        register_pages=lambda number, found: given.extend(
            (groups[number].table, *one) for one in zip(groups[number].layers, found)
        )
    )
    blocks = pages.register(client, setup(groups=groups, blocks=BLOCKS), tensors)
    assert blocks == tuple(one.block_size for one in groups)
    backing = next(iter(tensors.values())).untyped_storage()
    runs = {}
    for table, layer, (address, stride, size, count) in given:
        assert count == BLOCKS
        for block in range(count):
            begin = address + block * stride - backing.data_ptr()
            content = tensors[layer][block].view(torch.int8)
            assert (
                content.data_ptr() - backing.data_ptr() == begin
                and content.numel() == specs[layer].unpadded_page_size_bytes <= size
            )
            runs.setdefault(table, []).append((begin, begin + size))
    assert sum(map(len, runs.values())) == BLOCKS * len(specs)
    return runs, backing.nbytes()


def check_alone(runs, end):
    for found in runs.values():  # tables share memory: a block belongs to one table at a time
        found.sort()
        assert found[-1][1] <= end
        assert all(one[1] <= other[0] for one, other in zip(found, found[1:])), (
            "no page reaches into another"
        )


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_every_page_is_found_whole_and_alone(name, layout):
    check_alone(*runs_of(ONE_GROUP[name], layout))


def test_tables_of_unlike_blocks():
    """MiMo-V2: full attention with 4 KV heads, windows with 8, values narrower than keys. vLLM
    gives one of the two longer blocks, or packs the layers."""
    apart, chunk = groups_of(configured(MIMO, "LBHNC")[0], 0)
    assert [(one.block_size, one.span, one.blocks) for one in apart] == [
        (32, 8, 8),
        (16, 16, 8),
    ] and chunk == 256
    packed, chunk = groups_of(configured(MIMO, "BLHNC")[0], 0)
    assert [(one.block_size, one.span, one.blocks) for one in packed] == [
        (16, 16, 16),
        (16, 16, 8),
        (16, 16, 8),
    ] and chunk == 256
    for config in (*configured(MIMO, "LBHNC"), *configured(MIMO, "BLHNC")):
        assert not any(one.unlike for one in groups_of(config, 0)[0])
    check_alone(*runs_of(MIMO, "BLHNC"))


def test_packed_groups_of_one_specification_are_as_any_group():
    """Gemma 4 in layouts with the layers inside a block: vLLM wraps groups of a single
    specification too."""
    worker, scheduler = configured(GEMMA4, "BLHNC")
    assert {type(group.kv_cache_spec) for group in worker.kv_cache_groups} == {
        UniformTypeKVCacheSpecs
    }
    (workers, _), (schedulers, _) = groups_of(worker, 0), groups_of(scheduler, 0)
    assert told(workers) == told(schedulers) and not any(one.unlike for one in workers)
    assert [(type(one.spec).__name__, one.window) for one in workers] == [
        ("FullAttentionSpec", None),
        ("SlidingWindowSpec", 64),
    ]
    assert identity._layer_lines(None, workers, Shards()) == identity._layer_lines(
        None, schedulers, Shards()
    )
    tensors = tensors_of(worker, "BLHNC")
    client = Fake(register_pages=lambda *_: None)
    assert pages.register(client, setup(groups=workers, blocks=BLOCKS), tensors) == (16, 16)


def test_a_layer_that_moves_to_other_pages_changes_the_lines():
    """Three layers with four heads and one with two: another one has the two heads now."""
    first, second = (
        {f"l{i}": full(heads=2 if i == other else 4) for i in range(4)} for other in (1, 2)
    )
    one, two = (groups_of(configured(specs, "LBHNC")[1], 0)[0] for specs in (first, second))
    assert [group.page_bytes for group in one] == [group.page_bytes for group in two]
    assert identity._layer_lines(None, one, Shards()) != identity._layer_lines(None, two, Shards())


def test_pages_of_another_size_change_the_lines():
    """The scheduler sees the same first layer."""
    first, second = ({"l0": full(heads=4), "l1": full(heads=heads)} for heads in (1, 2))
    one, two = (
        identity._layer_lines(None, groups_of(configured(specs, "LBHNC")[1], 0)[0], Shards())
        for specs in (first, second)
    )
    assert one[0] == two[0] and one[1] != two[1]


def test_a_vllm_that_does_not_tell_the_pages_of_unlike_layers_is_not_served():
    worker, _ = configured(V32, "LBHNC")
    without = replace(
        worker,
        kv_cache_tensors=[Fake(size=1, shared_by=list(worker.kv_cache_groups[0].layer_names))],
    )
    with pytest.raises(
        Unsupported, match="does not tell the pages of a KV group with layers of several kinds"
    ):
        groups_of(without, 0)


def test_a_worker_whose_pages_are_not_those_of_the_tensors_is_refused():
    """Such an engine would open another namespace than the scheduler, and never hit."""
    worker, _ = configured(V32, "LBHNC")
    worker.kv_cache_tensors[1].block_stride += 1
    with pytest.raises(
        Unsupported,
        match=(
            r"pages of 8449 bytes for the layer model.layers.0.1, "
            r"and its specification has other pages"
        ),
    ):
        groups_of(worker, 0)


def test_layers_of_several_specifications_in_one_tensor_are_refused():
    worker, _ = configured(V32, "LBHNC")
    main, keys = worker.kv_cache_tensors
    main.layers, keys.layers = [*main.layers, keys.layers[0]], keys.layers[1:]
    with pytest.raises(Unsupported, match="its specification has other pages"):
        groups_of(worker, 0)


def v4(name, ratio=None, tail=None, head=512, **more):
    """Specifications of DeepSeek V4, of plain full-cache rows: of compressed MLA, of windows (of
    compressor states too, in float32)."""
    common = dict(num_kv_heads=1, max_tp_shards=1, head_size=head, alignment=512, **more)
    if ratio:
        return MLAAttentionSpec(
            block_size=256,
            dtype=torch.bfloat16,
            tokens_per_state=ratio,
            model_version="deepseek_v4",
            **common,
        )
    return SlidingWindowMLASpec(
        block_size=name,
        dtype=torch.float32 if name < 64 else torch.bfloat16,
        sliding_window=tail,
        **common,
    )


# In layers of ratio 4: compressed KV, keys of an indexer, a window, states of both compressors; of
# ratio 128: without the indexer.
V4 = layers(
    *(
        v4(256, 4),
        v4(256, 4, head=128),
        v4(64, tail=128),
        v4(4, tail=8, head=2048),
        v4(4, tail=8, head=512),
    ),
    *(v4(256, 128), v4(64, tail=128), v4(8, tail=128, head=1024)),
    repeats=4,
)


class TestWindowsOfMla:
    def test_of_a_chunk_the_last_blocks_of_each_window_are_kept(self):
        """Windows of 128, 8 and 128 tokens in blocks of 64, 4 and 8."""
        worker, scheduler = configured(V4, "BLHNC")
        (workers, chunk), (schedulers, _) = groups_of(worker, 0), groups_of(scheduler, 0)
        assert told(workers) == told(schedulers) and chunk == 256
        assert identity._layer_lines(None, workers, Shards()) == identity._layer_lines(
            None, schedulers, Shards()
        )
        kept = {(one.window, one.block_size): one.blocks for one in workers}
        assert kept == {(None, 256): 1, (128, 64): 2, (8, 4): 2, (128, 8): 16}
        assert {name for one in workers for name in one.layers} == V4.keys() and len(workers) <= 16
        assert not any(one.needs_more(512) for one in workers)

    def test_every_page_is_found(self):
        config, _ = configured(V4, "BLHNC")
        tensors, (groups, _) = tensors_of(config, "BLHNC"), groups_of(config, 0)
        given = {}
        client = Fake(
            register_pages=lambda number, found: given.update(zip(groups[number].layers, found))
        )
        pages.register(client, setup(groups=groups, blocks=BLOCKS), tensors)
        assert given.keys() == V4.keys()
        assert all(
            V4[name].unpadded_page_size_bytes <= size <= V4[name].page_size_bytes
            for name, (_, _, size, _) in given.items()
        )

    def test_their_pages_are_rows_as_those_of_mla(self):
        from larder.vllm import attention_kernels

        assert attention_kernels._kernel(None, v4(64, tail=128)) == "rows"


class TestRebuiltKv:
    """DeepSeek V4.1: the ring of a compressor, and a window that vLLM computes anew."""

    RING = CircularBufferSpec(block_size=8, num_kv_heads=1, head_size=512, dtype=torch.float32)
    REPLAYED = v4(64, tail=128, bounded_replay=True)

    def of(self, *specs):
        return Fake(
            kv_cache_groups=[KVCacheGroupSpec([f"l{i}"], spec) for i, spec in enumerate(specs)],
            kv_cache_tensors=[],
        )

    def test_its_tables_are_no_groups_and_their_blocks_do_not_count(self):
        (one,), chunk = groups_of(self.of(self.RING, self.REPLAYED, mla(64)), 0)
        assert (one.table, one.layers, chunk) == (2, ("l2",), 256)
        (window, *_), _ = groups_of(self.of(v4(64, tail=128), self.RING), 0)
        assert window.window == 128, "a window that vLLM caches is a group"

    def test_the_setup_tells(self):
        assert [
            is_rebuilt(group)
            for group in self.of(
                self.RING, self.REPLAYED, mla(64), v4(64, tail=128)
            ).kv_cache_groups
        ] == [True, True, False, False]

    def test_a_model_of_such_kv_alone_is_refused(self):
        with pytest.raises(
            Unsupported, match="vLLM computes all KV of this model anew behind a hit"
        ):
            groups_of(self.of(self.RING), 0)


# Models of one specification a group, by name as in layer_lines.txt.
ALIKE = {
    "llama": layers(full()),
    "gemma3": layers(window(), window(), full()),
    "gemma4": layers(window(), full(head=128)),
    "mla": layers(mla()),
    "llama4": layers(*[LOCAL] * 3, full()),
    "qwen3_next": layers(STATE, full()),
    "fp8": layers(full(dtype=torch.uint8)),
}


@pytest.mark.parametrize("name", ALIKE)
def test_lines_of_other_groups_stay_as_they_are(name):
    """Another line is another namespace: every cache would be cold after an update."""
    known = [
        line.removeprefix(f"{name}: ")
        for line in LINES.read_text().splitlines()
        if line.startswith(f"{name}: ")
    ]
    for config in configured(ALIKE[name], "LBHNC"):
        assert identity._layer_lines(None, groups_of(config, 0)[0], Shards()) == known


class TestRefusals:
    """The scheduler knows only the first layer: the worker finds these layers, and reports them."""

    def of(self, first, other):
        found = UniformTypeKVCacheSpecs(
            block_size=first.block_size, kv_cache_specs={"a": first, "b": other}
        )
        return Fake(kv_cache_groups=[KVCacheGroupSpec(["a", "b"], found)], kv_cache_tensors=[])

    def test_a_kind_that_is_not_served_behind_one_that_is(self):
        class CrossAttentionSpec(Fake):
            __hash__ = object.__hash__

        with pytest.raises(
            Unsupported, match="KV of the kind CrossAttentionSpec is not served yet"
        ):
            groups_of(self.of(full(), CrossAttentionSpec(block_size=16)), 0)

    def test_layers_that_attend_in_both_directions(self):
        with pytest.raises(Unsupported, match="non_causal"):
            groups_of(self.of(full(), full(heads=2, non_causal=True)), 0)

    def test_scales_in_the_pages(self):
        from vllm.v1.kv_cache_interface import KVQuantMode

        scaled = next(mode for mode in KVQuantMode if mode.is_per_token_head)
        config = Fake(
            cache_config=Fake(cache_dtype="int8_per_token_head"),
            kernel_config=Fake(enable_jit_warmup=False),
        )
        check_scales(config, self.of(full(), full(heads=2)))
        with pytest.raises(Unsupported, match="KV scales of int8_per_token_head"):
            check_scales(config, self.of(full(), full(heads=2, kv_quant_mode=scaled)))

    def test_a_pipeline(self):
        groups, _ = groups_of(configured(V32, "LBHNC")[1], 0)
        check_sizes(groups, Shards(1, 2, 1))
        with pytest.raises(
            Unsupported, match="pages of several sizes are not served with a pipeline yet"
        ):
            check_sizes(groups, Shards(2, 1, 1))


def test_ranks_of_unlike_layers_are_shards_of_their_own():
    """The first layer has one head a rank, of one in all: the others may have several."""
    model = Fake(
        model_arch_config=Fake(total_num_kv_heads=1, per_layer_overrides=None),
        hf_text_config=Fake(to_dict=lambda: {"num_key_value_heads": 1}),
    )
    alike, _ = configured(layers(full(heads=1)), "LBHNC")
    assert shards_of(Fake(tensor_parallel_size=2), alike, model).replicas == 2
    for config in configured({"l0": full(heads=1), "l1": full(heads=2)}, "LBHNC"):
        assert shards_of(Fake(tensor_parallel_size=2), config, model).replicas == 1


class TestPaddedPages:
    def test_content_may_be_less_than_a_page(self):
        cache = torch.zeros(4 * 100, dtype=torch.uint8).as_strided((4, 1, 9, 10), (100, 90, 10, 1))
        assert pages_of("l", cache, 100, 4, padded=True)[1:] == (100, 100, 4)
        with pytest.raises(ValueError, match="is not one run of 100 bytes"):
            pages_of("l", cache, 100, 4)

    def test_the_last_page_ends_in_the_memory_of_the_tensor(self):
        cache = torch.zeros(390, dtype=torch.uint8).as_strided((4, 1, 9, 10), (100, 90, 10, 1))
        with pytest.raises(ValueError, match="the last block of 100 bytes ends behind the memory"):
            pages_of("l", cache, 100, 4, padded=True)

    def test_a_page_is_not_smaller_than_its_content(self):
        cache = torch.zeros(4, 1, 9, 10, dtype=torch.uint8)
        with pytest.raises(ValueError, match="is not one run of 80 bytes"):
            pages_of("l", cache, 80, 4, padded=True)
