"""Load or recompute: the requested chunks and the length of the wait, at any speed of device and
engine."""

import pytest

pytest.importorskip("vllm")

from larder.lower_tiers import TierSpeed  # noqa: E402
from larder.vllm import cost_model  # noqa: E402

CHUNK_BYTES, CHUNK_TOKENS = 1_500_000, 128
SECOND = 1_000_000_000


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def choice(clock):
    """Of an engine that computes 400 tokens a second: 0.32 s a chunk."""
    choice = cost_model.LoadOrRecompute(CHUNK_BYTES, CHUNK_TOKENS, clock)
    choice.measured(
        prefill_tokens=4000, prefill_ns=10 * SECOND, load_bytes=1 << 30, load_ns=SECOND // 4
    )
    return choice


def below(bytes_per_s, serving=True, latency_ns=1_000_000):
    return TierSpeed(serving, latency_ns, int(bytes_per_s))


@pytest.mark.parametrize(
    ("bytes_per_s", "chunks"),
    # A chunk: 1.5 ms; 30 ms; 100 ms, of which 20 fit into the fifth of 10.24 s; 150 ms, nearly half
    # of 0.32 s; and more.
    [(1e9, 32), (50e6, 32), (15e6, 20), (10e6, 13), (9e6, 0), (1e6, 0), (1, 0)],
)
# covers F-047
def test_a_device_under_twice_the_engine_speed_is_not_awaited(choice, bytes_per_s, chunks):
    plan = choice.plan(below(bytes_per_s), 32, 4096)
    assert (plan.chunks if plan else 0) == chunks


@pytest.mark.parametrize("bytes_per_s", [0, 10e6, 20e6, 50e6, 1e9, 1e12])
@pytest.mark.parametrize("chunks", [1, 7, 32, 1000])
@pytest.mark.parametrize("latency_ns", [0, 1_000_000, 300_000_000])
def test_a_deadline_is_never_above_its_share_of_computing(choice, bytes_per_s, chunks, latency_ns):
    tokens = chunks * CHUNK_TOKENS
    plan = choice.plan(below(bytes_per_s, latency_ns=latency_ns), chunks, tokens)
    if plan is not None:
        assert plan.estimate_s <= plan.deadline_s <= 0.25 * tokens / 400
        assert 0 < plan.chunks <= chunks


def test_a_fast_device_has_a_deadline_near_its_estimate(choice):
    plan = choice.plan(below(1e9), 32, 4096)
    assert plan.estimate_s == pytest.approx(0.049)
    assert plan.deadline_ms == 246  # four times that, and 50 ms


def test_pending_reads_of_other_fetches_count_first(choice):
    alone = choice.plan(below(20e6), 10, 4096)
    behind = choice.plan(below(20e6), 10, 4096, waiting_chunks=8)
    assert behind.estimate_s == pytest.approx(alone.estimate_s + 8 * 0.075)
    assert choice.plan(below(20e6), 10, 4096, waiting_chunks=100) is None


def test_an_engine_that_has_computed_nothing_yet_waits_a_fixed_time(clock):
    choice = cost_model.LoadOrRecompute(CHUNK_BYTES, CHUNK_TOKENS, clock)
    assert choice.plan(below(1e9), 32, 4096).deadline_s == pytest.approx(0.246)
    slow = choice.plan(below(30e6), 32, 4096)
    assert (slow.chunks, slow.deadline_s) == (3, cost_model.UNKNOWN_DEADLINE_S)
    assert choice.plan(below(1e6), 32, 4096) is None
    assert choice.plan(below(0), 32, 4096).deadline_s == cost_model.UNKNOWN_DEADLINE_S


def test_an_unmeasured_device_has_the_longest_deadline(choice):
    plan = choice.plan(below(0, latency_ns=0), 32, 4096)
    assert (plan.chunks, plan.deadline_s) == (32, pytest.approx(0.25 * 10.24))


@pytest.mark.parametrize("tier", [None, below(1e9, serving=False)])
def test_an_unavailable_tier_is_not_fetched_from(choice, tier):
    assert choice.plan(tier, 32, 4096) is None


@pytest.mark.parametrize("chunks", [0, -2])
def test_empty_lower_tiers_need_no_fetch(choice, chunks):
    assert choice.plan(below(1e9), chunks, 4096) is None


def test_a_fetch_without_gain_is_not_started(clock):
    choice = cost_model.LoadOrRecompute(100_000, 16, clock)
    choice.measured(prefill_tokens=16000, prefill_ns=SECOND)
    assert choice.plan(below(1e9), 15, 240) is None  # 15 ms in all


def test_slow_copies_into_the_pages_count_too(choice):
    assert choice.plan(below(20e6), 32, 4096) is not None
    choice.measured(load_bytes=8 << 30, load_ns=1000 * SECOND)  # 8 MB in a second
    choice.measured(load_bytes=8 << 30, load_ns=1000 * SECOND)
    assert choice.plan(below(20e6), 32, 4096) is None


def test_the_latest_measurements_count_most():
    speed = cost_model.Speed(1000)
    assert speed.value() is None
    speed.add(1000, SECOND)
    for _ in range(12):
        speed.add(1000, 10 * SECOND)
    assert speed.value() == pytest.approx(100, rel=0.05)


class TestAfterALoss:
    def plan(self, choice):
        return choice.plan(below(1e9), 32, 4096)

    def test_losses_cause_growing_pauses(self, choice, clock):
        pauses = []
        for _ in range(6):
            choice.ended(self.plan(choice), 0, 0.2, late=True)
            began = clock.now
            while self.plan(choice) is None:
                clock.now += 0.5
            pauses.append(clock.now - began)
        assert pauses == [1, 4, 16, 64, 256, 300]

    def test_several_losers_of_one_stall_make_one_pause(self, choice, clock):
        plan = self.plan(choice)
        for _ in range(5):
            choice.ended(plan, 0, 0.2, late=True)
        began = clock.now
        while self.plan(choice) is None:
            clock.now += 0.5
        assert clock.now - began == 1

    def test_a_good_fetch_makes_the_next_pause_short_again(self, choice, clock):
        for _ in range(3):
            plan = self.plan(choice)
            choice.ended(plan, 0, 0.2, late=True)
            clock.now += 100
        choice.ended(self.plan(choice), 32, 0.05, late=False)
        choice.ended(self.plan(choice), 0, 0.2, late=True)
        clock.now += 1
        assert self.plan(choice) is not None

    def test_a_late_fetch_with_gain_is_no_loss(self, choice):
        choice.ended(self.plan(choice), 8, 0.2, late=True)  # which computing would have taken 2.5 s
        assert self.plan(choice) is not None

    def test_a_late_fetch_of_unknown_gain_is_a_loss(self, clock):
        choice = cost_model.LoadOrRecompute(CHUNK_BYTES, CHUNK_TOKENS, clock)
        choice.ended(self.plan(choice), 8, 0.2, late=True)
        assert self.plan(choice) is None

    def test_a_fetch_of_evicted_chunks_is_no_loss(self, choice):
        choice.ended(self.plan(choice), 0, 0.001, late=False)
        assert self.plan(choice) is not None


class TestWhetherToLook:
    """Of an engine that computes 400 tokens a second: 4,096 in 10.24 s."""

    def test_a_deadline_is_a_small_share_of_computing(self, choice):
        assert choice.probe(4096).deadline_s == pytest.approx(0.04 * 10.24)
        assert choice.probe(40).deadline_s == 0.005, "and never shorter"

    def test_an_engine_that_has_computed_nothing_yet_waits_a_fixed_time(self, clock):
        assert (
            cost_model.LoadOrRecompute(CHUNK_BYTES, CHUNK_TOKENS, clock).probe(4096).deadline_s
            == 0.05
        )

    def test_a_probe_without_gain_is_not_started(self, choice):
        assert choice.probe(6) is None  # 15 ms in all

    def test_slow_probes_are_skipped_for_short_prompts(self, choice, clock):
        choice.probed(choice.probe(4096), 0.03, late=False)
        choice.probed(choice.probe(400), 0.03, late=False)  # more than 2% of a second
        assert choice.probe(400) is None
        assert choice.probe(4096) is not None
        clock.now += 1
        assert choice.probe(400) is not None, "from time to time"

    def test_a_slow_backend_is_asked_ever_less_often(self, choice, clock):
        pauses, tries = [], 0
        for _ in range(6):
            plan = choice.probe(4096)
            choice.probed(plan, plan.deadline_s + 0.015, late=True)
            began = clock.now
            while choice.probe(4096) is None:
                clock.now += 0.5
            pauses.append(clock.now - began)
        assert pauses == [1, 4, 16, 64, 256, 300]

    def test_a_probe_costs_at_most_a_twentieth(self, choice):
        for tokens in (600, 4096, 40_000):
            plan = choice.probe(tokens)
            assert plan.deadline_s + 0.015 <= 0.05 * tokens / 400

    def test_a_backend_that_is_fast_again_is_probed_as_before(self, choice, clock):
        for _ in range(4):
            plan = choice.probe(4096)
            choice.probed(plan, plan.deadline_s, late=True)
            clock.now += 300
        for _ in range(3):  # the usual value comes down
            choice.probed(choice.probe(4096), 0.001, late=False)
        assert choice.probe(4096) is not None
        plan = choice.probe(4096)
        choice.probed(plan, plan.deadline_s, late=True)
        clock.now += 1
        assert choice.probe(4096) is not None, "and the next pause is short again"

    def test_fetches_from_backend_and_disk_pause_each_by_themselves(self, choice):
        for shared in (True, False):
            plan = choice.plan(below(1e9), 32, 4096, shared=shared)
            choice.ended(plan, 0, 0.2, late=True)
            assert choice.plan(below(1e9), 32, 4096, shared=shared) is None
            assert (choice.plan(below(1e9), 32, 4096, shared=not shared) is None) != shared
        assert choice.probe(4096) is None, "the found chunks would not be fetched"


STATE_BYTES = 3_000_000  # of an engine with states


@pytest.fixture
def hybrid(clock):
    """Of an engine that computes 400 tokens a second, and loads 4 GiB a second."""
    hybrid = cost_model.LoadOrRecompute(CHUNK_BYTES, CHUNK_TOKENS, clock, STATE_BYTES)
    hybrid.measured(
        prefill_tokens=4000, prefill_ns=10 * SECOND, load_bytes=1 << 30, load_ns=SECOND // 4
    )
    return hybrid


def test_an_offer_counts_what_is_below_and_what_it_gains(hybrid):
    offer = hybrid.offer(8, hits=2, there=5, state_there=False)
    assert offer == cost_model.Offer(
        8, 6 * CHUNK_TOKENS, 3 * CHUNK_BYTES + STATE_BYTES, 6 * CHUNK_BYTES + STATE_BYTES
    )
    assert hybrid.offer(8, 2, 8, False).read_bytes == STATE_BYTES, (
        "the chunks are in memory, the state is not"
    )
    assert hybrid.offer(8, 2, 9, True).read_bytes == 0


def ends(hybrid, *chunks):
    return [hybrid.offer(end, 0, 0, False) for end in chunks]


@pytest.mark.parametrize(("bytes_per_s", "end"), [(1e9, 32), (25e6, 32), (20e6, 8), (12e6, 8)])
def test_the_largest_end_that_arrives_in_time_is_chosen(hybrid, bytes_per_s, end):
    """32 chunks are computed in 10.24 s, of which a fifth is for the fetch. With the state they are
    51 MB, and 8 chunks 15 MB."""
    plan = hybrid.plan_ends(below(bytes_per_s), ends(hybrid, 8, 32), 4096)
    assert plan.offer.end == plan.chunks == end and plan.compute_s == pytest.approx(end * 0.32)
    assert plan.estimate_s <= plan.deadline_s <= 0.25 * 4096 / 400


def test_a_state_that_is_slower_than_computing_is_left_below(hybrid):
    """The chunk would come in time, after 1.5 s, and 8 chunks are computed in 2.56 s."""
    assert hybrid.plan_ends(below(10e6), ends(hybrid, 8), 4096) is None
    assert hybrid.plan_ends(below(12e6), ends(hybrid, 8), 4096) is not None


def test_bytes_awaited_by_others_count_first(hybrid):
    assert hybrid.plan_ends(below(25e6), ends(hybrid, 32), 4096, waiting_bytes=1_000_000) is None


@pytest.mark.parametrize("tier", [None, below(1e9, serving=False)])
def test_no_end_is_fetched_from_a_tier_that_serves_none(hybrid, tier):
    assert hybrid.plan_ends(tier, ends(hybrid, 8), 4096) is None
    assert hybrid.plan_ends(below(1e9), [], 4096) is None


def test_a_late_end_begins_a_pause(hybrid):
    plan = hybrid.plan_ends(below(1e9), ends(hybrid, 8), 4096)
    hybrid.ended(plan, 0, 0.2, True)
    assert hybrid.plan_ends(below(1e9), ends(hybrid, 8), 4096) is None


def test_before_the_first_measurement_the_shortest_deadline_counts(clock):
    unknown = cost_model.LoadOrRecompute(CHUNK_BYTES, CHUNK_TOKENS, clock, STATE_BYTES)
    assert unknown.plan_ends(below(1e9), ends(unknown, 8), 4096).compute_s is None
    assert unknown.plan_ends(below(10e6), ends(unknown, 8), 4096) is None
    assert (
        unknown.plan_ends(below(0), ends(unknown, 8), 4096).deadline_s
        == cost_model.UNKNOWN_DEADLINE_S
    )
