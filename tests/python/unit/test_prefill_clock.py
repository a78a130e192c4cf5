"""The prefill clock measures the engine's computation: of a GPU the time between two events, and
never the time of the launch."""

from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from timeline_fakes import Timeline, on_gpu  # noqa: E402
from worker_fakes import client, half, move  # noqa: E402, F401

from larder.vllm import prefill_clock  # noqa: E402
from larder.vllm.messages import COMPUTES, StepWork  # noqa: E402
from larder.vllm.prefill_clock import MOST_UNREAD, DeviceClock, HostClock  # noqa: E402

TOKENS = 8192


@pytest.fixture
def timeline():
    return Timeline()


@pytest.fixture
def clock(timeline):
    return DeviceClock(timeline)


def compute(clock, timeline, milliseconds, tokens=TOKENS):
    clock.begin(tokens)
    timeline.queue(milliseconds)
    clock.end()


class TestDeviceClock:
    def test_the_device_time_is_reported_once_the_device_is_done(self, clock, timeline):
        compute(clock, timeline, 300)
        assert clock.take() == []
        timeline.passes(299)
        assert clock.take() == []
        timeline.passes(1)
        assert clock.take() == [(TOKENS, 300_000_000)]
        assert clock.take() == []

    def test_a_pass_does_not_count_what_the_stream_had_queued_before(self, clock, timeline):
        timeline.queue(1000)
        compute(clock, timeline, 300)
        compute(clock, timeline, 50, tokens=512)
        timeline.passes(1300)
        assert clock.take() == [(TOKENS, 300_000_000)]
        timeline.passes(50)
        assert clock.take() == [(512, 50_000_000)]

    def test_events_are_used_again_and_their_number_is_bounded(self, clock, timeline):
        for _ in range(3 * MOST_UNREAD):
            compute(clock, timeline, 10)
        assert timeline.made == 2 * MOST_UNREAD
        timeline.passes(10_000)
        assert len(clock.take()) == MOST_UNREAD
        for _ in range(100):
            compute(clock, timeline, 10)
            timeline.passes(10)
            assert clock.take() == [(TOKENS, 10_000_000)]
        assert timeline.made == 2 * MOST_UNREAD

    def test_a_failed_or_unfinished_pass_is_not_reported(self, clock, timeline):
        clock.begin(TOKENS)
        clock.drop()
        clock.end()
        clock.begin(TOKENS)  # never launched
        timeline.queue(500)
        compute(clock, timeline, 300)
        timeline.passes(800)
        assert clock.take() == [(TOKENS, 300_000_000)]

    def test_nothing_is_recorded_in_a_stream_that_is_captured(self, clock, timeline):
        timeline.captures = True
        compute(clock, timeline, 300)
        assert timeline.made == 0 and clock.take() == []


def test_on_the_host_a_pass_takes_until_it_has_returned():
    times = iter((5, 25, 100))
    clock = HostClock(lambda: next(times))
    clock.begin(TOKENS)
    clock.end()
    clock.end()
    assert clock.take() == [(TOKENS, 20)]
    clock.begin(TOKENS)
    clock.drop()
    clock.end()
    assert clock.take() == []


def test_torchs_events_have_time_and_follow_the_stream_of_the_moment(monkeypatch):
    """vLLM leaves the default stream for one of its own, which torch reports by device."""
    asked, streams = [], iter(("default", "own"))

    class Event:
        def __init__(self, enable_timing=False):
            assert enable_timing

        def record(self, stream):
            asked.append(stream)

    fake = SimpleNamespace(
        Event=Event,
        current_stream=lambda device: (device, next(streams)),
        is_current_stream_capturing=lambda: False,
    )
    monkeypatch.setattr(torch, "cuda", fake)
    clock = DeviceClock(prefill_clock.Timeline("cuda:3"))
    clock.begin(TOKENS)
    clock.end()
    assert asked == [("cuda:3", "default"), ("cuda:3", "own")]


class TestWorker:
    @pytest.fixture
    def gpu(self, half, monkeypatch):
        return on_gpu(half, monkeypatch, {"layer.0": torch.zeros(10, 4096, dtype=torch.uint8)})

    def test_the_speed_of_a_gpu_is_told_in_a_later_step(self, half, client, gpu):
        half.bind_connector_metadata(StepWork(prefill_tokens=TOKENS, computes=True))
        gpu.queue(300)
        half.wait_for_save()
        half.get_transfer_results()
        assert not hasattr(client, "prefill") and half.report() is None
        gpu.passes(300)
        half.bind_connector_metadata(COMPUTES)
        half.wait_for_save()
        half.get_transfer_results()
        assert client.prefill == (TOKENS, 300_000_000)
        report = half.report()
        assert (report.prefill_tokens, report.prefill_ns) == (TOKENS, 300_000_000)

    def test_the_order_for_copies_is_no_part_of_a_pass(self, half, client, gpu):
        """Events stand between the orders: copies queued in bind() come before, saved ones
        after."""
        half.bind_connector_metadata(
            StepWork(
                number=1,
                loads=[move("l")],
                stores=[move("a")],
                prefill_tokens=TOKENS,
                computes=True,
            )
        )
        gpu.queue(20)
        half.finish_forward()
        gpu.queue(7)  # sampling
        half.wait_for_save()
        gpu.passes(27)
        half.get_transfer_results()
        assert client.prefill == (TOKENS, 20_000_000)

    def test_a_clock_that_fails_turns_the_cache_off_and_raises_nothing(self, half, gpu):
        half.bind_connector_metadata(StepWork(prefill_tokens=TOKENS, computes=True))
        gpu.record = None
        half.wait_for_save()
        assert "unexpected TypeError" in half.off
        half.bind_connector_metadata(StepWork(prefill_tokens=TOKENS, computes=True))
        assert half.get_transfer_results() == (set(), set())
