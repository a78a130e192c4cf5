"""The stores of the scheduler's half, and the blocks kept until the copies have read them."""

import pickle
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import NAMED, Request, blocks, ended, group, setup, split, step  # noqa: E402
from scheduler_fakes import chunk_keys, client, half, no_wait, run_prefill, store_all  # noqa: E402, F401

from larder.vllm.groups import Shards  # noqa: E402
from larder.vllm.messages import RESTS, WorkerReport  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402


class TestBlocksUnderCopies:
    """Stores go on after their step; no other request gets the blocks meanwhile."""

    TABLE = list(range(1, 9))

    def stored_by(self, half, request):
        """A step that fills and stores the whole request: the step's number."""
        half.update_state_after_alloc(request, blocks(self.TABLE), 0)
        work = half.build_connector_meta(
            step(
                new=[(request.request_id, 0, request.num_tokens)],
                tables={request.request_id: self.TABLE},
            )
        )
        assert work.stores
        return work.number

    def hears(self, half, *ended_steps, sent=()):
        half.update_connector_output(
            ended(meta=WorkerReport(ended=dict.fromkeys(ended_steps, 1)), sent=sent)
        )

    # covers F-049
    def test_an_ended_request_keeps_its_blocks_until_its_copies_ended(self, half):
        request, other = Request("r", range(256)), Request("s", range(300, 556))
        number = self.stored_by(half, request)
        later = self.stored_by(half, other)
        assert (number, later) == (1, 2)
        assert half.request_finished(request) is True
        assert half.waits_for_blocks
        work = half.build_connector_meta(step())
        assert work.kept == ("r",) and pickle.loads(pickle.dumps(work)) == work
        assert half.build_connector_meta(step()) is RESTS, "told once"
        self.hears(half, number, sent=("r",))
        assert not half.waits_for_blocks
        self.hears(half, later)
        assert half.request_finished(other) is False
        assert half.build_connector_meta(step()) is RESTS

    def test_a_request_without_stores_keeps_no_blocks(self, half):
        request = Request("r", range(100))
        half.update_state_after_alloc(request, blocks(self.TABLE), 0)
        assert (
            half.build_connector_meta(step(new=[("r", 0, 100)], tables={"r": self.TABLE})).number
            == 0
        )
        assert half.request_finished(request) is False

    def test_each_worker_is_waited_for(self, client):
        half = LarderConnectorScheduler(setup(shards=Shards(ranks=4)), client, NAMED)
        request = Request("r", range(256))
        number = self.stored_by(half, request)
        half.update_connector_output(ended(meta=WorkerReport(ended={number: 3})))
        assert half.request_finished(request) is True
        half.update_connector_output(ended(meta=WorkerReport(ended={number: 1})))
        assert half.request_finished(request) is False

    def test_a_preempted_request_keeps_no_blocks_and_workers_learn_first(self, half):
        request, other = Request("r", range(256)), Request("s", range(300, 556))
        self.stored_by(half, request)
        self.stored_by(half, other)
        work = half.build_connector_meta(step(preempted=("r", "x")))
        assert work.preempted == ("r",), "x has no store"
        assert half.request_finished(request) is False, (
            "vLLM frees blocks that belong to the next load by then"
        )
        assert half.request_finished(other) is True

    def test_a_disabled_cache_keeps_blocks_under_copies(self, half):
        request = Request("r", range(256))
        self.stored_by(half, request)
        half.turn_off("a reason")
        assert half.request_finished(request) is True
        assert half.build_connector_meta(step(preempted=("y",))).kept == ("r",)


class Pool:
    """vLLM's BlockPool, as far as references go."""

    def __init__(self, blocks=100):
        self.blocks = [SimpleNamespace(block_id=i, ref_cnt=1) for i in range(blocks)]

    def touch(self, blocks):
        for block in blocks:
            block.ref_cnt += 1

    def free_blocks(self, blocks):
        for block in blocks:
            block.ref_cnt -= 1

    def held(self):
        return [block.block_id for block in self.blocks if block.ref_cnt > 1]


class TestHeldBlocks:
    """vLLM's second runner zeroes new blocks before the report of preemptions: blocks under a store
    stay out of vLLM's pool."""

    TABLE = list(range(1, 9))

    @pytest.fixture
    def half(self, client):
        return LarderConnectorScheduler(setup(zeroes=True, shards=Shards(ranks=2)), client, NAMED)

    def store(self, half, name="r", tokens=range(256)):
        half.update_state_after_alloc(Request(name, tokens), blocks(self.TABLE), 0)
        return half.build_connector_meta(step(new=[(name, 0, 256)], tables={name: self.TABLE}))

    # covers F-051
    def test_blocks_are_held_until_every_worker_reported(self, half):
        pool = Pool()
        half.bind_gpu_block_pool(pool)
        number = self.store(half).number
        assert pool.held() == self.TABLE and half.holds_blocks and not half.waits_for_blocks
        half.build_connector_meta(step(preempted=("r",)))
        for block in pool.blocks:
            block.ref_cnt -= 1  # the request's own
        assert half.waits_for_blocks, "the blocks come free without a further preemption"
        half.update_connector_output(ended(meta=WorkerReport(ended={number: 1})))
        assert half.holds_blocks
        half.update_connector_output(ended(meta=WorkerReport(ended={number: 1})))
        assert not half.holds_blocks and not half.waits_for_blocks
        assert all(block.ref_cnt == 0 for block in pool.blocks)

    def test_a_pool_that_is_another_than_this_vllms_turns_the_cache_off(self, half):
        pool = Pool()
        pool.touch = lambda blocks, more: None
        half.bind_gpu_block_pool(pool)
        work = self.store(half)
        assert work.stores == [] and work.number == 0 and "TypeError" in half.off
        assert not half.holds_blocks and half.build_connector_meta(step()) is not None

    # covers F-051
    def test_without_the_pool_nothing_is_stored(self, half):
        work = self.store(half)
        assert work.stores == [] and work.number == 0 and half.off is None
        self.store(half, "s", range(300, 556))

    def test_other_engines_hold_no_blocks(self, client):
        half, pool = LarderConnectorScheduler(setup(), client, NAMED), Pool()
        half.bind_gpu_block_pool(pool)
        assert self.store(half).number and not pool.held() and not half.holds_blocks


class TestWindowBlocks:
    """A step waits for the stores of the window blocks that the step writes, and for no other
    store."""

    FULL, WINDOW = list(range(1, 9)), list(range(11, 19))

    @pytest.fixture
    def half(self, client):
        half = LarderConnectorScheduler(
            setup(groups=(group(), group(1, window=65, layers=("layer.1",)))), client, NAMED
        )
        half.update_state_after_alloc(Request("r", range(256)), blocks(self.FULL, self.WINDOW), 0)
        work = half.build_connector_meta(
            step(new=[("r", 0, 256)], tables={"r": (self.FULL, self.WINDOW)})
        )
        assert work.number == 1 and work.rewritten == ()
        return half  # of the window blocks 13, 14, 17 and 18 are being stored

    @pytest.mark.parametrize(
        ("does", "rewritten"),
        [
            (dict(), ()),
            (dict(cached=[("r", 256, 1)], added={"r": ([9], [19])}), ()),
            (dict(cached=[("r", 256, 1), ("s", 64, 1)], added={"s": ([21], [14])}), (1,)),
            (dict(cached=[("s", 64, 1)], added={"s": ([13], [22])}), (1,)),  # in any group
            (dict(new=[("s", 0, 64)], tables={"s": ([21, 22], [17, 23])}), (1,)),
            # a hit of vLLM's own is not written
            (dict(new=[("s", 64, 64)], tables={"s": ([21, 22, 23], [0, 17, 24])}), ()),
            (dict(new=[("s", 64, 64)], tables={"s": ([21, 22, 23], [0, 25, 18])}), (1,)),
            (
                dict(cached=[("s", 64, 64)], added={"s": ([1, 2, 3], [13, 14, 26])}, resumed=["s"]),
                (),
            ),
            (
                dict(cached=[("s", 0, 64)], added={"s": ([1, 2, 3], [13, 14, 26])}, resumed=["s"]),
                (1,),
            ),
        ],
    )
    def test_blocks_that_a_step_hands_out(self, half, does, rewritten):
        assert half.build_connector_meta(step(**does)).rewritten == rewritten
        assert half.build_connector_meta(step(**does)).rewritten == (), (
            "the workers have waited for the stores"
        )

    def test_blocks_that_a_load_of_any_connector_writes(self, half):
        half.update_state_after_alloc(Request("s", range(256)), blocks([31, 32], [33, 18]), 0)
        assert half.build_connector_meta(step()).rewritten == (1,)

    def test_blocks_hit_by_vllm_itself_are_not_awaited(self, half, client):
        request = Request("s", range(300))
        store_all(client, request)
        assert half.get_num_new_matched_tokens(request, 128) == (128, True)
        half.update_state_after_alloc(
            request, blocks([1, 2, 3, 4, 35, 36, 37, 38], [11, 12, 13, 14, 39, 40, 41, 42]), 128
        )
        assert half.build_connector_meta(step()).rewritten == ()

    def test_blocks_of_requests_without_lookup_are_not_awaited(self, half):
        half._failed.add("s")
        assert half.get_num_new_matched_tokens(Request("s", range(300)), 128) == (0, False)
        half.update_state_after_alloc(
            Request("s", range(300)), blocks([1, 2, 3, 4, 35], [13, 14, 17, 18, 39]), 0
        )
        assert half.build_connector_meta(step()).rewritten == ()

    def test_blocks_of_an_ended_load_are_not_awaited(self, half):
        """vLLM reports the request's blocks once more when the request goes on."""
        request = Request("s", range(300))
        request.num_computed_tokens = 128
        half.update_state_after_alloc(request, blocks([1, 2, 3, 4, 35], [13, 14, 17, 18, 39]), 0)
        assert half.build_connector_meta(step()).rewritten == ()

    def test_only_the_last_lookup_counts(self, half, client):
        """vLLM's own blocks were evicted meanwhile, and Larder was not asked about these."""
        request = Request("s", range(256))
        store_all(client, request)
        half.get_num_new_matched_tokens(request, 128)
        half.turn_off("a reason")
        half.get_num_new_matched_tokens(request, 0)
        half.update_state_after_alloc(request, blocks([1, 2, 3, 4], [13, 14, 39, 40]), 0)
        assert half.build_connector_meta(step()).rewritten == (1,)

    def test_stores_that_have_ended_are_not_waited_for(self, half):
        half.update_connector_output(ended(meta=WorkerReport(ended={1: 1})))
        assert (
            half.build_connector_meta(
                step(new=[("s", 0, 64)], tables={"s": ([21, 22], [17, 23])})
            ).rewritten
            == ()
        )

    def test_unknown_blocks_wait_for_all_stores(self, half):
        unlike = step(new=[("s", 0, 64)], tables={"s": ([21, 22], [27, 23])})
        del unlike.scheduled_new_reqs[0].block_ids
        assert half.build_connector_meta(unlike).rewritten == (1,)


class TestStores:
    @pytest.mark.parametrize("step_tokens", [1, 31, 96, 128, 200, 1000])
    def test_prefill_in_steps_stores_each_chunk_once(self, half, step_tokens):
        request = Request("r", range(400))
        stored = run_prefill(half, request, list(range(50, 70)), step_tokens)
        assert stored == list(
            zip(chunk_keys(request), [(50, 51, 52, 53), (54, 55, 56, 57), (58, 59, 60, 61)])
        )

    def test_stored_chunks_are_not_stored_again(self, half, client):
        request = Request("r", range(400))
        client.stored.update(chunk_keys(request)[:2])
        stored = run_prefill(half, request, list(range(1, 21)), 400)
        assert [key for key, _ in stored] == chunk_keys(request)[2:]

    def test_decode_stores_chunks_as_they_fill(self, half):
        request = Request("r", range(100))
        table = list(range(1, 21))
        run_prefill(half, request, table, 100)
        stored_at = []
        for token in range(60):
            request.tokens.append(1000 + token)
            computed = request.num_tokens - 1
            work = half.build_connector_meta(step(cached=[("r", computed, 1)], tables={"r": table}))
            for move in work.stores:
                stored_at.append(request.num_tokens)
                half.client.stored.update(split(move.parts[0].hashes, 32))
        assert stored_at == [128]

    def test_refused_chunks_are_retried_a_few_times(self, half, client):
        request = Request("r", range(300))
        half.update_state_after_alloc(request, blocks(range(1, 21)), 0)
        asked = []
        for computed in (0, 299, 300, 301, 302):
            kind = "new" if computed == 0 else "cached"
            work = half.build_connector_meta(
                step(
                    **{kind: [("r", computed, 299 if computed == 0 else 1)]},
                    tables={"r": list(range(1, 21))},
                )
            )
            asked.append([len(split(move.parts[0].hashes, 32)) for move in work.stores])
            client.stored.add(chunk_keys(request)[0])  # only the first chunk was granted
        assert asked == [[2], [1], [1], [], []]

    def test_rejected_drafts_are_not_stored(self, half):
        """Five tokens are scheduled over the chunk's end, but only three are accepted yet."""
        request = Request("r", range(125))
        table = list(range(1, 21))
        run_prefill(half, request, table, 125)
        work = half.build_connector_meta(step(cached=[("r", 124, 5)], tables={"r": table}))
        assert work.stores == []
        request.tokens += [1, 2, 3]
        work = half.build_connector_meta(step(cached=[("r", 127, 5)], tables={"r": table}))
        assert split(work.stores[0].parts[0].hashes, 32) == chunk_keys(request)

    def test_a_resumed_request_uses_its_new_blocks(self, half, client):
        request = Request("r", range(200))
        first = run_prefill(half, request, list(range(1, 11)), 128)
        assert len(first) == 1
        request.tokens += range(5000, 5100)
        again = run_prefill(half, request, list(range(30, 50)), 150)
        assert [p for _, p in again] == [(34, 35, 36, 37)]

    def test_requests_never_allocated_are_ignored(self, half):
        assert half.build_connector_meta(step(new=[("unknown", 0, 300)])).stores == []

    def test_prefill_tokens_are_told_only_where_the_step_is_prefill(self, half):
        assert (
            half.build_connector_meta(step(new=[("a", 0, 96)], cached=[("b", 9, 1)])).prefill_tokens
            == 96
        )
        assert (
            half.build_connector_meta(step(new=[("a", 0, 4)], cached=[("b", 9, 1)])).prefill_tokens
            == 0
        )
