"""Recurrent states in the scheduler's half: the end of a hit, the stored states, and their
names."""

from dataclasses import replace
from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from fakes import NAMED, Client, Request, blocks, group, pages, setup, split, step  # noqa: E402
from scheduler_fakes import NO, chunk_keys  # noqa: E402

from larder.vllm import offered_states  # noqa: E402
from larder.vllm.drafts import Drafts  # noqa: E402
from larder.vllm.groups import Unsupported, groups_of, shards_of  # noqa: E402
from larder.vllm.keys import chunk_hashes  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402

STATE = replace(group(1, layers=("s.0", "s.1")), blocks=1, state=True)
TABLES = (list(range(10, 30)), [0] * 20)
SPACE = 1  # the number of the namespace of states


class FullAttentionSpec(Fake):
    pass


class MambaSpec(Fake):
    pass


def mamba(**fields):
    shapes = {"shapes": ((3, 64), (4, 16)), "dtypes": (torch.bfloat16, torch.float32)}
    return MambaSpec(
        **{
            "block_size": 128,
            "page_size_bytes": 4096,
            "mamba_cache_mode": "align",
            "num_speculative_blocks": 0,
            **shapes,
            **fields,
        }
    )


def caches(*specs, **fields):
    found = [Fake(layer_names=[f"layer.{i}"], kv_cache_spec=spec) for i, spec in enumerate(specs)]
    return Fake(kv_cache_groups=found, **fields)


FULL = FullAttentionSpec(block_size=128, page_size_bytes=4096, num_kv_heads=1)


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def half(client):
    return LarderConnectorScheduler(setup(groups=(group(), STATE)), client, NAMED)


def request(tokens=600, name="r"):
    return Request(name, range(tokens))


def attention(client, one, chunks):
    client.stored.update(chunk_keys(one)[:chunks])


def states(client, one, *chunks):
    client.stored.update((SPACE, chunk_keys(one)[chunk - 1]) for chunk in chunks)


def handed_over(found, **kinds):
    made = step(**kinds)
    made.kv_connector_block_state.boundary_state_offloads = found
    return made


class TestGroups:
    def test_a_chunk_of_states_is_the_content_of_one_block(self):
        (full, state), chunk = groups_of(caches(mamba(), FULL), 0)
        assert chunk == 128 and (full.state, state.state, state.forgets) == (False, True, True)
        assert (state.page_bytes, state.blocks, state.table) == (3 * 64 * 2 + 4 * 16 * 4, 1, 0)

    @pytest.mark.parametrize(
        ("specs", "words"),
        [
            ([mamba()], "all keep a recurrent state"),
            ([FULL, mamba(mamba_cache_mode="none")], "with prefix caching alone"),
            ([FULL, mamba(num_speculative_blocks=2)], "with speculative decoding"),
        ],
    )
    def test_unsupported_groups_are_refused(self, specs, words):
        with pytest.raises(Unsupported, match=words):
            groups_of(caches(*specs), 0)

    def test_ranks_with_equal_kv_have_states_of_their_own(self):
        parallel = Fake(tensor_parallel_size=2)
        assert shards_of(parallel, caches(FULL, kv_tp_replicas=2)).replicas == 2
        assert shards_of(parallel, caches(FULL, mamba(), kv_tp_replicas=2)).replicas == 1


class TestHits:
    @pytest.mark.parametrize(
        ("there", "hit"), [((), 0), ((1,), 128), ((2, 4), 512), ((3,), 384), ((1, 3), 384)]
    )
    def test_a_hit_ends_with_the_last_state_inside_the_prefix_of_attention(
        self, half, client, there, hit
    ):
        one = request()
        attention(client, one, 4)
        states(client, one, *there)
        assert half.get_num_new_matched_tokens(one, 0) == (hit, hit > 0)

    def test_the_last_token_is_computed_and_a_state_cannot_be_stepped_back(self, half, client):
        one = request(512)
        attention(client, one, 4)
        states(client, one, 2, 4)
        assert half.get_num_new_matched_tokens(one, 0) == (256, True)

    @pytest.mark.parametrize(("there", "boundary"), [((), 512), ((2,), 512), ((4,), 512)])
    def test_the_state_of_the_shared_prefix_is_made_or_kept_by_this_request(
        self, half, client, there, boundary
    ):
        one = request()
        one.shared_prefix_boundary = 0
        attention(client, one, 4)
        states(client, one, *there)
        half.get_num_new_matched_tokens(one, 0)
        assert one.shared_prefix_boundary == boundary

    def test_behind_vllms_own_hit(self, half, client):
        one = request()
        attention(client, one, 4)
        states(client, one, 1)
        assert half.get_num_new_matched_tokens(one, 256) == (0, False)
        states(client, one, 3)
        assert half.get_num_new_matched_tokens(one, 256) == (128, True)

    def test_a_load_brings_the_attention_and_the_last_state_alone(self, half, client):
        one = request()
        attention(client, one, 4)
        states(client, one, 2, 3)
        half.get_num_new_matched_tokens(one, 0)
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 11 + [40]), 384)
        (load,) = half.build_connector_meta(step()).loads
        first, state = load.parts
        assert split(first.hashes, 32) == chunk_keys(one)[:3] and list(pages(first.pages)) == list(
            range(10, 22)
        )
        assert (state.group, state.hashes, list(pages(state.pages))) == (
            1,
            chunk_keys(one)[2],
            [40],
        )
        assert NO not in pages(state.pages)
        assert len(client.holds) == 2
        half.request_finished(one)
        assert not client.holds

    def test_without_a_page_for_the_state_the_load_fails(self, half, client):
        one = request()
        attention(client, one, 4)
        states(client, one, 3)
        half.get_num_new_matched_tokens(one, 0)
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 20), 384)
        (load,) = half.build_connector_meta(step()).loads
        assert not load.parts, "the worker reports a load without parts as failed"


class TestStores:
    def stored(self, half, one, found, count=600):
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 20), 0)
        work = half.build_connector_meta(
            handed_over(
                {one.request_id: found},
                new=[(one.request_id, 0, count)],
                tables={one.request_id: TABLES},
            )
        )
        return [
            (part.hashes, list(pages(part.pages)))
            for move in work.stores
            for part in move.parts
            if part.group == 1
        ]

    def test_the_states_that_vllm_hands_over(self, half, client):
        one = request()
        half.get_num_new_matched_tokens(one, 0)
        assert self.stored(half, one, [(1, 77, 512), (1, 0, 256)]) == [(chunk_keys(one)[3], [77])]

    def test_a_present_state_is_not_stored_again(self, half, client):
        one = request()
        half.get_num_new_matched_tokens(one, 0)
        states(client, one, 4)
        assert self.stored(half, one, [(1, 77, 512)]) == []

    @pytest.mark.parametrize("tokens", [500, 32, 640])
    def test_boundaries_without_a_chunk_are_left_out(self, half, client, tokens):
        one = request()
        half.get_num_new_matched_tokens(one, 0)
        assert self.stored(half, one, [(1, 77, tokens)]) == []

    def test_inside_a_loaded_prefix_no_state_is_stored(self, half, client):
        one = request()
        attention(client, one, 4)
        states(client, one, 4)
        assert half.get_num_new_matched_tokens(one, 0) == (512, True)
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 20), 512)
        client.stored.clear()  # evicted meanwhile
        work = half.build_connector_meta(
            handed_over(
                {"r": [(1, 77, 512), (1, 78, 256)]}, new=[("r", 512, 88)], tables={"r": TABLES}
            )
        )
        assert [part for move in work.stores for part in move.parts if part.group == 1] == []

    def test_the_states_of_all_groups_or_none(self, client):
        two = (group(), STATE, replace(STATE, table=2))
        half = LarderConnectorScheduler(setup(groups=two), client, NAMED)
        one = request()
        half.get_num_new_matched_tokens(one, 0)
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 20, [0] * 20), 0)
        found = {"r": [(1, 77, 512), (1, 70, 256), (2, 71, 256)]}
        work = half.build_connector_meta(
            handed_over(found, new=[("r", 0, 600)], tables={"r": TABLES})
        )
        assert [
            list(pages(part.pages)) for move in work.stores for part in move.parts if part.group
        ] == [[70], [71]]

    def test_requests_without_the_cache_store_no_state(self, half, client):
        one = request(name="off")
        one.kv_transfer_params = {"larder": "off"}
        half.get_num_new_matched_tokens(one, 0)
        assert self.stored(half, one, [(1, 77, 512)]) == []

    def test_a_step_that_hands_the_block_to_another_request_waits_for_the_copy(self, half, client):
        one = request()
        half.get_num_new_matched_tokens(one, 0)
        assert self.stored(half, one, [(1, 77, 512)])
        other = request(200, "other")
        half.update_state_after_alloc(other, blocks([1, 2, 3, 4, 5, 6, 7], [77, 78]), 0)
        assert half.build_connector_meta(
            step(new=[("other", 0, 200)], tables={"other": ([1, 2, 3, 4, 5, 6, 7], [77, 78])})
        ).rewritten


class TestWithMtp:
    """A hybrid whose MTP module is a layer of an attention group, in vLLM's order of groups:
    states, attention with the module, attention. vLLM runs such models on GPUs alone."""

    GROUPS = (
        group(1, layers=("a.0", "mtp.0")),
        group(2, layers=("a.1", "a.2")),
        replace(STATE, table=0),
    )
    SETUP = setup(groups=GROUPS, lookahead=1, drafts=Drafts("mtp", 1, 10**6, None))
    TABLES = ([0] * 20, list(range(10, 30)), list(range(30, 50)))

    @pytest.fixture
    def half(self, client):
        return LarderConnectorScheduler(self.SETUP, client, NAMED)

    def keys(self, one, first=0, last=9):
        return split(chunk_hashes(self.SETUP, one, first, last, ()), 32)

    def computed(self, half, one, found, local=0):
        """{group: keys} of the stores of a step that computes the request and hands over the states
        of `found`."""
        half.get_num_new_matched_tokens(one, local)
        half.update_state_after_alloc(one, blocks(*self.TABLES), 0)
        tables, count = {one.request_id: self.TABLES}, one.num_tokens - local
        moves = half.build_connector_meta(
            handed_over(
                {one.request_id: found}, new=[(one.request_id, local, count)], tables=tables
            )
        ).stores
        stored = [(part.group, split(part.hashes, 32)) for move in moves for part in move.parts]
        half.client.stored.update(
            key if number < 2 else (SPACE, key) for number, keys in stored for key in keys
        )
        assert half.off is None
        return {
            number: [key for one, keys in stored if one == number for key in keys]
            for number, _ in stored
        }

    def test_the_kinds_of_its_groups(self):
        found, _ = groups_of(caches(mamba(), FULL, FULL), 0)
        assert [(one.table, one.state) for one in found] == [(1, False), (2, False), (0, True)]

    def test_mtp_of_vllm_is_refused(self):
        with pytest.raises(
            Unsupported, match="recurrent states with speculative decoding are not served yet"
        ):
            groups_of(caches(mamba(num_speculative_blocks=1), FULL, FULL), 0)

    def test_all_groups_have_keys_with_the_next_token(self, half):
        one = request()
        assert self.computed(half, one, [(0, 77, 512)]) == {
            0: self.keys(one),
            1: self.keys(one),
            2: self.keys(one)[3:],
        }
        assert set(self.keys(one)).isdisjoint(chunk_keys(one))

    def test_a_hit_of_all_groups_and_a_fork_right_behind_a_state(self, half):
        one = request()
        self.computed(half, one, [(0, 76, 256), (0, 77, 512)])
        again, fork = Request("again", range(600)), Request("fork", [*range(512), *range(900, 960)])
        assert half.get_num_new_matched_tokens(again, 0) == (512, True)
        assert half.get_num_new_matched_tokens(fork, 0) == (256, True)

    def test_a_state_in_front_of_an_unknown_token_is_not_stored(self, half):
        one = request(512)
        assert self.computed(half, one, [(0, 77, 512)]) == {
            0: self.keys(one)[:3],
            1: self.keys(one)[:3],
        }

    def test_draft_kv_of_another_text_is_stored_in_no_group(self, half):
        """vLLM hits blocks whose draft KV this engine never saw go in. Behind them the module's
        attention carries the difference on."""
        assert self.computed(half, request(), [(0, 77, 512)], local=256) == {}


POOL = Fake(
    blocks=[Fake(block_id=i) for i in range(100)],
    touch=lambda held: None,
    free_blocks=lambda held: None,
)


class TestLateStates:
    """larderd answered too late, or not at all: the state is given to the worker again."""

    @pytest.fixture(autouse=True)
    def at_once(self, half, monkeypatch):
        monkeypatch.setattr(offered_states, "RETRY_AFTER_S", 0)
        half.bind_gpu_block_pool(POOL)
        for block in POOL.blocks:
            block.block_hash = block.block_id

    def first(self, half, one, found=((1, 77, 512),), **more):
        half.get_num_new_matched_tokens(one, 0)
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 20), 0)
        return self.stored(
            half,
            handed_over(
                {one.request_id: list(found)},
                new=[(one.request_id, 0, 600)],
                tables={one.request_id: TABLES},
                **more,
            ),
        )

    def stored(self, half, made=None):
        made = made or handed_over({}, cached=[("r", 600, 1)], tables={"r": TABLES})
        return [
            list(pages(part.pages))
            for move in half.build_connector_meta(made).stores
            for part in move.parts
            if part.group == 1
        ]

    # covers F-048
    def test_a_late_state_is_stored_again_at_most_twice(self, half):
        one = request()
        assert self.first(half, one) == [[77]]
        assert [self.stored(half) for _ in range(4)] == [[[77]], [[77]], [], []]
        assert not half._states._offered._states

    def test_the_oldest_makes_room(self, half, monkeypatch):
        monkeypatch.setattr(offered_states, "MOST_STATES", 1)
        assert self.first(half, request(), ((1, 76, 256), (1, 77, 512))) == [[76], [77]]
        assert len(half._states._offered._blocks._stored) == 1, "the block is watched no more"
        assert self.stored(half) == [[77]]

    def test_a_late_state_is_not_stored_again_before_the_retry_time(self, half, monkeypatch):
        monkeypatch.setattr(offered_states, "RETRY_AFTER_S", 1000)
        assert self.first(half, request()) == [[77]]
        assert self.stored(half) == []

    def test_a_late_state_present_in_larderd_is_not_stored_again(self, half, client):
        one = request()
        self.first(half, one)
        states(client, one, 4)
        assert self.stored(half) == []
        client.stored.clear()
        assert self.stored(half) == [], "evicted since"

    def test_a_late_state_is_dropped_once_a_step_writes_its_block(self, half):
        self.first(half, request())
        other = step(
            new=[("other", 0, 200)],
            cached=[("r", 600, 1)],
            tables={"r": TABLES, "other": ([1, 2, 3, 4, 5, 6, 7], [77, 78])},
        )
        other.kv_connector_block_state.boundary_state_offloads = {}
        assert self.stored(half, other) == [], "in that step"
        assert self.stored(half) == [], "and in no later one"

    @pytest.mark.parametrize("now", [None, 5])
    def test_a_late_state_moved_or_evicted_by_vllm_is_dropped(self, half, now):
        """vLLM may write a block in place and keep a copy, without a word to connectors."""
        self.first(half, request())
        POOL.blocks[77].block_hash = now
        assert self.stored(half) == []
        POOL.blocks[77].block_hash = 77
        assert self.stored(half) == []

    @pytest.mark.parametrize(
        "pool", [None, Fake(blocks=[Fake(block_id=i, block_hash=None) for i in range(100)])]
    )
    def test_late_states_need_a_readable_cache_of_vllm(self, client, pool):
        half = LarderConnectorScheduler(setup(groups=(group(), STATE)), client, NAMED)
        half.bind_gpu_block_pool(pool)
        assert self.first(half, request()) == [[77]]
        assert self.stored(half) == []

    def test_a_late_state_is_dropped_once_a_running_request_gets_its_block(self, half):
        self.first(half, request())
        grown = handed_over(
            {}, cached=[("r", 600, 1)], added={"r": ([30], [77])}, tables={"r": TABLES}
        )
        assert self.stored(half, grown) == []

    def test_a_late_state_is_dropped_once_a_load_may_write_its_block(self, half):
        self.first(half, request())
        half.update_state_after_alloc(
            Request("other", range(1000, 1200)), blocks([1, 2, 3, 4, 5, 6, 7], [77, 78]), 128
        )
        assert self.stored(half) == []

    def test_a_late_state_is_dropped_with_its_request(self, half):
        one = request()
        self.first(half, one)
        half.request_finished(one)
        assert self.stored(half, step()) == []

    def test_a_late_state_is_dropped_after_a_change_of_weights(self, half):
        self.first(half, request())
        half.reset_cache()
        assert self.stored(half) == []

    def test_late_states_are_off_where_vllm_zeroes_blocks_early(self, client):
        half = LarderConnectorScheduler(setup(groups=(group(), STATE), zeroes=True), client, NAMED)
        half.bind_gpu_block_pool(POOL)
        assert self.first(half, request()) == [[77]]
        assert self.stored(half) == []
