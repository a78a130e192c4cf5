"""What the scheduler's half has stored and when, and whose blocks are kept until they are read."""

import pickle

import pytest

pytest.importorskip("vllm")

from fakes import NAMED, Request, blocks, ended, setup, split, step  # noqa: E402
from scheduler_fakes import chunk_keys, client, half, no_wait, run_prefill  # noqa: E402, F401

from larder.vllm.messages import RESTS, WorkerReport  # noqa: E402
from larder.vllm.scheduler import SchedulerHalf  # noqa: E402


class TestBlocksUnderCopies:
    """Stores go on after their step; their blocks are given to nobody meanwhile."""

    TABLE = list(range(1, 9))

    def stored_by(self, half, request):
        """A step that fills all of the request and stores it: its number."""
        half.allocated(request, blocks(self.TABLE), 0)
        work = half.step_work(step(new=[(request.request_id, 0, request.num_tokens)], tables={request.request_id: self.TABLE}))
        assert work.stores
        return work.number

    def hears(self, half, *ended_steps, sent=()):
        half.worker_output(ended(meta=WorkerReport(ended=dict.fromkeys(ended_steps, 1)), sent=sent))

    def test_a_request_that_ends_keeps_them_until_its_copies_have_ended(self, half):
        request, other = Request("r", range(256)), Request("s", range(300, 556))
        number = self.stored_by(half, request)
        later = self.stored_by(half, other)
        assert (number, later) == (1, 2)
        assert half.finished(request) is True
        assert half.waits_for_blocks
        work = half.step_work(step())
        assert work.kept == ("r",) and pickle.loads(pickle.dumps(work)) == work
        assert half.step_work(step()) is RESTS, "told once"
        self.hears(half, number, sent=("r",))
        assert not half.waits_for_blocks
        self.hears(half, later)
        assert half.finished(other) is False
        assert half.step_work(step()) is RESTS

    def test_one_that_stored_nothing_keeps_none(self, half):
        request = Request("r", range(100))
        half.allocated(request, blocks(self.TABLE), 0)
        assert half.step_work(step(new=[("r", 0, 100)], tables={"r": self.TABLE})).number == 0
        assert half.finished(request) is False

    def test_each_worker_is_waited_for(self, client):
        from larder.vllm.groups import Shards

        half = SchedulerHalf(setup(shards=Shards(stages=2, ranks=2)), client, NAMED)
        request = Request("r", range(256))
        number = self.stored_by(half, request)
        half.worker_output(ended(meta=WorkerReport(ended={number: 3})))
        assert half.finished(request) is True
        half.worker_output(ended(meta=WorkerReport(ended={number: 1})))
        assert half.finished(request) is False

    def test_a_preempted_request_keeps_none_and_workers_are_told_before_its_blocks_are_written(self, half):
        request, other = Request("r", range(256)), Request("s", range(300, 556))
        self.stored_by(half, request)
        self.stored_by(half, other)
        work = half.step_work(step(preempted=("r", "x")))
        assert work.preempted == ("r",), "of x nothing is stored"
        assert half.finished(request) is False, "vLLM frees blocks that are the next load's when that ends"
        assert half.finished(other) is True

    def test_a_cache_that_went_off_keeps_them_too(self, half):
        request = Request("r", range(256))
        self.stored_by(half, request)
        half.turn_off("a reason")
        assert half.finished(request) is True
        assert half.step_work(step(preempted=("y",))).kept == ("r",)


class TestStores:
    @pytest.mark.parametrize("step_tokens", [1, 31, 96, 128, 200, 1000])
    def test_prefill_in_steps_stores_each_chunk_once(self, half, step_tokens):
        request = Request("r", range(400))
        stored = run_prefill(half, request, list(range(50, 70)), step_tokens)
        assert stored == list(zip(chunk_keys(request), [(50, 51, 52, 53), (54, 55, 56, 57), (58, 59, 60, 61)]))

    def test_what_is_stored_is_not_announced_again(self, half, client):
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
            work = half.step_work(step(cached=[("r", computed, 1)], tables={"r": table}))
            for move in work.stores:
                stored_at.append(request.num_tokens)
                half.client.stored.update(split(move.parts[0].hashes, 32))
        assert stored_at == [128]

    def test_what_was_refused_is_asked_again_a_few_times(self, half, client):
        request = Request("r", range(300))
        half.allocated(request, blocks(range(1, 21)), 0)
        asked = []
        for computed in (0, 299, 300, 301, 302):
            kind = "new" if computed == 0 else "cached"
            work = half.step_work(step(**{kind: [("r", computed, 299 if computed == 0 else 1)]}, tables={"r": list(range(1, 21))}))
            asked.append([len(split(move.parts[0].hashes, 32)) for move in work.stores])
            client.stored.add(chunk_keys(request)[0])  # only the first chunk was granted
        assert asked == [[2], [1], [1], [], []]

    def test_rejected_drafts_are_not_stored(self, half):
        """Five tokens are scheduled over the chunk's end, but only three are accepted yet."""
        request = Request("r", range(125))
        table = list(range(1, 21))
        run_prefill(half, request, table, 125)
        work = half.step_work(step(cached=[("r", 124, 5)], tables={"r": table}))
        assert work.stores == []
        request.tokens += [1, 2, 3]
        work = half.step_work(step(cached=[("r", 127, 5)], tables={"r": table}))
        assert split(work.stores[0].parts[0].hashes, 32) == chunk_keys(request)

    def test_a_resumed_request_uses_its_new_blocks(self, half, client):
        request = Request("r", range(200))
        first = run_prefill(half, request, list(range(1, 11)), 128)
        assert len(first) == 1
        request.tokens += range(5000, 5100)
        again = run_prefill(half, request, list(range(30, 50)), 150)
        assert [p for _, p in again] == [(34, 35, 36, 37)]

    def test_requests_never_allocated_are_ignored(self, half):
        assert half.step_work(step(new=[("unknown", 0, 300)])).stores == []

    def test_prefill_tokens_are_told_only_where_the_step_is_prefill(self, half):
        assert half.step_work(step(new=[("a", 0, 96)], cached=[("b", 9, 1)])).prefill_tokens == 96
        assert half.step_work(step(new=[("a", 0, 4)], cached=[("b", 9, 1)])).prefill_tokens == 0
