"""Fetches of the scheduler's half against fakes: when vLLM is told to ask again, when no more, and
when chunks are freed."""

import pytest

pytest.importorskip("vllm")

from fakes import (
    FAST,
    LATER,
    NAMED,
    Client,
    Request,
    blocks,
    chunk_keys,
    ended,
    measured_half,
    setup,
    split,
    step,
)  # noqa: E402

from larder import _native as native  # noqa: E402
from larder.lower_tiers import TierSpeed  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402


@pytest.fixture
def client():
    client = Client()
    client.tier = FAST
    return client


@pytest.fixture
def half(client):
    return measured_half(client)


@pytest.fixture
def request_below(client):
    """A request of three chunks, all below memory."""
    request = Request("r", range(400))
    client.on_disk.update(chunk_keys(request))
    return request


def test_chunks_in_lower_tiers_are_fetched_and_then_hit(half, client, request_below):
    assert half.get_num_new_matched_tokens(request_below, 0) == LATER
    asked, deadline_ms = client.fetches[client.the_fetch()]
    assert asked == chunk_keys(request_below) and 50 <= deadline_ms <= 250
    assert half.get_num_new_matched_tokens(request_below, 0) == LATER
    client.arrive(client.the_fetch())
    assert half.get_num_new_matched_tokens(request_below, 0) == (384, True)
    assert len(client.fetches) == 1, "larderd keeps the chunk until the holds stand"


def test_a_fetch_ends_once_the_holds_are_taken(half, client, request_below):
    half.get_num_new_matched_tokens(request_below, 0)
    client.arrive(client.the_fetch())
    external, _ = half.get_num_new_matched_tokens(request_below, 0)
    half.update_state_after_alloc(request_below, blocks(range(1, 20)), external)
    assert client.call_names() == ["fetch", "request", "hold", "end"]
    assert client.reported == [(native.DECIDED_FETCH, chunk_keys(request_below), 0)]
    assert client.fetches == {} and len(client.holds) == 1
    half.update_state_after_alloc(request_below, blocks(range(1, 20)), 0)  # vLLM's second call
    half.request_finished(request_below)
    assert client.call_names().count("end") == 1


@pytest.mark.parametrize("arrived", [False, True])
def test_a_fetch_ends_with_its_request(half, client, request_below, arrived):
    half.get_num_new_matched_tokens(request_below, 0)
    if arrived:
        client.arrive(client.the_fetch())
    half.request_finished(request_below)
    assert client.fetches == {}


@pytest.mark.parametrize("came", [0, 1, 2])
def test_late_chunks_are_computed(half, client, request_below, came):
    half.get_num_new_matched_tokens(request_below, 0)
    client.arrive(client.the_fetch(), came, "late", 0.2)
    assert half.get_num_new_matched_tokens(request_below, 0) == (128 * came, came > 0)
    half.update_state_after_alloc(request_below, blocks(range(1, 20)), 128 * came)
    assert client.reported[0][0] == (native.DECIDED_FETCH if came else native.DECIDED_RECOMPUTE)
    assert client.fetches == {}


def test_chunks_slower_to_fetch_than_to_compute_are_reported(half, client, request_below):
    client.tier = TierSpeed(True, 1_000_000, 1000)
    assert half.get_num_new_matched_tokens(request_below, 0) == (0, False)
    half.update_state_after_alloc(request_below, blocks(range(1, 20)), 0)
    assert client.reported == [(native.DECIDED_RECOMPUTE, chunk_keys(request_below), 0)]
    half.request_finished(request_below)
    assert half._fetches._recomputed == set()


def test_a_request_fetches_once(half, client, request_below):
    half.get_num_new_matched_tokens(request_below, 0)
    client.arrive(client.the_fetch(), 1, "absent")
    assert half.get_num_new_matched_tokens(request_below, 0) == (128, True)
    half.update_state_after_alloc(request_below, blocks(range(1, 20)), 128)
    client.stored.clear()  # preempted, and the request's chunks were evicted
    assert half.get_num_new_matched_tokens(request_below, 0) == (0, False)
    half.request_finished(request_below)
    assert half.get_num_new_matched_tokens(request_below, 0) == LATER, (
        "the name is another request's now"
    )


def test_chunks_in_memory_are_kept_during_a_fetch(half, client, request_below):
    """Else the promotion of the third chunk might evict the first two."""
    client.stored.update(chunk_keys(request_below)[:2])
    assert half.get_num_new_matched_tokens(request_below, 0) == LATER
    assert client.fetches[client.the_fetch()][0] == chunk_keys(request_below)


def test_blocks_of_the_engine_are_not_fetched(half, client, request_below):
    assert half.get_num_new_matched_tokens(request_below, 160) == LATER
    assert client.fetches[client.the_fetch()][0] == chunk_keys(request_below)[1:]
    client.arrive(client.the_fetch())
    assert half.get_num_new_matched_tokens(request_below, 160) == (384 - 160, True)


def test_a_prompt_in_memory_is_not_fetched(half, client, request_below):
    client.stored.update(chunk_keys(request_below))
    assert half.get_num_new_matched_tokens(request_below, 0) == (384, True)
    assert client.calls == []


@pytest.mark.parametrize(
    "tier", [None, TierSpeed(False, 1, 1_000_000_000), TierSpeed(True, 1_000_000, 1000)]
)
def test_vllm_is_never_told_to_ask_again_without_a_fetch(half, client, request_below, tier):
    client.tier = tier
    for _ in range(5):
        assert half.get_num_new_matched_tokens(request_below, 0) == (0, False)
    assert client.fetches == {}


@pytest.mark.parametrize(
    "fields", [{"kv_transfer_params": {"larder": "off"}}, {"skip_reading_prefix_cache": True}]
)
# covers F-082
def test_excluded_requests_are_not_fetched_for(half, client, fields):
    request = Request("r", range(400), **fields)
    client.on_disk.update(chunk_keys(request))
    assert half.get_num_new_matched_tokens(request, 0) == (0, False)


def test_fetches_can_be_turned_off(client, request_below):
    half = LarderConnectorScheduler(setup(fetches=False), client, NAMED)
    assert half.get_num_new_matched_tokens(request_below, 0) == (0, False)
    assert client.calls == []


def test_a_request_over_the_fetch_limit_continues_and_may_ask_later(half, client, request_below):
    client.fail = "fetch"
    assert half.get_num_new_matched_tokens(request_below, 0) == (0, False)
    assert half.off is None
    client.fail = None
    assert half.get_num_new_matched_tokens(request_below, 0) == LATER


def test_after_a_loss_the_next_request_is_computed(half, client, request_below):
    half.get_num_new_matched_tokens(request_below, 0)
    client.arrive(client.the_fetch(), 0, "late", 0.2)
    half.get_num_new_matched_tokens(request_below, 0)
    second = Request("s", range(400))
    assert half.get_num_new_matched_tokens(second, 0) == (0, False)


def test_a_request_whose_load_failed_is_not_fetched_for(half, client, request_below):
    client.stored.update(chunk_keys(request_below)[:1])
    client.tier = None
    external, _ = half.get_num_new_matched_tokens(request_below, 0)
    half.update_state_after_alloc(request_below, blocks(range(1, 20)), external)
    half.update_connector_output(ended(["r"], ["r"]))
    client.tier = FAST
    assert half.get_num_new_matched_tokens(request_below, 0) == (0, False)


def test_several_requests_fetch_at_once(half, client):
    requests = [Request(f"r{i}", range(1000 * i, 1000 * i + 400)) for i in range(3)]
    for request in requests:
        client.on_disk.update(chunk_keys(request))
        assert half.get_num_new_matched_tokens(request, 0) == LATER
    client.arrive(list(client.fetches)[1])
    assert [half.get_num_new_matched_tokens(request, 0) for request in requests] == [
        LATER,
        (384, True),
        LATER,
    ]


class TestAnIdleEngine:
    """The scheduler steps all the time while a request waits; on few processors the steps would
    take larderd's processor."""

    def test_an_idle_engine_waits_a_little_for_a_fetch(self, half, client, request_below):
        half.get_num_new_matched_tokens(request_below, 0)
        half.build_connector_meta(step())
        assert client.calls[1:] == [("waited", 2)]
        client.arrive(client.the_fetch())
        half.build_connector_meta(step())
        half.build_connector_meta(step())
        assert client.calls[1:] == [("waited", 2)] * 2
        assert half.get_num_new_matched_tokens(request_below, 0) == (384, True)

    def test_an_engine_that_computes_does_not(self, half, client, request_below):
        half.get_num_new_matched_tokens(request_below, 0)
        half.build_connector_meta(step(new=[("other", 0, 300)]))
        assert [call for call in client.calls if call[0] == "waited"] == []

    def test_a_data_parallel_rank_waits_for_none(self, client, request_below):
        """All ranks step together."""
        half = LarderConnectorScheduler(setup(data_parallel=True), client, NAMED)
        assert half.get_num_new_matched_tokens(request_below, 0) == LATER
        half.build_connector_meta(step())
        assert client.call_names() == ["fetch"]


@pytest.mark.parametrize("where", ["below", "lookup"])
def test_no_exception_leaves(half, client, request_below, where):
    client.fail = where
    assert half.get_num_new_matched_tokens(request_below, 0) == (0, False)
    assert "made to fail" in half.off


def test_turning_off_ends_the_wait_for_a_fetch(half, client, request_below):
    half.get_num_new_matched_tokens(request_below, 0)
    half.turn_off("a test")
    assert half.get_num_new_matched_tokens(request_below, 0) == (0, False)
    half.request_finished(request_below)
    assert client.fetches == {}


def test_another_namespaces_chunks_are_asked_for_under_its_number(half, client):
    half.reset_cache()
    request = Request("r", range(400))
    client.on_disk.update((1, key) for key in chunk_keys(request))
    assert half.get_num_new_matched_tokens(request, 0) == LATER
    assert client.fetches[client.the_fetch()][0] == [(1, key) for key in chunk_keys(request)]


def test_hashes_are_split_by_their_stride(half, client, request_below):
    half.get_num_new_matched_tokens(request_below, 0)
    assert all(len(key) == 32 for key in split(b"".join(client.fetches[client.the_fetch()][0]), 32))
