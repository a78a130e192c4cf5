"""Probes of the scheduler's half against fakes: when larderd is asked about the backend, and the
result of each answer."""

import pytest

pytest.importorskip("vllm")

from fakes import (  # noqa: E402
    FAST,
    FAST_AND_SHARED,
    LATER,
    NAMED,
    SHARED,
    Client,
    Request,
    blocks,
    chunk_keys,
    measured_half,
    setup,
    step,
)

from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402


@pytest.fixture
def client():
    client = Client()
    client.tier = SHARED
    return client


@pytest.fixture
def half(client):
    return measured_half(client)


@pytest.fixture
def request_shared(client):
    """A request of three chunks, all in the backend."""
    request = Request("r", range(400))
    client.in_backend.update(chunk_keys(request))
    return request


@pytest.mark.parametrize("tier", [SHARED, FAST_AND_SHARED])
def test_chunks_in_the_backend_are_probed_fetched_and_hit(half, client, request_shared, tier):
    client.tier = tier
    assert half.get_num_new_matched_tokens(request_shared, 0) == LATER
    asked, deadline_ms = client.probes[client.the_probe()]
    assert asked == chunk_keys(request_shared) and deadline_ms == 40  # 4% of a second
    assert half.get_num_new_matched_tokens(request_shared, 0) == LATER
    assert client.fetches == {}
    client.answer_look(client.the_probe())
    assert half.get_num_new_matched_tokens(request_shared, 0) == LATER
    assert client.probes == {}, "the ticket is free"
    asked, deadline_ms = client.fetches[client.the_fetch()]
    assert asked == chunk_keys(request_shared) and 50 <= deadline_ms <= 250
    client.arrive(client.the_fetch())
    assert half.get_num_new_matched_tokens(request_shared, 0) == (384, True)
    half.update_state_after_alloc(request_shared, blocks(range(1, 20)), 384)
    half.request_finished(request_shared)
    assert client.call_names() == ["probe", "probe end", "fetch", "request", "hold", "end"]


def test_chunks_missing_in_the_backend_are_computed_at_once(half, client):
    request = Request("r", range(400))
    assert half.get_num_new_matched_tokens(request, 0) == LATER
    client.answer_look(client.the_probe())
    assert half.get_num_new_matched_tokens(request, 0) == (0, False)
    assert half.get_num_new_matched_tokens(request, 0) == (0, False)
    assert client.call_names() == ["probe", "probe end"], "a request looks once"
    half.request_finished(request)
    assert half.get_num_new_matched_tokens(request, 0) == LATER, "the name is another request's now"


def test_memory_disk_and_backend_together(half, client, request_shared):
    client.tier = FAST_AND_SHARED
    one, two, three = chunk_keys(request_shared)
    client.stored.add(one)
    client.on_disk.add(two)
    client.in_backend = {three}
    assert half.get_num_new_matched_tokens(request_shared, 0) == LATER
    client.answer_look(client.the_probe())
    assert half.get_num_new_matched_tokens(request_shared, 0) == LATER
    assert client.fetches[client.the_fetch()][0] == [one, two, three]


@pytest.mark.parametrize("where", ["stored", "on_disk"])
def test_visible_chunks_are_not_probed(half, client, request_shared, where):
    client.tier = FAST_AND_SHARED
    getattr(client, where).update(chunk_keys(request_shared))
    half.get_num_new_matched_tokens(request_shared, 0)
    assert client.probes == {}


@pytest.mark.parametrize("tier", [None, FAST, FAST._replace(serving=False)])
def test_without_a_shared_tier_no_probe_is_made(half, client, request_shared, tier):
    client.tier = tier
    assert half.get_num_new_matched_tokens(request_shared, 0) == (0, False)
    assert client.calls == []


@pytest.mark.parametrize("reason", ["late", "it failed"])
def test_an_unanswered_probe_leaves_the_chunks_on_disk(half, client, request_shared, reason):
    client.tier = FAST_AND_SHARED
    client.on_disk.update(chunk_keys(request_shared)[:2])
    half.get_num_new_matched_tokens(request_shared, 0)
    client.answer_look(client.the_probe(), reason, 0.04)
    assert half.get_num_new_matched_tokens(request_shared, 0) == LATER
    assert client.fetches[client.the_fetch()][0] == chunk_keys(request_shared)[:2]


@pytest.mark.parametrize("read_bytes_per_s", [0, 1000])
def test_a_backend_that_is_slow_is_not_fetched_from(half, client, request_shared, read_bytes_per_s):
    half.get_num_new_matched_tokens(request_shared, 0)
    client.answer_look(client.the_probe(), read_bytes_per_s=read_bytes_per_s)
    assert half.get_num_new_matched_tokens(request_shared, 0) == (0, False)
    assert client.fetches == {}


def test_a_slow_backend_leaves_the_chunks_on_disk(half, client, request_shared):
    client.tier = FAST_AND_SHARED
    client.on_disk.update(chunk_keys(request_shared)[:2])
    half.get_num_new_matched_tokens(request_shared, 0)
    client.answer_look(client.the_probe(), read_bytes_per_s=1000)
    assert half.get_num_new_matched_tokens(request_shared, 0) == LATER
    assert client.fetches[client.the_fetch()][0] == chunk_keys(request_shared)[:2]


def test_blocks_of_the_engine_may_change_during_a_probe(half, client, request_shared):
    half.get_num_new_matched_tokens(request_shared, 128)
    client.answer_look(client.the_probe())
    assert half.get_num_new_matched_tokens(request_shared, 256) == LATER
    assert client.fetches[client.the_fetch()][0] == chunk_keys(request_shared)[2:]
    half.request_finished(request_shared)
    half.get_num_new_matched_tokens(request_shared, 128)
    client.answer_look(client.the_probe())
    # No question covered the first chunk.
    assert half.get_num_new_matched_tokens(request_shared, 0) == (0, False)


@pytest.mark.parametrize("answered", [False, True])
def test_a_probe_ends_with_its_request(half, client, request_shared, answered):
    half.get_num_new_matched_tokens(request_shared, 0)
    if answered:
        client.answer_look(client.the_probe())
    half.request_finished(request_shared)
    assert client.probes == {}
    assert half.get_num_new_matched_tokens(request_shared, 0) == LATER


def test_a_failed_probe_computes_the_prompt(half, client, request_shared):
    client.fail = "probe"
    assert half.get_num_new_matched_tokens(request_shared, 0) == (0, False)
    assert half.off is None


def test_a_request_over_the_fetch_limit_is_not_probed_again(half, client, request_shared):
    half.get_num_new_matched_tokens(request_shared, 0)
    client.answer_look(client.the_probe())
    client.fail = "fetch"
    assert half.get_num_new_matched_tokens(request_shared, 0) == (0, False)
    client.fail = None
    assert half.get_num_new_matched_tokens(request_shared, 0) == LATER
    assert client.call_names() == ["probe", "probe end", "fetch"]


def test_probes_can_be_turned_off(client, request_shared):
    half = LarderConnectorScheduler(setup(fetches=False), client, NAMED)
    assert half.get_num_new_matched_tokens(request_shared, 0) == (0, False)
    assert client.calls == []


def test_a_late_fetch_from_the_backend_pauses_probes_and_keeps_the_disk(
    half, client, request_shared
):
    client.tier = FAST_AND_SHARED
    half.get_num_new_matched_tokens(request_shared, 0)
    client.answer_look(client.the_probe())
    half.get_num_new_matched_tokens(request_shared, 0)
    client.arrive(client.the_fetch(), 0, "late", 0.2)
    half.get_num_new_matched_tokens(request_shared, 0)
    second = Request("s", range(1000, 1400))
    client.on_disk.update(chunk_keys(second)[:2])
    assert half.get_num_new_matched_tokens(second, 0) == LATER
    assert client.probes == {} and len(client.fetches) == 2


def test_a_late_fetch_from_the_disk_keeps_probing_the_backend(half, client):
    client.tier = FAST_AND_SHARED
    first, second = Request("r", range(400)), Request("s", range(1000, 1400))
    client.on_disk.update(chunk_keys(first)[:2])
    half.get_num_new_matched_tokens(first, 0)
    client.answer_look(client.the_probe())
    half.get_num_new_matched_tokens(first, 0)
    client.arrive(client.the_fetch(), 0, "late", 0.2)
    half.get_num_new_matched_tokens(first, 0)
    assert half.get_num_new_matched_tokens(second, 0) == LATER
    assert client.probes[client.the_probe()][0] == chunk_keys(second)


def test_an_idle_engine_waits_a_little_for_a_probe(half, client, request_shared):
    half.get_num_new_matched_tokens(request_shared, 0)
    half.build_connector_meta(step())
    assert client.calls[1:] == [("waited", 2)]
    client.answer_look(client.the_probe())
    half.build_connector_meta(step())
    half.build_connector_meta(step())
    assert client.calls[2:] == [("waited", 2), ("probe end", 1)]


def test_turning_off_ends_the_wait_for_a_probe(half, client, request_shared):
    half.get_num_new_matched_tokens(request_shared, 0)
    half.turn_off("a test")
    assert half.get_num_new_matched_tokens(request_shared, 0) == (0, False)
    half.request_finished(request_shared)
    assert client.probes == {}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class TestAwaited:
    """A request whose prompt another engine has just computed."""

    @pytest.fixture
    def clock(self, half):
        half._fetches._probes._clock = clock = Clock()
        return clock

    @pytest.fixture
    def awaiting(self):
        return Request("r", range(400), kv_transfer_params={"larder": "await"})

    def test_await_probes_until_all_chunks_are_present(self, half, client, clock, awaiting):
        for count in range(3):
            client.in_backend.update(chunk_keys(awaiting)[:count])
            assert half.get_num_new_matched_tokens(awaiting, 0) == LATER
            client.answer_look(client.the_probe())
            assert half.get_num_new_matched_tokens(awaiting, 0) == LATER
            assert client.probes == {}, "a while passes between two looks"
            clock.now += 0.01
        client.in_backend.update(chunk_keys(awaiting))
        half.get_num_new_matched_tokens(awaiting, 0)
        client.answer_look(client.the_probe())
        assert half.get_num_new_matched_tokens(awaiting, 0) == LATER
        assert client.fetches[client.the_fetch()][0] == chunk_keys(awaiting)

    def test_a_quarter_of_computing_and_no_longer(self, half, client, clock, awaiting):
        client.in_backend.update(chunk_keys(awaiting)[:1])
        probed, began = 0, clock.now
        while half.get_num_new_matched_tokens(awaiting, 0) == LATER and not client.fetches:
            if client.probes:
                client.answer_look(client.the_probe())
                probed += 1
            clock.now += 0.01
        assert 0.25 <= clock.now - began <= 0.30 and probed > 5
        assert client.fetches[client.the_fetch()][0] == chunk_keys(awaiting)[:1], (
            "the chunks there by then"
        )

    def test_missing_chunks_are_not_awaited_again(self, half, client, clock, awaiting):
        self.test_a_quarter_of_computing_and_no_longer(half, client, clock, awaiting)
        second = Request("s", range(1000, 1400), kv_transfer_params={"larder": "await"})
        half.get_num_new_matched_tokens(second, 0)
        client.answer_look(client.the_probe())
        assert half.get_num_new_matched_tokens(second, 0) == (0, False)

    def test_the_deadline_of_a_probe_is_the_remaining_wait(self, half, client, clock, awaiting):
        half.get_num_new_matched_tokens(awaiting, 0)
        assert client.probes[client.the_probe()][1] == 250
        client.answer_look(client.the_probe())
        half.get_num_new_matched_tokens(awaiting, 0)
        clock.now += 0.2
        half.get_num_new_matched_tokens(awaiting, 0)
        assert client.probes[client.the_probe()][1] == 50

    @pytest.mark.parametrize("reason", ["late", "it failed"])
    def test_an_unanswered_probe_is_not_repeated(self, half, client, clock, awaiting, reason):
        half.get_num_new_matched_tokens(awaiting, 0)
        client.answer_look(client.the_probe(), reason, 0.04)
        assert half.get_num_new_matched_tokens(awaiting, 0) == (0, False)

    def test_a_lost_larderd_ends_the_wait(self, half, client, clock, awaiting):
        half.get_num_new_matched_tokens(awaiting, 0)
        client.answer_look(client.the_probe())
        half.get_num_new_matched_tokens(awaiting, 0)
        clock.now += 0.01
        client.fail = "probe"
        assert half.get_num_new_matched_tokens(awaiting, 0) == (0, False)

    def test_an_end_between_two_probes_frees_each_ticket_once(self, half, client, clock, awaiting):
        half.get_num_new_matched_tokens(awaiting, 0)
        client.answer_look(client.the_probe())
        half.get_num_new_matched_tokens(awaiting, 0)
        half.build_connector_meta(step())
        half.request_finished(awaiting)
        assert client.call_names() == ["probe", "probe end"]
