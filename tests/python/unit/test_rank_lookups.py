"""An engine over several larderds: the ranks are asked about a hit, and a hit has only chunks that
all ranks have."""

import pickle

import pytest

pytest.importorskip("vllm")

from fakes import LATER, NAMED, Client, Request, blocks, ended, setup, step  # noqa: E402
from scheduler_fakes import chunk_keys, no_wait, store_all  # noqa: E402, F401

from larder.vllm import rank_lookups  # noqa: E402
from larder.vllm.groups import Shards  # noqa: E402
from larder.vllm.hosts import larderd_of  # noqa: E402
from larder.vllm.messages import WorkerReport  # noqa: E402
from larder.vllm.places import Place  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.store_plan import STORE_RETRIES  # noqa: E402

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
def test_a_hit_needs_the_chunks_of_all_ranks(half, client, request_, told, hit):
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


def test_on_one_larderd_no_rank_is_asked(client, request_):
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
    later = half.build_connector_meta(step(cached=[("r", 600, 1)], tables=table))
    assert later.stores == [], "each chunk once"


def steps_of_two_stores(half, request_):
    """Two steps that store two chunks each, and run() of a further step."""
    half.update_state_after_alloc(request_, blocks(range(1, 20)), 0)
    table = {"r": list(range(1, 20))}

    def run(computed, new=()):
        cached = [] if new else [("r", computed, 1)]
        return half.build_connector_meta(step(new=new, cached=cached, tables=table))

    first = run(0, new=[("r", 0, 300)])
    second = half.build_connector_meta(step(cached=[("r", 300, 300)], tables=table))
    return first, second, run


def reports(half, number, *refused):
    """Each of the two workers reports the end of the step."""
    for one in refused:
        half.update_connector_output(
            ended(meta=WorkerReport(ended={number: 1}, refused=frozenset([number] if one else ())))
        )


# covers F-292
def test_chunks_that_a_rank_refused_are_given_again(half, request_):
    first, second, run = steps_of_two_stores(half, request_)
    reports(half, second.number, False, False)
    assert run(600).stores == []
    reports(half, first.number, True, False)
    (move,) = run(601).stores
    assert move.parts[0].hashes == b"".join(chunk_keys(request_)), "from the first refused one on"
    assert run(602).stores == [], "until the next refusal"


# covers F-292
def test_refused_chunks_are_given_again_a_few_times_at_most(half, request_):
    _, sent, run = steps_of_two_stores(half, request_)
    for computed in range(601, 601 + STORE_RETRIES):
        reports(half, sent.number, True, True)
        sent = run(computed)
        assert sent.stores[0].parts[0].hashes == b"".join(chunk_keys(request_)[2:])
    reports(half, sent.number, True, True)
    assert run(610).stores == []


# covers F-292
def test_refused_chunks_wait_before_they_are_given_again(half, request_, monkeypatch):
    monkeypatch.setattr("larder.vllm.store_plan.RETRY_AFTER_S", 1000)
    _, second, run = steps_of_two_stores(half, request_)
    reports(half, second.number, True, False)
    assert run(600).stores == []
    half._tracked["r"].due_at = 0.0
    (move,) = run(601).stores
    assert move.parts[0].hashes == b"".join(chunk_keys(request_)[2:])


def test_a_preempted_request_gives_all_its_chunks_anew(half, request_):
    first, second, _ = steps_of_two_stores(half, request_)
    half.build_connector_meta(step(preempted=["r"]))
    reports(half, first.number, True, True)
    half.get_num_new_matched_tokens(request_, 0)
    half.update_state_after_alloc(request_, blocks(range(1, 20)), 0)
    tables = {"r": list(range(1, 20))}
    (move,) = half.build_connector_meta(step(new=[("r", 0, 600)], tables=tables)).stores
    assert move.parts[0].hashes == b"".join(chunk_keys(request_))
    reports(half, second.number, False, False)
    assert half._stores._begun.keys() <= {3}, "an ended step leaves the table"


def test_loaded_chunks_are_not_stored_again(half, client, request_):
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
