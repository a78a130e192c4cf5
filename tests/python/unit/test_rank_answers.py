"""A worker whose larderd is not the scheduler's answers for its own larderd, and fetches first what
the memory lacks."""

import pytest

pytest.importorskip("vllm")

from fakes import setup  # noqa: E402
from worker_fakes import Client, fetched, probed  # noqa: E402

from larder.lower_tiers import TierSpeed  # noqa: E402
from larder.vllm.cost_model import FIRST_PAUSE_S  # noqa: E402
from larder.vllm.groups import Shards  # noqa: E402
from larder.vllm.hosts import larderd_of  # noqa: E402
from larder.vllm.messages import RankLookup, StepWork  # noqa: E402
from larder.vllm.places import Place  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402

HERE = larderd_of(setup())
PLACES = Place(0, 0, (1,), HERE), Place(1, 0, (1,), "there")
DISK, BACKEND = TierSpeed(True, 1, 1), TierSpeed(False, 0, 0, True)  # a backend without a disk
HASHES = bytes(range(96))  # of three chunks
SPREAD = setup(shards=Shards(ranks=2), spread=True)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def client():
    client = Client()
    client.tier, client.present, client.below = DISK, 1, 2
    return client


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def half(client, clock):
    half = LarderConnectorWorker(SPREAD, client, 1)
    half._place = PLACES[1]
    half._answers._clock = clock
    for pause in half._answers._pauses.values():
        pause._clock = clock
    half.bind_connector_metadata(StepWork(namespace="engine: test\n", larderd=HERE, places=PLACES))
    return half


def ask(half, number=7, hashes=HASHES, deadline_ms=250, line="", **work):
    lookup = RankLookup(number, hashes, 32, line, deadline_ms)
    half.bind_connector_metadata(StepWork(lookups=(lookup,), **work))


def answers(half):
    report = half.report()
    return {} if report is None else report.answers


def test_a_rank_answers_for_its_own_larderd(half, client):
    assert client.parts == [bytes([0, 1])] and half.off is None
    client.present = 2
    ask(half, deadline_ms=0)
    assert answers(half) == {7: (1, 2)} and client.looked == [(3, 0)]


def test_a_line_that_the_scheduler_has_closed_is_not_opened_again(half, client):
    ask(half, line="adapter: a\n", closed=[("adapter: a\n", False)])
    assert answers(half) == {7: (1, 0)} and len(client.namespaces) == 1


# covers F-290
def test_chunks_missing_in_memory_are_fetched_first(half, client):
    ask(half)
    assert answers(half) == {} and client.fetched == [(HASHES[32:], 250, 0)]
    ask(half, 8, bytes(32))
    assert answers(half) == {8: (1, 1)}, "nothing is missing"
    half.get_transfer_results()
    assert answers(half) == {}
    client.present, client.fetch_done = 3, fetched(2)
    assert answers(half) == {7: (1, 3)} and client.fetch_ends == [1]
    assert not half._answers


# covers F-291
def test_a_backend_is_probed_before_a_fetch(half, client, clock):
    """A larderd that never served a scheduler knows no chunk of the backend, and shared memory
    shows its disk alone. Without a probe a fetch finds nothing."""
    client.tier, client.below = BACKEND, 0
    ask(half)
    assert client.probed == [(HASHES[32:], 40, 0)] and answers(half) == {} and not client.fetched
    clock.now, client.probe_done = 0.1, probed(2, shared=2)
    assert answers(half) == {} and client.probe_ends == [101]
    assert client.fetched == [(HASHES[32:], 150, 0)], "what the probe left of the deadline"
    client.present, client.fetch_done = 3, fetched(2)
    assert answers(half) == {7: (1, 3)} and client.fetch_ends == [1]


# covers F-291
def test_the_probe_counts_disk_and_backend(half, client):
    client.tier, client.below = TierSpeed(True, 1, 1, True), 1
    ask(half)
    client.probe_done = probed(1, shared=0)
    assert answers(half) == {} and client.fetched == [(HASHES[32:64], 250, 0)]


@pytest.mark.parametrize("found", [probed(0, 0), probed(2, 2, rate=0), probed(0, 0, late=True)])
def test_a_probe_that_is_of_no_use_leaves_the_answer_of_the_memory(half, client, found):
    """Nothing is there, or no tier is to be relied on, or the answer is late."""
    client.tier, client.probe_done = BACKEND, found
    ask(half)
    assert answers(half) == {7: (1, 1)} and not client.fetched and client.probe_ends == [101]
    assert not half._answers


# covers F-291
def test_after_a_probe_as_long_as_the_deadline_nothing_is_fetched(half, client, clock):
    client.tier = BACKEND
    ask(half)
    clock.now, client.probe_done = 0.25, probed(2, shared=2)
    assert answers(half) == {7: (1, 1)} and not client.fetched


@pytest.mark.parametrize("tier", [DISK, BACKEND])
# covers F-291
def test_after_a_late_fetch_without_a_gain_there_is_a_pause(half, client, clock, tier):
    client.tier, client.probe_done = tier, probed(2, shared=2)
    ask(half)
    client.fetch_done = None
    assert answers(half) == {}
    client.fetch_done = fetched(0, late=True, elapsed_s=0.25)
    assert answers(half) == {7: (1, 1)}
    asked = len(client.fetched), len(client.probed)
    ask(half, 8)
    assert answers(half) == {8: (1, 1)} and (len(client.fetched), len(client.probed)) == asked
    clock.now += FIRST_PAUSE_S
    ask(half, 9)
    client.fetch_done = fetched(2)
    answers(half)
    assert len(client.fetched) == 2


def test_a_late_fetch_that_gains_more_than_its_wait_makes_no_pause(half, client):
    """The deadline is a quarter of the time to compute the three chunks: one of them is worth
    333 ms."""
    client.fetch_done = fetched(1, late=True, elapsed_s=0.25)
    ask(half)
    assert answers(half) == {7: (1, 1)}
    ask(half, 8)
    assert len(client.fetched) == 2


@pytest.mark.parametrize("tier", [DISK, BACKEND])
def test_before_a_sleep_its_fetches_end(half, client, tier):
    client.tier, client.copies, client.pages_leave = tier, lambda: 0, lambda *_: None
    ask(half)
    half.pages_leave()
    assert client.fetch_ends + client.probe_ends == [1 if tier is DISK else 101]
    assert half._answers.take() == {7: (1, 1)} and not half._answers


@pytest.mark.parametrize("tier", [DISK, BACKEND])
def test_a_fetch_of_a_closed_namespace_ends(half, client, tier):
    client.tier = tier
    ask(half, line="salt: a\n")
    half.bind_connector_metadata(StepWork(closed=[("salt: a\n", False)]))
    assert client.fetch_ends + client.probe_ends == [1 if tier is DISK else 101]
    assert answers(half) == {7: (1, 0)} and not half._answers and half.off is None


def test_when_the_half_is_turned_off_its_fetches_end(half, client):
    ask(half)
    half.turn_off("made to")
    assert client.fetch_ends == [1] and not half._answers


@pytest.mark.parametrize("without", ["tier", "fetch", "probe"])
def test_a_fetch_that_cannot_begin_leaves_the_answer_of_the_memory(half, client, without):
    client.fail = without
    client.tier = {"tier": None, "fetch": DISK, "probe": BACKEND}[without]
    ask(half)
    assert answers(half) == {7: (1, 1)} and half.off is None and not half._answers


def test_without_a_namespace_the_answer_is_empty(client):
    half = LarderConnectorWorker(SPREAD, client, 1)
    ask(half)
    assert answers(half) == {7: (1, 0)}
