"""Several KV groups, shards and adapters in the connector's halves: the kept part of a window, the
place of a load, the writer of a store."""

import hashlib
import time
from array import array
from dataclasses import replace
from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")

from fakes import LATER, NAMED, Client, Request, blocks, ended, group, pages, setup, split, step  # noqa: E402
from scheduler_fakes import NO, chunk_keys, store_all  # noqa: E402
from worker_fakes import Client as WorkerClient  # noqa: E402
from worker_fakes import completion, part  # noqa: E402

from larder.vllm.groups import Shards, Unsupported, check_sizes, groups_of, shards_of  # noqa: E402
from larder.vllm.messages import Move, Part, StepWork  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402


class FullAttentionSpec(Fake):
    pass


class SlidingWindowSpec(Fake):
    pass


def caches(*specs, **fields):
    found = [Fake(layer_names=[f"layer.{i}"], kv_cache_spec=spec) for i, spec in enumerate(specs)]
    return Fake(kv_cache_groups=found, **fields)


def full(block_size=32):
    return FullAttentionSpec(block_size=block_size, page_size_bytes=4096)


class ChunkedLocalAttentionSpec(Fake):
    pass


def local(span, block_size=32):
    return ChunkedLocalAttentionSpec(
        block_size=block_size, page_size_bytes=4096, attention_chunk_size=span
    )


def sliding(window, block_size=32):
    return SlidingWindowSpec(block_size=block_size, page_size_bytes=4096, sliding_window=window)


class TestGeometry:
    @pytest.mark.parametrize(
        ("window", "kept"),
        [(1, 1), (2, 1), (33, 1), (34, 2), (64, 2), (128, 4), (256, 8), (257, 8), (4096, 8)],
    )
    def test_a_window_keeps_the_last_blocks_needed_for_a_hit(self, window, kept):
        (found,), chunk = groups_of(caches(sliding(window)), 0)
        assert (chunk, found.blocks) == (256, kept)
        assert found.pages(list(range(100, 116)), 1) == list(range(116 - kept, 116))

    def test_full_attention_comes_first_and_chunks_fit_all_groups(self):
        found, chunk = groups_of(caches(sliding(64, 48), full(32)), 0)
        assert chunk == 288  # 3 x 96
        assert [g.table for g in found] == [1, 0]
        with pytest.raises(Unsupported, match="block size 96"):
            groups_of(caches(sliding(64, 48), full(32)), 128)

    @pytest.mark.parametrize("window", [33, 129])
    def test_windows_of_whole_blocks_and_one_token_need_one_block_more_for_a_full_hit(self, window):
        client = Client()
        one_more = group(1, window=window)
        assert one_more.needs_more(256) and one_more.needs_more(384)
        half = LarderConnectorScheduler(setup(groups=(group(), one_more)), client, NAMED)
        store_all(client, Request("s", range(512)))
        assert half.get_num_new_matched_tokens(Request("r", range(256)), 0) == (128, True)
        assert half.get_num_new_matched_tokens(Request("q", range(257)), 0) == (256, True)

    def test_chunked_local_attention_keeps_all_blocks_and_a_full_hit_gives_up_a_chunk(
        self,
    ):
        found, chunk = groups_of(caches(full(), local(1024)), 0)
        assert chunk == 256 and [(one.blocks, one.forgets) for one in found] == [
            (8, False),
            (8, True),
        ]
        client = Client()
        spans = replace(group(1), local=256)
        half = LarderConnectorScheduler(setup(groups=(group(), spans)), client, NAMED)
        store_all(client, Request("s", range(512)))
        assert half.get_num_new_matched_tokens(Request("r", range(512)), 0) == (384, True)
        assert half.get_num_new_matched_tokens(Request("q", range(384)), 0) == (384, True)
        assert half.get_num_new_matched_tokens(Request("p", range(513)), 0) == (512, True)

    @pytest.mark.parametrize(
        ("span", "block_size", "chunk"),
        [(8192, 16, 256), (384, 32, 192), (96, 32, 96), (128, 128, 128)],
    )
    def test_a_chunk_lies_in_one_span_of_chunked_local_attention(self, span, block_size, chunk):
        found, size = groups_of(caches(full(block_size), local(span, block_size)), 0)
        assert size == chunk and found[1].blocks == chunk // block_size

    @pytest.mark.parametrize(
        ("span", "block_size", "chunk_tokens"), [(384, 32, 256), (192, 128, 0), (256, 32, 512)]
    )
    def test_chunks_over_two_spans_are_refused_with_the_number_to_set(
        self, span, block_size, chunk_tokens
    ):
        with pytest.raises(
            Unsupported,
            match=f"does not divide the {span} tokens of a span .* to a divisor of {span}",
        ):
            groups_of(caches(full(block_size), local(span, block_size)), chunk_tokens)

    def test_a_stage_may_have_no_layer_of_a_group_and_not_of_all(self):
        config = caches(
            full(), SlidingWindowSpec(block_size=32, page_size_bytes=4096, sliding_window=300)
        )
        config.kv_cache_groups[0].layer_names = []
        found, _ = groups_of(config, 0)
        check_sizes(found, Shards(stages=2))
        assert [group.layers for group in found] == [(), ("layer.1",)]
        config.kv_cache_groups[1].layer_names = []
        with pytest.raises(
            Unsupported, match="a pipeline stage without a layer that keeps KV is not served yet"
        ):
            check_sizes(groups_of(config, 0)[0], Shards(stages=2))

    @pytest.mark.parametrize(
        ("sizes", "replicas", "count", "places"),
        [
            ((1, 2), 1, 2, {(0, 0): (0, 0), (0, 1): (1, 0)}),
            ((2, 1), 1, 2, {(0, 0): (0, 0), (1, 0): (1, 0)}),
            ((2, 2), 1, 4, {(1, 0): (2, 0), (1, 1): (3, 0)}),
            ((1, 4), 4, 1, {(0, 0): (0, 0), (0, 3): (0, 3)}),
            ((2, 4), 2, 4, {(0, 1): (0, 1), (0, 2): (1, 0), (1, 0): (2, 0), (1, 3): (3, 1)}),
        ],
    )
    def test_ranks_with_equal_bytes_are_replicas_of_one_shard(self, sizes, replicas, count, places):
        stages, ranks = sizes
        shards = shards_of(
            Fake(tensor_parallel_size=ranks, pipeline_parallel_size=stages),
            caches(full(), kv_tp_replicas=replicas),
        )
        assert shards == Shards(stages, ranks, replicas) and shards.count == count
        assert {place: shards.of(*place) for place in places} == places


class TestReplicatedHeads:
    """vLLM 0.32 reports the fields for MLA alone."""

    def shards(self, heads, ranks, specs=None, overrides=None, **fields):
        model = Fake(
            model_arch_config=Fake(total_num_kv_heads=heads, per_layer_overrides=overrides),
            hf_text_config=Fake(
                to_dict=lambda: {"num_key_value_heads": heads, "num_attention_heads": 8, **fields}
            ),
        )
        specs = specs or (spec_with(FullAttentionSpec), spec_with(SlidingWindowSpec))
        return shards_of(
            Fake(tensor_parallel_size=ranks), caches(*specs, kv_tp_replicas=1), model
        ).replicas

    @pytest.mark.parametrize(
        ("heads", "ranks", "replicas"),
        [(1, 2, 2), (1, 4, 4), (2, 4, 2), (2, 2, 1), (8, 2, 1), (3, 4, 1), (1, 1, 1)],
    )
    def test_ranks_of_one_head_are_one_shard(self, heads, ranks, replicas):
        assert self.shards(heads, ranks) == replicas

    def test_layers_with_other_heads_share_no_shard(self):
        assert self.shards(1, 4, overrides=[{"total_num_kv_heads": 4}]) == 1
        assert self.shards(1, 4, num_global_key_value_heads=4) == 1
        assert self.shards(1, 4, num_global_key_value_heads=None) == 4
        assert self.shards(1, 4, layer_kv_heads=[1, 4]) == 1
        assert self.shards(1, 4, specs=(spec_with(FullAttentionSpec, 2),)) == 1
        assert shards_of(Fake(tensor_parallel_size=4), caches(full()), Fake()).replicas == 1

    def test_nested_configurations_naming_heads_share_no_shard(self):
        """Nemotron-NAS: vLLM takes the heads of the first attention block as those of all
        blocks."""
        blocks = [{"attention": {"n_heads_in_group": heads, "no_op": False}} for heads in (2, 1)]
        assert self.shards(4, 8) == 2
        assert self.shards(4, 8, num_key_value_heads=None, block_configs=blocks) == 1
        assert self.shards(4, 8, layers={"first": {"num_key_value_heads": 4}}) == 1
        assert self.shards(4, 8, rope_scaling={"factor": 2.0, "names": ["yarn"]}) == 2


def spec_with(kind, heads=1):
    return kind(block_size=32, page_size_bytes=4096, sliding_window=64, num_kv_heads=heads)


WINDOW = 64  # of a chunk of 4 blocks the last 2


def two_groups(**changes):
    return setup(groups=(group(0), group(1, window=WINDOW, layers=("layer.1",))), **changes)


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def half(client):
    return LarderConnectorScheduler(two_groups(), client, NAMED)


class TestScheduler:
    def load(self, half, request, local, *tables):
        external, _ = half.get_num_new_matched_tokens(request, local)
        half.update_state_after_alloc(request, blocks(*tables), external)
        (move,) = half.build_connector_meta(step()).loads
        return {p.group: (split(p.hashes, 32), pages(p.pages)) for p in move.parts}

    def test_blocks_behind_the_window_are_not_loaded(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        found = self.load(half, request, 0, range(70, 80), [0] * 6 + [31, 32, 33])
        assert found[0] == (chunk_keys(request), list(range(70, 78)))
        assert found[1] == (chunk_keys(request)[1:], [31, 32]), (
            "one call, only the chunk that the window reaches"
        )

    def test_local_blocks_and_null_blocks_inside_one_chunk(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        found = self.load(half, request, 224, range(70, 80), [0] * 6 + [31, 32, 33])
        assert found[0] == (chunk_keys(request)[1:], [NO, NO, NO, 77])
        assert found[1] == (chunk_keys(request)[1:], [NO, 32])

    def store(self, half, request, *tables, computed=0):
        half.update_state_after_alloc(request, blocks(*tables), 0)
        work = half.build_connector_meta(
            step(new=[("r", computed, request.num_tokens - computed)], tables={"r": tables})
        )
        return [
            {p.group: (split(p.hashes, 32), pages(p.pages)) for p in move.parts}
            for move in work.stores
        ]

    def test_every_group_stores_the_same_chunks_in_one_move(self, half):
        request = Request("r", range(300))
        (found,) = self.store(half, request, list(range(1, 11)), list(range(21, 31)))
        assert found[0] == (chunk_keys(request), list(range(1, 9)))
        assert found[1] == (chunk_keys(request), [23, 24, 27, 28])

    def test_chunks_that_a_window_has_left_behind_are_stored_by_no_group(self, half):
        request = Request("r", range(300))
        (found,) = self.store(
            half, request, list(range(1, 11)), [0, 0, 0, 24, *range(25, 31)], computed=160
        )
        assert found == {
            0: (chunk_keys(request)[1:], [5, 6, 7, 8]),
            1: (chunk_keys(request)[1:], [27, 28]),
        }
        assert self.store(half, Request("r", range(128)), list(range(1, 5)), [0, 0, 0, 24]) == []

    def test_blocks_before_the_kept_ones_may_be_gone(self, half):
        """Prefill in steps smaller than a chunk: the window has passed the chunk's first blocks
        when the chunk fills."""
        request = Request("r", range(128))
        (found,) = self.store(half, request, list(range(1, 5)), [0, 0, 23, 24], computed=96)
        assert found[1] == (chunk_keys(request), [23, 24])


class Recorder(WorkerClient):
    """The stores by group: the pages of each chunk."""

    def __init__(self):
        super().__init__()
        self.chunks = {}

    def store_begin(self, hashes, stride, given, group=0, shard=0, ns=0, parents=None):
        names = split(hashes, stride)
        numbers = pages(given)
        width = len(numbers) // len(names)
        chunks = {name: tuple(numbers[i * width : (i + 1) * width]) for i, name in enumerate(names)}
        self.chunks.setdefault(group, {}).update(chunks)
        return True


class TestWorker:
    @pytest.fixture
    def client(self):
        return WorkerClient()

    def test_a_load_of_several_groups_is_reported_when_its_last_part_has_ended(self, client):
        half = LarderConnectorWorker(two_groups(), client)
        half.bind_connector_metadata(StepWork(loads=[Move("a", [part(0, 2, 4), part(1, 1, 2)])]))
        assert client.loads == [(2, 8), (1, 2)]
        client.done = [completion(1, ok=False)]
        assert half.get_transfer_results() == (set(), set()), (
            "the other part still writes its pages"
        )
        client.done = [completion(2)]
        assert half.get_transfer_results() == ({"a"}, {"a"})

    def test_a_part_that_cannot_start_fails_the_load_when_the_others_have_ended(self, client):
        half = LarderConnectorWorker(two_groups(), client)
        start = client.load
        client.load = lambda *given: start(*given) if given[3] == 0 else 1 / 0
        half.bind_connector_metadata(StepWork(loads=[Move("a", [part(0, 2, 4), part(1, 1, 2)])]))
        assert half.get_transfer_results() == (set(), set())
        client.done = [completion(1)]
        assert half.get_transfer_results() == ({"a"}, {"a"})

    @pytest.mark.parametrize("replicas", [1, 2, 3, 8])
    def test_ranks_with_equal_bytes_take_turns_and_store_each_chunk_once(self, replicas):
        """Each by the chunks' names alone, in all groups alike."""
        names = [hashlib.sha256(bytes([i])).digest() for i in range(240)]
        both = [
            Part(g, b"".join(names), array("I", range(240 * w)).tobytes())
            for g, w in ((0, 4), (1, 2))
        ]
        taken = []
        for replica in range(replicas):
            client = Recorder()
            half = LarderConnectorWorker(
                two_groups(shards=Shards(1, replicas, replicas)), client, 0, replica
            )
            half.bind_connector_metadata(
                StepWork(number=1, stores=[Move("a", both)], computes=True)
            )
            taken.append(client.chunks)
            assert (
                set(client.chunks) == {0, 1} and client.chunks[0].keys() == client.chunks[1].keys()
            )
            assert len(client.chunks[0]) > 240 / replicas / 2, "no rank's link carries all"
        for g, w in ((0, 4), (1, 2)):
            stored = [(name, blocks) for chunks in taken for name, blocks in chunks[g].items()]
            assert sorted(stored) == sorted(
                (name, tuple(range(i * w, i * w + w))) for i, name in enumerate(names)
            )

    def test_a_rank_whose_turn_it_is_not_reports_the_step_all_the_same(self, client):
        half = LarderConnectorWorker(two_groups(shards=Shards(1, 2, 2)), client, 0, 1)
        half.bind_connector_metadata(
            StepWork(number=7, stores=[Move("a", [part(0, 1, 4), part(1, 1, 2)])], computes=True)
        )
        half.wait_for_save()
        assert client.begun == [] and not client.submitted and half.report().ended == {7: 1}

    def test_each_group_registers_its_layers(self, client):
        import torch

        half = LarderConnectorWorker(two_groups(), client)
        # groups may stand on the same memory, at different blocks
        shared = torch.zeros(10, 4096, dtype=torch.uint8)
        half.register_kv_caches({"layer.0": shared, "layer.1": shared})
        assert client.groups == [[(shared.data_ptr(), 4096, 4096, 10)]] * 2


class TestAdapters:
    def adapter(self, folder, content, name="a", number=1, **fields):
        folder.mkdir(exist_ok=True)
        (folder / "adapter_config.json").write_text('{"r": 8}')
        (folder / "adapter_model.safetensors").write_bytes(content)
        return Fake(lora_name=name, lora_int_id=number, lora_path=str(folder), **fields)

    def request(self, name, lora):
        return Request(name, range(300), lora_request=lora)

    def answer(self, half, request):
        """The report to the scheduler after the adapter's files are read."""
        until = time.monotonic() + 20
        while (answer := half.get_num_new_matched_tokens(request, 0)) == LATER:
            assert time.monotonic() < until
            half.build_connector_meta(step())
        return answer

    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch):
        monkeypatch.setattr("larder.vllm.adapters.READ_WAIT_S", 20)

    # covers F-097
    def test_an_adapter_has_a_namespace_of_its_own_by_its_files(self, tmp_path, half, client):
        one = self.adapter(tmp_path / "one", b"one" * 100)
        store_all(client, Request("s", range(300)))
        assert self.answer(half, self.request("r", one)) == (0, False)
        client.stored.update((1, key) for key in chunk_keys(Request("s", range(300))))
        assert self.answer(half, self.request("r", one)) == (256, True)
        copy = self.adapter(tmp_path / "copy", b"one" * 100, "b", 2)
        other = self.adapter(tmp_path / "other", b"two" * 100, "c", 3)
        assert self.answer(half, self.request("q", copy)) == (256, True)
        assert self.answer(half, self.request("p", other)) == (0, False)
        assert len(client.namespaces) == 3
        assert all(text.startswith(NAMED.poll() + "adapter: ") for text in client.namespaces[1:])

    def test_moves_name_the_adapter_and_workers_open_its_namespace_once(
        self, tmp_path, half, client
    ):
        request = self.request("r", self.adapter(tmp_path / "one", b"one" * 100))
        self.answer(half, request)
        half.update_state_after_alloc(request, blocks(range(1, 11), range(21, 31)), 0)
        tables = (list(range(1, 11)), list(range(21, 31)))
        work = half.build_connector_meta(step(new=[("r", 0, 300)], tables={"r": tables}))
        worker_client = WorkerClient()
        worker = LarderConnectorWorker(two_groups(), worker_client)
        worker.bind_connector_metadata(StepWork(namespace=NAMED.poll()))
        worker.bind_connector_metadata(work)
        worker.wait_for_save()
        worker.bind_connector_metadata(StepWork(stores=work.stores))
        assert worker_client.namespaces == client.namespaces

    # covers F-089
    def test_a_worker_moves_nothing_of_an_adapter_whose_files_it_does_not_hold(
        self, tmp_path, half, client
    ):
        one = self.adapter(tmp_path / "one", b"one" * 100)
        request = self.request("r", one)
        self.answer(half, request)
        client.stored.update((1, key) for key in chunk_keys(request))
        external, _ = self.answer(half, request)
        half.update_state_after_alloc(request, blocks(range(1, 11), range(21, 31)), external)
        work = half.build_connector_meta(
            step(new=[("r", 256, 44)], tables={"r": (list(range(1, 11)), list(range(21, 31)))})
        )
        self.adapter(tmp_path / "one", b"two" * 101)
        worker = LarderConnectorWorker(two_groups(), WorkerClient())
        worker.bind_connector_metadata(work)
        until = time.monotonic() + 20
        while (ended := worker.get_transfer_results()) == (set(), set()):
            assert time.monotonic() < until
        assert ended == ({"r"}, {"r"}), "the engine computes the prompt"
        worker.bind_connector_metadata(StepWork(number=1, stores=work.loads))
        worker.wait_for_save()
        assert (
            not worker.client.begun
            and not worker.client.submitted
            and worker.client.namespaces == []
        )

    def test_an_adapter_that_vllm_loads_from_other_files_within_the_step_is_not_stored(
        self, tmp_path, half, client
    ):
        request = self.request("r", self.adapter(tmp_path / "one", b"one" * 100))
        self.answer(half, request)
        half.update_state_after_alloc(request, blocks(range(1, 11), range(21, 31)), 0)
        work = half.build_connector_meta(
            step(new=[("r", 0, 300)], tables={"r": (list(range(1, 11)), list(range(21, 31)))})
        )
        worker = LarderConnectorWorker(two_groups(), WorkerClient())
        worker.bind_connector_metadata(work)
        self.adapter(tmp_path / "one", b"two" * 101)
        worker.wait_for_save()
        assert worker.client.begun and not worker.client.submitted and worker.client.abandoned == 1

    @pytest.mark.parametrize("change", ["in place", "nothing there"])
    # covers F-092
    def test_an_adapter_of_unknown_content_is_not_served(self, tmp_path, half, client, change):
        if change == "in place":
            one = self.adapter(tmp_path / "one", b"one" * 100, load_inplace=True)
        else:
            one = Fake(lora_name="n", lora_int_id=9, lora_path="/nowhere")
        request = self.request("q", one)
        assert self.answer(half, request) == (0, False)
        half.update_state_after_alloc(request, blocks(range(1, 11), range(21, 31)), 0)
        tables = {"q": (list(range(1, 11)), list(range(21, 31)))}
        assert half.build_connector_meta(step(new=[("q", 0, 300)], tables=tables)).stores == []
        half.update_connector_output(ended())
        assert half.off is None
