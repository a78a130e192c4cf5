"""The stores of the worker's half: every store reported once, during its copies, and no
exception."""

from contextlib import contextmanager

import pytest

pytest.importorskip("vllm")

from fakes import group, setup  # noqa: E402
from worker_fakes import client, half, move, named, part  # noqa: E402, F401

from larder.client import Stored  # noqa: E402
from larder.vllm.messages import COMPUTES, Move, StepWork, WorkerReport  # noqa: E402
from larder.vllm.stores_under_way import WINDOW_ANSWER_WAIT_MS, WINDOW_COPY_WAIT_MS  # noqa: E402
from larder.vllm.worker import IDLE_WAIT_MS, LarderConnectorWorker  # noqa: E402


class TestStores:
    def test_one_call_and_one_finish_a_step(self, half, client):
        half.bind_connector_metadata(
            StepWork(number=1, stores=[move("a"), move("b", 3)], prefill_tokens=96, computes=True)
        )
        assert client.begun == [(5, 20)]
        half.wait_for_save()
        half.bind_connector_metadata(StepWork())
        half.wait_for_save()
        assert len(client.submitted) == 1
        assert client.prefill[0] == 96

    def test_groups_and_namespaces_have_calls_of_their_own(self, client):
        half = LarderConnectorWorker(setup(groups=(group(0), group(1, window=33))), client)
        both, other = (
            Move("a", [part(0, 2, 4), part(1, 2, 1)]),
            Move("b", [part(0, 1, 4)], "adapter: x\n"),
        )
        half.bind_connector_metadata(StepWork(number=1, stores=[both, other, both], computes=True))
        assert client.begun == [(4, 16), (4, 4), (1, 4)]

    def test_a_failing_call_turns_the_cache_off_and_raises_nothing(self, half, client):
        client.fail = "store_begin"
        half.bind_connector_metadata(StepWork(number=1, stores=[move("a")]))
        half.wait_for_save()
        assert "made to fail" in half.off

    @pytest.mark.parametrize("error", [SystemExit, RuntimeError])
    # covers F-015
    def test_pages_of_a_forward_pass_that_did_not_end_are_not_stored(self, half, client, error):
        """vLLM saves in a `finally`, and its workers end by SystemExit out of a signal handler,
        also in the middle of a pass."""

        @contextmanager
        def step():
            half.bind_connector_metadata(StepWork(number=1, stores=[move("a")], computes=True))
            try:
                yield
            finally:
                half.wait_for_save()
                half.get_transfer_results()

        with pytest.raises(error), step():
            raise error
        assert client.begun and not client.submitted
        assert client.abandoned == 1, "larderd gets its grants back"
        half.bind_connector_metadata(StepWork(number=2, stores=[move("b")]))
        half.wait_for_save()
        assert not client.submitted, "the next finish copies the stores begun before"

    def test_a_step_that_follows_one_without_a_save_stores_nothing(self, half, client):
        half.bind_connector_metadata(StepWork(number=1, stores=[move("a")]))
        half.bind_connector_metadata(StepWork(number=2, stores=[move("b")]))
        half.wait_for_save()
        assert not client.submitted and client.abandoned == 1

    def test_a_quiet_step_after_one_without_a_save_turns_the_cache_off_too(self, half, client):
        half.bind_connector_metadata(StepWork(number=1, stores=[move("a")]))
        half.bind_connector_metadata(COMPUTES)
        half.wait_for_save()
        assert not client.submitted and client.abandoned == 1

    def test_halves_that_disagree_about_the_namespace_do_not_store(self, half, client):
        half.bind_connector_metadata(StepWork(namespace="engine: other\n", stores=[move("a")]))
        assert client.begun == [] and "fingerprints: engine" in half.off

    def test_the_scheduler_tells_the_rest_of_the_fingerprint(self, client):
        """Models change their configuration during their build, in the worker's process alone: only
        the facts are compared."""
        half = LarderConnectorWorker(setup(), client)
        told = "engine: test\nrope: yarn\n"
        half.bind_connector_metadata(
            StepWork(namespace=told, loads=[move("a")], stores=[move("b")], number=1)
        )
        assert half.off is None and client.namespaces == [told]
        assert client.spaces == [0, 0], (
            "load and store are in the namespace that the scheduler looks up"
        )
        half.wait_for_save()
        half.bind_connector_metadata(
            StepWork(number=1, stores=[Move("c", [part(0, 1, 4)], line="adapter: x\n")])
        )
        half.wait_for_save()
        assert client.namespaces == [told, told + "adapter: x\n"]

    def test_a_namespace_that_the_scheduler_has_closed_is_closed_and_may_come_again(self, client):
        half = named(LarderConnectorWorker(setup(), client))
        line = "adapter: x\n"
        for _ in range(2):
            half.bind_connector_metadata(
                StepWork(number=1, stores=[Move("c", [part(0, 1, 4)], line=line)])
            )
            half.wait_for_save()
            half.bind_connector_metadata(StepWork(closed=[(line, True)]))
        assert client.namespaces == [
            "engine: test\n",
            *["engine: test\n" + line] * 2,
        ] and client.closed == [(1, True), (2, True)]


class TestStoresUnderWay:
    """Copies go on after their step: vLLM must not give their blocks to others meanwhile."""

    def store(self, half, number=1, *names):
        half.bind_connector_metadata(
            StepWork(number=number, stores=[move(name) for name in names or ("a",)], computes=True)
        )
        half.wait_for_save()

    def step(self, half, **work):
        """One more step: (requests with free blocks, numbers of ended steps)."""
        work = StepWork(**{"computes": True, **work})
        half.handle_preemptions(work.preempted)
        half.bind_connector_metadata(work)
        half.wait_for_save()
        half.get_transfer_results()
        report = half.report()
        return half.free_requests(), report.ended if report is not None else {}

    def test_a_save_does_not_wait_for_its_copies(self, half, client):
        self.store(half)
        assert client.submitted and client.store_waits == []
        assert self.step(half) == (set(), {})
        client.ended = [1]
        assert self.step(half) == (set(), {1: 1})
        assert self.step(half) == (set(), {})
        assert client.store_waits == [0, 0], "and no question is sent once all have ended"

    def test_a_request_that_ended_is_reported_when_its_last_copy_has(self, half, client):
        self.store(half, 1, "a", "b")
        self.store(half, 2, "a")
        assert self.step(half, kept=("a", "b"))[0] == set()
        client.ended = [1]
        assert self.step(half) == ({"b"}, {1: 1})
        client.ended = [2]
        assert self.step(half) == ({"a"}, {2: 1})
        assert self.step(half) == (set(), {})

    def test_a_request_with_ended_copies_is_reported_at_once(self, half, client):
        self.store(half)
        client.ended = [1]
        half.get_transfer_results()
        assert self.step(half, kept=("a",)) == ({"a"}, {1: 1})

    def test_only_a_step_without_a_forward_pass_waits_for_them(self, half, client):
        self.store(half)
        self.step(half, kept=("a",))
        self.step(half, computes=False)
        assert client.store_waits == [0, IDLE_WAIT_MS]

    def test_stores_of_a_preempted_request_are_overtaken_before_its_blocks_are_written(
        self, half, client
    ):
        self.store(half, 1, "a")
        self.store(half, 2, "b")
        half.handle_preemptions(("b", "c"))
        assert client.overtaken == [2]
        half.bind_connector_metadata(StepWork(preempted=("a",), computes=True))
        assert client.overtaken == [2, 1], "by a vLLM that does not tell before"

    @pytest.fixture
    def windows(self, client):
        return LarderConnectorWorker(setup(groups=(group(0), group(1, window=33))), client)

    def store_window(self, half, number):
        half.bind_connector_metadata(
            StepWork(
                number=number, stores=[Move("a", [part(0, 1, 4), part(1, 1, 1)])], computes=True
            )
        )
        half.wait_for_save()

    # covers F-052
    def test_blocks_of_a_window_that_a_step_writes_are_waited_for_and_then_taken(
        self, windows, client
    ):
        self.store_window(windows, 1)
        self.store_window(windows, 2)
        assert client.submitted == [WINDOW_ANSWER_WAIT_MS] * 2
        client.ended = [1]
        windows.handle_preemptions(rewritten=(1,))
        assert client.store_waits == [WINDOW_COPY_WAIT_MS] and client.overtaken == []
        windows.handle_preemptions(rewritten=(2,))
        assert client.store_waits == [WINDOW_COPY_WAIT_MS] * 2 and client.overtaken == [2], (
            "in vain, so no effect may be seen"
        )
        windows.bind_connector_metadata(StepWork(computes=True, rewritten=(2,)))
        assert len(client.store_waits) == 2, (
            "no effect can be seen any more: the store is waited for once"
        )

    def test_a_step_that_writes_none_of_them_waits_for_nothing(self, windows, client):
        self.store_window(windows, 1)
        for _ in range(5):
            windows.handle_preemptions()
            windows.bind_connector_metadata(COMPUTES)
            windows.wait_for_save()
        assert client.store_waits == [] and client.overtaken == []

    def test_other_stores_that_end_meanwhile_do_not_end_the_wait(self, windows, client):
        for number in (1, 2, 3):
            self.store_window(windows, number)
        ends = iter(([1], [3], [2]))
        client.store_poll, wait = (
            lambda wait_ms: [(ticket, Stored(1, 0, 0, 1, 1)) for ticket in next(ends)],
            client.store_poll,
        )
        windows.handle_preemptions(rewritten=(2,))
        assert next(ends, None) is None and client.overtaken == []
        client.store_poll = wait
        windows.get_transfer_results()
        assert windows.report().ended == {1: 1, 2: 1, 3: 1}

    @pytest.mark.parametrize("fail", ["store_submit", "store_begin"])
    def test_a_step_of_which_nothing_is_copied_is_reported_too(self, half, client, fail):
        client.fail = fail
        self.store(half)
        assert self.step(half, kept=("a",)) == ({"a"}, {1: 1})

    def test_a_disabled_cache_reports_running_copies(self, half, client):
        self.store(half)
        half.turn_off("a reason")
        self.store(half, 2, "b")
        assert self.step(half, kept=("a", "b")) == ({"b"}, {2: 1})
        client.ended = [1]
        assert self.step(half) == ({"a"}, {1: 1})

    def test_the_reports_of_several_workers_add_up(self):
        one, other = WorkerReport(ended={1: 1, 2: 1}), WorkerReport(ended={2: 1})
        assert one.aggregate(other).ended == {1: 1, 2: 2}


# covers F-292
def test_a_step_with_refused_chunks_is_told(client, half):
    client.refuses = 1
    half.bind_connector_metadata(StepWork(number=5, stores=[move("a")]))
    half.wait_for_save()
    client.ended = [1]
    half.get_transfer_results()
    report = half.report()
    assert (report.ended, report.refused) == ({5: 1}, {5})
    both = report.aggregate(WorkerReport(ended={5: 1, 6: 1}, refused=frozenset({6})))
    assert (both.ended, both.refused) == ({5: 2, 6: 1}, {5, 6})
    assert half.report() is None


# covers F-292
def test_a_step_whose_stores_the_library_did_not_take_is_told_as_refused(client, half):
    client.fail = "store_submit"
    half.bind_connector_metadata(StepWork(number=5, stores=[move("a")]))
    half.wait_for_save()
    half.get_transfer_results()
    report = half.report()
    assert (report.ended, report.refused) == ({5: 1}, {5})


# covers F-292
def test_a_step_given_back_for_a_preempted_request_is_told_as_refused(client, half):
    half.bind_connector_metadata(StepWork(number=5, stores=[move("a"), move("b")]))
    half.handle_preemptions(("b",))
    half.get_transfer_results()
    report = half.report()
    assert (report.ended, report.refused) == ({5: 1}, {5}), "request a gives its chunk again"


# covers F-292
def test_a_worker_without_a_part_of_the_stores_refuses_nothing(client):
    """Another of the two workers with equal KV writes the chunks, whose hashes are zeros."""
    half = LarderConnectorWorker(setup(), client)
    half._writer = 1, 2
    half.bind_connector_metadata(StepWork(number=5, stores=[move("a")]))
    half.wait_for_save()
    half.get_transfer_results()
    report = half.report()
    assert (report.ended, report.refused, client.begun) == ({5: 1}, frozenset(), [])
