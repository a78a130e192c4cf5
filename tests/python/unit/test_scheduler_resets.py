"""The scheduler's half and a reset of the cache: what is older than it is neither stored nor found."""

import pytest

pytest.importorskip("vllm")

from fakes import FAST, Client, Request, blocks, ended, measured_half, setup, step  # noqa: E402
from scheduler_fakes import chunk_keys, client, half, no_wait, run_prefill, store_all  # noqa: E402, F401

from larder.vllm.scheduler import SchedulerHalf  # noqa: E402


def test_pages_older_than_a_reset_are_not_stored(half, client):
    """With weights changed in place they would verify for ever under the namespace of the new ones."""
    old = Request("old", range(512))
    table = list(range(1, 17))
    half.allocated(old, blocks(table), 0)
    half.step_work(step(new=[("old", 0, 200)], tables={"old": table}))
    client.stored.clear()
    assert half.reset() is True
    half.allocated(old, blocks(table), 0)  # as vLLM does again when an asynchronous load has ended
    assert half.step_work(step(cached=[("old", 200, 312)], tables={"old": table})).stores == []
    half.finished(old)
    assert len(run_prefill(half, Request("new", range(512)), table, 512)) == 4


def test_pages_older_than_a_reset_are_not_stored_when_a_load_fails_after_it(half, client):
    """vLLM did not reset its own blocks then, one of which was being loaded: it recomputes behind those that it hits by itself."""
    old = Request("old", range(512))
    table = list(range(1, 17))
    store_all(client, old)
    external, _ = half.matched_tokens(old, 128)
    half.allocated(old, blocks(table), external)
    half.step_work(step())
    assert half.reset() is True
    half.worker_output(ended(["old"], ["old"]))
    half.allocated(old, blocks(table), 0)
    assert half.step_work(step(new=[("old", 128, 384)], tables={"old": table})).stores == []


def test_reset_drops_the_namespace(half, client):
    store_all(client, Request("s", range(512)))
    assert half.reset() is True
    assert client.stored == set()


def test_what_is_being_fetched_is_let_go(client):
    """An engine that sleeps would keep it in larderd's memory for as long."""
    half = measured_half(client)
    client.tier, client.on_disk = FAST, set(chunk_keys(Request("r", range(512))))
    request = Request("r", range(600))
    assert half.matched_tokens(request, 0) == (None, False)
    assert half.reset() is True
    assert client.fetches == {}
    assert half.matched_tokens(request, 0) == (0, False), "and it is computed"


class TestAfterAReset:
    """Weights may have been changed in place. An engine that was started from the old files has the old fingerprint."""

    def stored_lines(self, half, request):
        half.allocated(request, blocks(range(1, 17)), 0)
        name = request.request_id
        work = half.step_work(step(new=[(name, 0, request.num_tokens)], tables={name: list(range(1, 17))}))
        return {move.line for move in work.stores}

    def test_the_engine_has_a_namespace_that_nobody_else_reaches(self, half, client):
        assert self.stored_lines(half, Request("before", range(300))) == {""}
        others = [SchedulerHalf(setup(), Client()) for _ in range(2)]
        for one in (half, *others):
            assert one.reset() is True
        lines = [self.stored_lines(one, Request("after", range(300))).pop() for one in (half, *others)]
        assert len({*lines, ""}) == 4
        assert client.namespaces == [half.setup.fingerprint + lines[0]]

    def test_what_other_engines_store_is_not_hit(self, half, client):
        half.reset()
        store_all(client, Request("other", range(512)))  # in the namespace of the files
        assert half.matched_tokens(Request("r", range(300)), 0) == (0, False)
        client.stored = {(1, key) for key in chunk_keys(Request("own", range(512)))}
        assert half.matched_tokens(Request("r", range(300)), 0) == (256, True)

    def test_a_load_that_fails_after_it_stores_nothing_where_the_old_weights_did(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        external, _ = half.matched_tokens(request, 0)
        half.allocated(request, blocks(range(1, 17)), external)
        half.step_work(step())
        half.reset()
        half.worker_output(ended(["r"], ["r"]))
        assert self.stored_lines(half, request) == set()

    def test_a_second_reset_takes_no_further_namespace(self, half, client):
        for _ in range(3):
            half.reset()
            half.matched_tokens(Request("r", range(300)), 0)
        assert len(client.namespaces) == 1
