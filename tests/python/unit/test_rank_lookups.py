"""An engine over several larderds: the ranks are asked about a hit, and a hit has only chunks that
all ranks have."""

import pickle

import pytest

pytest.importorskip("vllm")

from fakes import LATER, NAMED, Client, Request, blocks, ended, setup, step  # noqa: E402
from scheduler_fakes import chunk_keys, no_wait, store_all  # noqa: E402, F401
from worker_fakes import Client as WorkerClient  # noqa: E402

from larder.vllm import rank_lookups  # noqa: E402
from larder.vllm.groups import Shards  # noqa: E402
from larder.vllm.hosts import larderd_of  # noqa: E402
from larder.vllm.messages import RankLookup, StepWork, WorkerReport  # noqa: E402
from larder.vllm.places import Place  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.store_plan import STORE_RETRIES  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402

HERE = larderd_of(setup())
PLACES = Place(0, 0, (1,), HERE), Place(1, 0, (1,), "there")


def spread(**changes):
    return setup(shards=Shards(ranks=2), spread=True, **changes)


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def half(client):
    half = LarderConnectorScheduler(spread(), client, NAMED)
    half.update_connector_output(ended(meta=WorkerReport(places=frozenset(PLACES))))
    return half


@pytest.fixture
def request_(client):
    request = Request("r", range(600))  # four chunks
    store_all(client, request)
    return request


def asked(half, request):
    """The look-ups for the ranks in the next step."""
    assert half.get_num_new_matched_tokens(request, 0) == LATER
    (lookup,) = half.build_connector_meta(step()).lookups
    return pickle.loads(pickle.dumps(lookup))


def answers(half, number, *chunks):
    for one in chunks:
        half.update_connector_output(ended(meta=WorkerReport(answers={number: (1, one)})))


@pytest.mark.parametrize(("told", "hit"), [((4, 4), 512), ((4, 2), 256), ((0, 4), 0)])
# covers F-288
def test_a_hit_is_what_all_ranks_have(half, client, request_, told, hit):
    lookup = asked(half, request_)
    assert lookup.hashes == b"".join(chunk_keys(request_)) and lookup.stride == 32
    answers(half, lookup.number, told[0])
    assert half.get_num_new_matched_tokens(request_, 0) == LATER, "one rank has not answered"
    answers(half, lookup.number, told[1])
    assert half.get_num_new_matched_tokens(request_, 0) == (hit, hit > 0)
    assert client.parts == [bytes([1, 0])]


def test_one_report_may_have_the_answers_of_both(half, request_):
    lookup = asked(half, request_)
    both = WorkerReport(answers={lookup.number: (1, 4)}).aggregate(
        WorkerReport(answers={lookup.number: (1, 3), 99: (1, 1)})
    )
    assert both.answers == {lookup.number: (2, 3), 99: (1, 1)}
    half.update_connector_output(ended(meta=both))
    assert half.get_num_new_matched_tokens(request_, 0) == (384, True)


# covers F-289
def test_ranks_that_do_not_answer_in_time_make_a_miss(half, request_, monkeypatch):
    asked(half, request_)
    now = rank_lookups.time.monotonic() + rank_lookups.ANSWER_WAIT_S + half._worth.longest(512)
    half._ranks._clock = lambda: now
    assert half.get_num_new_matched_tokens(request_, 0) == (0, False)


def test_an_old_answer_is_asked_for_again(half, request_):
    lookup = asked(half, request_)
    answers(half, lookup.number, 4, 4)
    assert half.get_num_new_matched_tokens(request_, 0) == (512, True), (
        "vLLM may have no blocks yet"
    )
    now = rank_lookups.time.monotonic() + rank_lookups.COUNTS_S
    half._ranks._clock = lambda: now
    assert asked(half, request_).number == lookup.number + 1


def test_a_prompt_that_misses_here_is_not_asked_about(half):
    assert half.get_num_new_matched_tokens(Request("q", range(600)), 0) == (0, False)
    assert half.build_connector_meta(step()).lookups == ()


def test_an_answer_of_the_next_second_still_counts(half, request_):
    """Steps with much prefill take longer, and asynchronous scheduling looks before they end."""
    lookup = asked(half, request_)
    now = rank_lookups.time.monotonic() + 5
    half._ranks._clock = lambda: now
    assert half.get_num_new_matched_tokens(request_, 0) == LATER
    answers(half, lookup.number, 4, 4)
    assert half.get_num_new_matched_tokens(request_, 0) == (512, True)


def test_a_hit_ends_with_the_chunks_that_are_left_here(half, client, request_):
    lookup = asked(half, request_)
    answers(half, lookup.number, 4, 4)
    for key in chunk_keys(request_)[1:]:
        client.stored.discard(key)
    assert half.get_num_new_matched_tokens(request_, 0) == (128, True)


# covers F-289
def test_further_requests_wait_while_look_ups_are_open(half, request_, monkeypatch):
    monkeypatch.setattr(rank_lookups, "MOST_OPEN", 1)
    lookup, other = asked(half, request_), Request("q", range(600))
    assert half.get_num_new_matched_tokens(other, 0) == LATER
    assert half.build_connector_meta(step()).lookups == ()
    answers(half, lookup.number, 4, 4)
    assert asked(half, other).number == lookup.number + 1
    half.request_finished(other)
    third = Request("t", range(600))
    assert asked(half, third).number == lookup.number + 2, "an ended request leaves its place"


def test_on_one_larderd_nobody_is_asked(client, request_):
    half = LarderConnectorScheduler(spread(), client, NAMED)
    half.update_connector_output(
        ended(meta=WorkerReport(places=frozenset([PLACES[0], Place(1, 0, (1,), HERE)])))
    )
    assert half.get_num_new_matched_tokens(request_, 0) == (512, True)


# covers F-290
def test_chunks_that_are_here_are_given_to_the_ranks_all_the_same(half, client, request_):
    """The other larderd may have lost its part, or have answered too late."""
    half.update_state_after_alloc(request_, blocks(range(1, 20)), 0)
    table = {"r": list(range(1, 20))}
    (move,) = half.build_connector_meta(step(new=[("r", 0, 300)], tables=table)).stores
    assert move.parts[0].hashes == b"".join(chunk_keys(request_)[:2])
    (move,) = half.build_connector_meta(step(cached=[("r", 300, 300)], tables=table)).stores
    assert move.parts[0].hashes == b"".join(chunk_keys(request_)[2:])
    for computed in range(600, 600 + STORE_RETRIES):
        (again,) = half.build_connector_meta(step(cached=[("r", computed, 1)], tables=table)).stores
        assert again == move
    assert half.build_connector_meta(step(cached=[("r", 604, 1)], tables=table)).stores == []


def test_what_was_loaded_is_not_given_again(half, client, request_):
    lookup = asked(half, request_)
    answers(half, lookup.number, 3, 4)
    assert half.get_num_new_matched_tokens(request_, 0) == (384, True)
    half.update_state_after_alloc(request_, blocks(range(1, 20)), 384)
    half.build_connector_meta(step())
    half.update_connector_output(ended(["r"]))
    request_.num_computed_tokens = 384
    half.update_state_after_alloc(request_, blocks(range(1, 20)), 0)
    (move,) = half.build_connector_meta(
        step(new=[("r", 384, 216)], tables={"r": list(range(1, 20))})
    ).stores
    assert move.parts[0].hashes == b"".join(chunk_keys(request_)[3:])


class TestWorker:
    @pytest.fixture
    def client(self):
        return WorkerClient()

    @pytest.fixture
    def half(self, client):
        half = LarderConnectorWorker(spread(), client, 1)
        half._place = PLACES[1]
        half.bind_connector_metadata(
            StepWork(namespace="engine: test\n", larderd=HERE, places=PLACES)
        )
        return half

    def test_it_answers_for_its_own_larderd(self, half, client):
        assert client.parts == [bytes([0, 1])] and half.off is None
        client.present = 2
        half.bind_connector_metadata(StepWork(lookups=(RankLookup(7, bytes(96), 32, ""),)))
        assert half.report().answers == {7: (1, 2)} and client.looked == [(3, 0)]

    def test_a_line_that_the_scheduler_has_closed_is_not_opened_again(self, half, client):
        client.present = 2
        half.bind_connector_metadata(
            StepWork(
                closed=[("adapter: a\n", False)],
                lookups=(RankLookup(7, bytes(96), 32, "adapter: a\n"),),
            )
        )
        assert half.report().answers == {7: (1, 0)} and len(client.namespaces) == 1

    # covers F-290
    def test_what_its_memory_lacks_is_fetched_first(self, half, client):
        client.present = 1
        half.bind_connector_metadata(
            StepWork(
                lookups=(
                    RankLookup(7, bytes(range(96)), 32, "", 250),
                    RankLookup(8, bytes(32), 32, "", 250),
                )
            )
        )
        assert half.report().answers == {8: (1, 1)} and client.fetched == [
            (bytes(range(32, 96)), 250, 0)
        ]
        half.get_transfer_results()
        assert half.report() is None
        client.present, client.fetch_done = 3, True
        assert half.report().answers == {7: (1, 3)} and client.fetch_ends == [1]

    def test_before_a_sleep_its_fetches_end(self, half, client):
        client.present, client.copies, client.pages_leave = 1, lambda: 0, lambda *_: None
        half.bind_connector_metadata(
            StepWork(lookups=(RankLookup(7, bytes(range(96)), 32, "", 250),))
        )
        half.pages_leave()
        assert client.fetch_ends == [1] and half._answers.take() == {7: (1, 1)}

    @pytest.mark.parametrize("without", ["tier", "fetch"])
    def test_a_fetch_that_cannot_begin_leaves_the_answer_of_the_memory(self, half, client, without):
        client.present, client.fail = 1, without
        client.tier = None if without == "tier" else client.tier
        half.bind_connector_metadata(StepWork(lookups=(RankLookup(7, bytes(96), 32, "", 250),)))
        assert half.report().answers == {7: (1, 1)} and half.off is None

    def test_without_a_name_it_has_nothing(self, client):
        half = LarderConnectorWorker(spread(), client, 1)
        client.present = 2
        half.bind_connector_metadata(StepWork(lookups=(RankLookup(7, bytes(96), 32, ""),)))
        assert half.report().answers == {7: (1, 0)}
