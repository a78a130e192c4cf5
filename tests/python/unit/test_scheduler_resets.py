"""The scheduler's half and a reset of the cache: older chunks are neither stored nor found."""

from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import FAST, NAMED, Client, Request, blocks, ended, measured_half, setup, step  # noqa: E402
from scheduler_fakes import chunk_keys, client, half, no_wait, run_prefill, store_all  # noqa: E402, F401

from larder.vllm.groups import Unsupported  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402


def test_pages_older_than_a_reset_are_not_stored(half, client):
    """With weights changed in place such chunks would verify for ever under the namespace of the
    new weights."""
    old = Request("old", range(512))
    table = list(range(1, 17))
    half.update_state_after_alloc(old, blocks(table), 0)
    half.build_connector_meta(step(new=[("old", 0, 200)], tables={"old": table}))
    client.stored.clear()
    assert half.reset_cache() is True
    # like vLLM's second call after the end of an asynchronous load
    half.update_state_after_alloc(old, blocks(table), 0)
    assert (
        half.build_connector_meta(step(cached=[("old", 200, 312)], tables={"old": table})).stores
        == []
    )
    half.request_finished(old)
    half.prefix_cache_emptied()
    assert len(run_prefill(half, Request("new", range(512)), table, 512)) == 4


def test_pages_older_than_a_reset_are_not_stored_when_a_load_fails_after_it(half, client):
    """vLLM did not reset its own blocks then, one of which was being loaded: vLLM recomputes behind
    its own hits."""
    old = Request("old", range(512))
    table = list(range(1, 17))
    store_all(client, old)
    external, _ = half.get_num_new_matched_tokens(old, 128)
    half.update_state_after_alloc(old, blocks(table), external)
    half.build_connector_meta(step())
    assert half.reset_cache() is True
    half.update_connector_output(ended(["old"], ["old"]))
    half.update_state_after_alloc(old, blocks(table), 0)
    assert (
        half.build_connector_meta(step(new=[("old", 128, 384)], tables={"old": table})).stores == []
    )


# covers F-075
def test_a_reset_keeps_shared_chunks(half, client):
    """Each /sleep resets: a reset once emptied the model's chunks in the shared backend, for all
    pods."""
    store_all(client, Request("s", range(512)))
    before = set(client.stored)
    for _ in range(3):
        assert half.reset_cache() is True
    assert client.stored == before and client.closed == []


# covers F-075
def test_a_reset_ends_running_fetches(client):
    """A sleeping engine would keep the chunks in larderd's memory during the whole sleep."""
    half = measured_half(client)
    client.tier, client.on_disk = FAST, set(chunk_keys(Request("r", range(512))))
    request = Request("r", range(600))
    assert half.get_num_new_matched_tokens(request, 0) == (None, False)
    assert half.reset_cache() is True
    assert client.fetches == {}
    assert half.get_num_new_matched_tokens(request, 0) == (0, False), "and the request is computed"


class TestWhatVllmsOwnCacheKeeps:
    """vLLM's default reset and a change of weights leave the connector or vLLM's cache alone: a hit
    there may be older than its name."""

    def stores(self, half, name, local):
        request, table = Request(name, range(512)), list(range(1, 17))
        half.get_num_new_matched_tokens(request, local)
        half.update_state_after_alloc(request, blocks(table), 0)
        work = half.build_connector_meta(
            step(new=[(name, local, 512 - local)], tables={name: table})
        )
        half.request_finished(request)
        return bool(work.stores)

    # covers F-095
    def test_kv_of_before_a_change_of_weights_is_not_stored_in_the_namespace_of_after(self, half):
        """vLLM goes on to serve the block. An engine that then empties vLLM's cache would load it
        from larderd."""
        half.weights_change("update_weights")
        assert not self.stores(half, "hits vLLM's old blocks", 256)
        assert self.stores(half, "computes all", 0)
        half.prefix_cache_emptied()
        assert self.stores(half, "hits new blocks", 256)


class TestAfterAReset:
    """Weights may have been changed in place. An engine started from the old files has the old
    fingerprint."""

    def stored_lines(self, half, request):
        half.get_num_new_matched_tokens(request, 0)
        half.update_state_after_alloc(request, blocks(range(1, 17)), 0)
        name = request.request_id
        work = half.build_connector_meta(
            step(new=[(name, 0, request.num_tokens)], tables={name: list(range(1, 17))})
        )
        return {move.line for move in work.stores}

    # covers F-075
    def test_a_reset_engine_has_a_private_namespace(self, half, client):
        assert self.stored_lines(half, Request("before", range(300))) == {""}
        others = [LarderConnectorScheduler(setup(), Client(), NAMED) for _ in range(2)]
        for one in (half, *others):
            assert one.reset_cache() is True
        lines = [
            self.stored_lines(one, Request("after", range(300))).pop() for one in (half, *others)
        ]
        assert len({*lines, ""}) == 4
        assert client.namespaces == [NAMED.poll(), NAMED.poll() + lines[0]]

    def test_chunks_of_other_engines_are_not_hit_after_a_reset(self, half, client):
        half.reset_cache()
        store_all(client, Request("other", range(512)))  # in the namespace of the files
        assert half.get_num_new_matched_tokens(Request("r", range(300)), 0) == (0, False)
        client.stored = {(1, key) for key in chunk_keys(Request("own", range(512)))}
        assert half.get_num_new_matched_tokens(Request("r", range(300)), 0) == (256, True)

    # covers F-075
    def test_a_load_failing_after_a_reset_stores_nothing_for_the_old_weights(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        external, _ = half.get_num_new_matched_tokens(request, 0)
        half.update_state_after_alloc(request, blocks(range(1, 17)), external)
        half.build_connector_meta(step())
        half.reset_cache()
        half.update_connector_output(ended(["r"], ["r"]))
        assert self.stored_lines(half, request) == set()

    # covers F-075
    def test_each_reset_has_a_fresh_namespace_and_closes_the_one_before(self, half, client):
        """A stopped backend, or a restored disk, brings back chunks that a drop once took away."""
        for number in range(3):
            half.reset_cache()
            half.get_num_new_matched_tokens(Request(f"r{number}", range(300)), 0)
        assert len(set(client.namespaces)) == 4 and client.closed == [(1, True), (2, True)]
        closed = half.build_connector_meta(step()).closed
        assert [drop for _, drop in closed] == [True, True] and {line for line, _ in closed} < {
            n.removeprefix(NAMED.poll()) for n in client.namespaces
        }
        assert half.build_connector_meta(step()).closed == []

    # covers F-074
    def test_a_call_that_may_change_weights_is_as_a_reset(self, half, client):
        half.weights_change("reload_weights")
        store_all(client, Request("other", range(512)))
        assert half.get_num_new_matched_tokens(Request("r", range(300)), 0) == (0, False)
        assert "private: " in client.namespaces[1]


# covers F-075
def test_a_reset_before_the_weights_are_known_counts(client):
    waiting = SimpleNamespace(poll=lambda wait_s=0: None)
    half = LarderConnectorScheduler(setup(), client, waiting)
    half.reset_cache()
    waiting.poll = NAMED.poll
    half.get_num_new_matched_tokens(Request("r", range(300)), 0)
    assert "private: " in client.namespaces[1]


# covers F-068
def test_until_the_weights_are_known_requests_run_without_the_cache(client):
    waiting = SimpleNamespace(poll=lambda wait_s=0: None)
    half = LarderConnectorScheduler(setup(), client, waiting)
    early = Request("early", range(512))
    store_all(client, early)
    assert half.get_num_new_matched_tokens(early, 0) == (0, False)
    assert run_prefill(half, early, list(range(1, 17)), 512) == []
    assert half.build_connector_meta(step()).namespace == "" and client.namespaces == []
    waiting.poll = NAMED.poll
    assert half.get_num_new_matched_tokens(Request("late", range(600)), 0) == (512, True)
    assert client.namespaces[0] == NAMED.poll() == half.build_connector_meta(step()).namespace
    assert half.build_connector_meta(step()).namespace == "", "once"


# covers F-069
def test_weights_that_cannot_be_named_turn_the_cache_off(client):
    def unknown(wait_s=0):
        raise Unsupported("set weights_id")

    half = LarderConnectorScheduler(setup(), client, SimpleNamespace(poll=unknown))
    assert half.get_num_new_matched_tokens(Request("r", range(512)), 0) == (0, False)
    assert half.off == "set weights_id"


def test_an_engine_whose_weights_came_from_running_ones_is_private_from_the_start(
    client, monkeypatch
):
    monkeypatch.setenv("VLLM_ELASTIC_EP_SCALE_UP_LAUNCH", "1")
    half = LarderConnectorScheduler(setup(), client, NAMED)
    half.begin()
    half.get_num_new_matched_tokens(Request("r", range(300)), 0)
    assert "private: " in client.namespaces[1]
