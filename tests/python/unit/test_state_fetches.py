"""Fetches of an engine with recurrent states against fakes: the promoted state, its chunks, and the
worth of a part."""

from dataclasses import replace

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
    ended,
    group,
    setup,
    step,
)

from larder import _native as native  # noqa: E402
from larder.vllm import state_fetches, tier_probes  # noqa: E402
from larder.lower_tiers import TierSpeed  # noqa: E402
from larder.vllm.groups import Shards  # noqa: E402
from larder.vllm.messages import WorkerReport  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.state_reach import MOST_ENDS, End, StateReach, ProbedStates  # noqa: E402
from larder.vllm.spaces import Space  # noqa: E402

STATE = replace(group(1, layers=("s.0", "s.1")), blocks=1, state=True)
SPACE = 1  # the number of the namespace of states


@pytest.fixture
def client():
    client = Client()
    client.tier = FAST
    return client


@pytest.fixture
def half(client):
    """Of an engine that computes 400 tokens a second."""
    half = LarderConnectorScheduler(setup(groups=(group(), STATE)), client, NAMED)
    half.update_connector_output(
        ended(meta=WorkerReport(prefill_tokens=4000, prefill_ns=10_000_000_000))
    )
    return half


@pytest.fixture
def one():
    """A request of four whole chunks and a tail."""
    return Request("r", range(600))


def attention(place, request, chunks):
    place.update(chunk_keys(request)[:chunks])


def states(place, request, *ends):
    place.update((SPACE, chunk_keys(request)[end - 1]) for end in ends)


def asked(client):
    """The requests of the fetches: (chunks of attention, ends of states)."""
    tokens = [keys for keys, _ in client.fetches.values() if not isinstance(keys[0], tuple)]
    states = [key for keys, _ in client.fetches.values() for key in keys if isinstance(key, tuple)]
    return [len(keys) for keys in tokens], states


def arrive(client, **how):
    for ticket in list(client.fetches):
        client.arrive(ticket, **how)


class TestFetches:
    def test_after_a_restart_the_chunks_and_the_last_state_come_up(self, half, client, one):
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 2, 4)
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        assert asked(client) == ([4], [(SPACE, chunk_keys(one)[3])])
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        arrive(client)
        assert half.get_num_new_matched_tokens(one, 0) == (512, True)
        assert len(client.fetches) == 2, "larderd keeps both until the holds stand"
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 15 + [40]), 512)
        assert client.fetches == {} and len(client.holds) == 2
        assert client.reported[-1][0] == native.DECIDED_FETCH

    def test_a_request_waits_for_both_answers(self, half, client, one):
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 4)
        half.get_num_new_matched_tokens(one, 0)
        tokens, state = client.fetches
        for ticket in (state, tokens):
            assert half.get_num_new_matched_tokens(one, 0) == LATER
            client.arrive(ticket)
        assert half.get_num_new_matched_tokens(one, 0) == (512, True)

    def test_only_the_state_is_below(self, half, client, one):
        attention(client.stored, one, 4)
        states(client.on_disk, one, 4)
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        assert asked(client) == ([4], [(SPACE, chunk_keys(one)[3])]), (
            "the chunks in memory must stay there"
        )
        arrive(client)
        assert half.get_num_new_matched_tokens(one, 0) == (512, True)

    def test_only_the_chunks_are_below(self, half, client, one):
        attention(client.on_disk, one, 4)
        states(client.stored, one, 4)
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        assert asked(client) == ([4], [(SPACE, chunk_keys(one)[3])])

    def test_no_chunk_behind_the_last_state_is_fetched(self, half, client, one):
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 1, 3)
        half.get_num_new_matched_tokens(one, 0)
        assert asked(client) == ([3], [(SPACE, chunk_keys(one)[2])])

    @pytest.mark.parametrize("local", [0, 256])
    def test_a_state_without_gain_is_not_fetched(self, half, client, one, local):
        attention(client.stored, one, 4)
        states(client.stored, one, 3)
        states(client.on_disk, one, 1, 2)
        assert half.get_num_new_matched_tokens(one, local) == (384 - local, True)
        assert client.fetches == {}

    def test_behind_vllms_own_hit(self, half, client, one):
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 2, 4)
        assert half.get_num_new_matched_tokens(one, 256) == LATER
        assert asked(client) == ([2], [(SPACE, chunk_keys(one)[3])])
        arrive(client)
        assert half.get_num_new_matched_tokens(one, 256) == (256, True)

    @pytest.mark.parametrize("reason", ["late", "absent", "over a bound"])
    @pytest.mark.parametrize("came", ["tokens", "state"])
    # covers F-257
    def test_chunks_without_state_are_no_hit_and_no_gain(self, half, client, one, came, reason):
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 4)
        half.get_num_new_matched_tokens(one, 0)
        tokens, state = client.fetches
        client.arrive(tokens, *((4, "done") if came == "tokens" else (0, reason)))
        client.arrive(state, *((1, "done") if came == "state" else (0, reason)))
        assert half.get_num_new_matched_tokens(one, 0) == (0, False)
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 20), 0)
        assert client.fetches == {} and client.reported[-1][0] == native.DECIDED_RECOMPUTE
        other = Request("s", range(1000, 1600))
        attention(client.on_disk, other, 4)
        states(client.on_disk, other, 4)
        assert half.get_num_new_matched_tokens(other, 0) == (0, False), (
            "after a loss there is a pause"
        )

    @pytest.mark.parametrize("absent", ["tokens", "state"])
    def test_an_incomplete_half_ends_the_wait(self, half, client, one, absent):
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 4)
        half.get_num_new_matched_tokens(one, 0)
        tokens, state = client.fetches
        client.arrive(tokens if absent == "tokens" else state, 0, "absent")
        assert half.get_num_new_matched_tokens(one, 0) == (0, False)
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 20), 0)
        assert client.fetches == {}

    # covers F-258
    def test_space_for_one_fetch_only_starts_neither(self, half, client, one):
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 4)
        client.fail = "second fetch"
        assert half.get_num_new_matched_tokens(one, 0) == (0, False)
        assert client.fetches == {}, "the first one is ended"
        client.fail = None
        assert half.get_num_new_matched_tokens(one, 0) == LATER

    def test_the_boundary_is_set_by_the_call_that_tells_the_hit(self, half, client, one):
        one.shared_prefix_boundary = 0
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 2)
        half.get_num_new_matched_tokens(one, 0)
        assert one.shared_prefix_boundary == 0
        client.stored.update(chunk_keys(one))  # another request has computed all chunks meanwhile
        arrive(client)
        one.shared_prefix_boundary = 0  # vLLM sets the boundary before each question
        assert half.get_num_new_matched_tokens(one, 0) == (256, True)
        assert one.shared_prefix_boundary == 512

    def test_fetches_can_be_turned_off(self, client, one):
        half = LarderConnectorScheduler(
            setup(groups=(group(), STATE), fetches=False), client, NAMED
        )
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 4)
        assert half.get_num_new_matched_tokens(one, 0) == (0, False)
        assert client.calls == []

    def test_states_slower_to_fetch_than_to_compute_are_reported(self, half, client, one):
        client.tier = TierSpeed(True, 1_000_000, 1000)
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 4)
        assert half.get_num_new_matched_tokens(one, 0) == (0, False)
        half.update_state_after_alloc(one, blocks(list(range(10, 30)), [0] * 20), 0)
        assert client.reported[-1][0] == native.DECIDED_RECOMPUTE

    def test_a_second_request_waits_for_the_fetch_of_the_same_state(self, half, client, one):
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 4)
        half.get_num_new_matched_tokens(one, 0)
        other, longer = Request("s", range(600)), Request("t", range(900))
        assert half.get_num_new_matched_tokens(other, 0) == LATER
        assert len(client.fetches) == 2, "no fetch of its own"
        states(client.on_disk, longer, 3)
        client.on_disk.discard((SPACE, chunk_keys(one)[3]))
        assert half.get_num_new_matched_tokens(longer, 0) == LATER
        assert asked(client)[0] == [4, 3], "the load of the other ends with another state"

    def test_a_fetch_up_to_an_earlier_state_is_not_waited_for(self, half, client):
        one, two = Request("r", range(300)), Request("s", range(1000))
        attention(client.on_disk, two, 7)
        states(client.on_disk, two, 2, 7)
        half.get_num_new_matched_tokens(one, 0)
        assert half.get_num_new_matched_tokens(two, 0) == LATER
        assert asked(client)[0] == [2, 7], "the longer one has a fetch of its own"

    def test_a_fetch_of_another_request_without_gain_is_not_awaited(self, half, client):
        one, two = Request("r", range(300)), Request("s", range(1000))
        attention(client.on_disk, two, 2)
        states(client.on_disk, two, 2)
        half.get_num_new_matched_tokens(one, 0)
        client.tier = TierSpeed(True, 1_000_000, 1000)
        assert half.get_num_new_matched_tokens(two, 0) == (0, False)

    def test_no_state_behind_the_bound_of_one_fetch_is_fetched(
        self, half, client, one, monkeypatch
    ):
        monkeypatch.setattr(state_fetches, "MOST_CHUNKS", 3)
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 2, 4)
        half.get_num_new_matched_tokens(one, 0)
        assert asked(client) == ([2], [(SPACE, chunk_keys(one)[1])])

    def test_a_hit_from_memory_may_be_longer(self, half, client, one, monkeypatch):
        monkeypatch.setattr(state_fetches, "MOST_CHUNKS", 1)
        attention(client.stored, one, 4)
        states(client.stored, one, 3)
        states(client.on_disk, one, 1)
        assert half.get_num_new_matched_tokens(one, 0) == (384, True)


class TestProbes:
    def answer(self, client, **how):
        for ticket in list(client.probes):
            client.answer_look(ticket, **how)

    @pytest.mark.parametrize("tier", [SHARED, FAST_AND_SHARED])
    def test_chunks_and_states_are_asked_about_at_one_time(self, half, client, one, tier):
        client.tier = tier
        attention(client.in_backend, one, 4)
        states(client.in_backend, one, 2, 4)
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        assert client.call_names() == ["probe each", "probe"]
        assert [len(keys) for keys, _ in client.probes.values()] == [4, 4]
        self.answer(client)
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        assert client.probes == {} and asked(client) == ([4], [(SPACE, chunk_keys(one)[3])])
        arrive(client)
        assert half.get_num_new_matched_tokens(one, 0) == (512, True)

    def test_the_last_state_inside_what_attention_reaches(self, half, client, one):
        client.tier = SHARED
        attention(client.in_backend, one, 3)
        states(client.in_backend, one, 1, 2, 4)
        half.get_num_new_matched_tokens(one, 0)
        self.answer(client)
        half.get_num_new_matched_tokens(one, 0)
        assert asked(client) == ([2], [(SPACE, chunk_keys(one)[1])])

    def test_both_probes_must_answer(self, half, client, one):
        client.tier = SHARED
        attention(client.in_backend, one, 4)
        states(client.in_backend, one, 4)
        half.get_num_new_matched_tokens(one, 0)
        for ticket in list(client.probes):
            assert half.get_num_new_matched_tokens(one, 0) == LATER and client.fetches == {}
            client.answer_look(ticket)
        half.get_num_new_matched_tokens(one, 0)
        assert len(client.fetches) == 2

    def test_without_a_state_in_the_backend_nothing_is_fetched(self, half, client, one):
        client.tier = SHARED
        attention(client.in_backend, one, 4)
        half.get_num_new_matched_tokens(one, 0)
        self.answer(client)
        assert half.get_num_new_matched_tokens(one, 0) == (0, False)
        assert client.fetches == {}

    def test_a_backend_that_cannot_be_relied_on_is_not_read(self, half, client, one):
        client.tier = SHARED
        attention(client.in_backend, one, 4)
        states(client.in_backend, one, 4)
        half.get_num_new_matched_tokens(one, 0)
        self.answer(client, read_bytes_per_s=0)
        assert half.get_num_new_matched_tokens(one, 0) == (0, False)

    # covers F-259
    def test_an_older_larderd_is_not_asked(self, half, client, one):
        client.tier, client.fail = SHARED, "probe each"
        attention(client.in_backend, one, 4)
        states(client.in_backend, one, 4)
        assert half.get_num_new_matched_tokens(one, 0) == (0, False)
        assert client.calls == [], "nor about the chunks"

    def test_a_question_about_states_alone_is_ended(self, half, client, one):
        client.tier, client.fail = SHARED, "probe"
        assert half.get_num_new_matched_tokens(one, 0) == (0, False)
        assert client.call_names() == ["probe each", "probe end"]

    def test_chunks_on_disk_are_fetched_if_the_backend_has_no_more(self, half, client, one):
        client.tier = FAST_AND_SHARED
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 2)
        half.get_num_new_matched_tokens(one, 0)
        self.answer(client)
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        assert asked(client) == ([2], [(SPACE, chunk_keys(one)[1])])

    def test_a_disk_with_the_last_state_needs_no_question(self, half, client, one):
        client.tier = FAST_AND_SHARED
        attention(client.on_disk, one, 4)
        states(client.on_disk, one, 4)
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        assert client.probes == {} and len(client.fetches) == 2

    def test_a_request_that_ends_leaves_no_ticket(self, half, client, one):
        client.tier = SHARED
        half.get_num_new_matched_tokens(one, 0)
        half.request_finished(one)
        assert client.probes == {}

    def test_await_probes_again_until_the_last_state_is_there(self, half, client):
        client.tier = SHARED
        one = Request("r", range(600), kv_transfer_params={"larder": "await"})
        attention(client.in_backend, one, 4)
        half.get_num_new_matched_tokens(one, 0)
        self.answer(client)
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        states(client.in_backend, one, 4)
        while not client.probes:
            half.build_connector_meta(step())
        self.answer(client)
        while not client.fetches:
            assert half.get_num_new_matched_tokens(one, 0) == LATER
        assert asked(client) == ([4], [(SPACE, chunk_keys(one)[3])])

    def test_await_is_content_where_the_prompt_ends_with_a_chunk(self, half, client):
        """The other engine has the state behind the last chunk, and a hit here ends before that
        chunk."""
        client.tier = SHARED
        one = Request("r", range(512), kv_transfer_params={"larder": "await"})
        attention(client.in_backend, one, 4)
        states(client.in_backend, one, 2, 4)
        half.get_num_new_matched_tokens(one, 0)
        self.answer(client)
        assert half.get_num_new_matched_tokens(one, 0) == LATER
        assert asked(client) == ([2], [(SPACE, chunk_keys(one)[1])])

    @pytest.mark.parametrize("here", [0, 1])
    def test_states_are_asked_about_where_tokens_can_be_found(self, client, one, monkeypatch, here):
        """larderd asks the backend about the given number of keys, the first of the tokens and the
        last of the states."""
        monkeypatch.setattr(tier_probes, "MOST_KEYS", 4)
        half = LarderConnectorScheduler(
            setup(groups=(group(), STATE), shards=Shards(ranks=2)), client, NAMED
        )
        client.tier = SHARED
        attention(client.stored, one, here)
        half.get_num_new_matched_tokens(one, 0)
        assert [len(keys) for keys, _ in client.probes.values()] == [2 + here, 4]


class TestEnds:
    def ends(self, client, one, first=0, reach=4, beyond=0, probed=None):
        hashes = b"".join(chunk_keys(one)[first:])
        return StateReach(client).ends(
            hashes, 32, Space(0, states=SPACE), first, reach, beyond, probed
        )

    def test_ends_are_ordered_from_the_last_with_their_place(self, client, one):
        states(client.on_disk, one, 1, 4)
        states(client.stored, one, 3)
        assert self.ends(client, one) == [End(4, False), End(3, True), End(1, False)]
        assert self.ends(client, one, reach=3, beyond=1) == [End(3, True)]
        assert self.ends(client, one, first=2, beyond=2) == [End(4, False), End(3, True)]
        assert self.ends(client, one, first=4, beyond=4) == []

    def test_a_probe_adds_states_of_the_backend(self, client, one):
        states(client.on_disk, one, 1)
        assert self.ends(client, one, probed=ProbedStates(0, 0b1010)) == [
            End(4, False),
            End(2, False),
            End(1, False),
        ]
        assert self.ends(client, one, reach=3, probed=ProbedStates(0, 0b1010)) == [
            End(2, False),
            End(1, False),
        ]

    def test_the_filter_is_searched_only_behind_the_probe_result(self, client, one, monkeypatch):
        searched, last = [], client.last_reachable
        monkeypatch.setattr(
            client,
            "last_reachable",
            lambda hashes, stride, ns: (
                searched.append(len(hashes) // stride) or last(hashes, stride, ns)
            ),
        )
        states(client.on_disk, one, 1)
        assert self.ends(client, one, probed=ProbedStates(0, 0b0110)) == [
            End(3, False),
            End(2, False),
            End(1, False),
        ]
        assert searched == [1, 1], "chunk 4, and the first one"

    def test_a_probe_that_began_before_vllms_own_hit(self, client, one):
        assert self.ends(client, one, first=2, beyond=2, probed=ProbedStates(1, 0b101)) == [
            End(4, False)
        ]
        assert (
            self.ends(client, one, first=2, reach=1, beyond=2, probed=ProbedStates(0, 0b11)) == []
        )

    def test_ends_are_bounded(self, client):
        long = Request("l", range(128 * 20))
        states(client.on_disk, long, *range(1, 21))
        assert [end.chunks for end in self.ends(client, long, reach=20)] == list(
            range(20, 20 - MOST_ENDS, -1)
        )
