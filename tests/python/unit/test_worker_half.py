"""The worker's half against fakes: pages as bytes, every load and every store reported once, and nothing raised."""

from array import array
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from fakes import group, setup  # noqa: E402

from larder._native import FAILED_PRECONDITION  # noqa: E402
from larder.client import Below, Completion, LarderError, Stored  # noqa: E402
from larder.kv_pages import stream_of  # noqa: E402
from larder.vllm.messages import COMPUTES, Move, Part, StepWork, WorkerReport  # noqa: E402
from larder.vllm.stores_under_way import WINDOW_ANSWER_WAIT_MS, WINDOW_COPY_WAIT_MS  # noqa: E402
from larder.vllm.worker import IDLE_WAIT_MS, WorkerHalf  # noqa: E402


class Client:
    def __init__(self):
        self.layers = None
        self.groups = []
        self.namespaces = []
        self.spaces = []  # of loads and stores, by number
        self.loads = []
        self.done = []
        self.begun = []
        self.submitted = []  # how long answers are waited for
        self.ended = []  # tickets of stores
        self.overtaken = []
        self.store_waits = []  # of store_poll
        self.abandoned = 0
        self.waits = []  # of poll
        self.fail = None
        self.streams = []  # told before (loads, submitted) so far
        self.tier = Below(True, 1, 1)

    def register_pages(self, group, layers):
        self.layers = layers
        self.groups.append(layers)

    def add_namespace(self, fingerprint, wait_ms=0):
        self.namespaces.append(fingerprint)
        return len(self.namespaces)

    def load(self, hashes, stride, pages, group=0, shard=0, ns=0):
        if self.fail in ("load", "captured"):
            raise RuntimeError("made to fail")
        self.spaces.append(ns)
        self.loads.append((len(hashes) // stride, len(pages) // 4))
        return len(self.loads)

    def poll(self, wait_ms=0):
        self.waits.append(wait_ms)
        done, self.done = self.done, []
        return done

    def store_begin(self, hashes, stride, pages, group=0, shard=0, ns=0):
        if self.fail == "store_begin":
            raise RuntimeError("made to fail")
        self.spaces.append(ns)
        self.begun.append((len(hashes) // stride, len(pages) // 4))
        return True

    def store_submit(self, wait_ms):
        if self.fail in ("store_submit", "captured"):
            raise LarderError("larder_store_submit", 5)
        self.submitted.append(wait_ms)
        return len(self.submitted)

    def store_poll(self, wait_ms=0):
        self.store_waits.append(wait_ms)
        ended, self.ended = self.ended, []
        return [(ticket, Stored(1, 0, 0, 4096, 10)) for ticket in ended]

    def store_overtake(self, ticket):
        self.overtaken.append(ticket)

    def after_stream(self, stream):
        if self.fail in ("after_stream", "captured"):
            raise LarderError("larder_after_stream", 6 if self.fail == "after_stream" else FAILED_PRECONDITION)
        self.streams.append((stream, len(self.loads), len(self.submitted)))

    def store_abandon(self):
        self.abandoned += 1

    def report_prefill(self, tokens, nanoseconds):
        self.prefill = (tokens, nanoseconds)

    def below(self):
        return self.tier


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def half(client):
    return WorkerHalf(setup(), client)


def move(request_id="r", chunks=2):
    return Move(request_id, [part(0, chunks, 4)])


def part(group, chunks, blocks):
    return Part(group, bytes(32 * chunks), array("I", range(blocks * chunks)).tobytes())


def completion(ticket, ok=True):
    return Completion(ticket, ok, "ok" if ok else "data loss", 4096, 1, 2)


class TestPages:
    def pages_of(self, half, tensor):
        half.register({"layer.0": tensor})
        return half.client.layers

    def test_one_storage_of_its_own(self, half):
        tensor = torch.zeros(10, 4, 8, 64, dtype=torch.bfloat16)
        assert self.pages_of(half, tensor) == [(tensor.data_ptr(), 4096, 4096, 10)]

    def test_a_view_into_a_storage_shared_by_layers(self, half):
        storage = torch.zeros(3, 10, 4096, dtype=torch.uint8)
        assert self.pages_of(half, storage[1]) == [(storage.data_ptr() + 40960, 4096, 4096, 10)]

    def test_layers_side_by_side_in_each_block(self, half):
        storage = torch.zeros(10, 3, 4096, dtype=torch.uint8)
        assert self.pages_of(half, storage[:, 2]) == [(storage.data_ptr() + 8192, 3 * 4096, 4096, 10)]

    def test_dimensions_in_another_order_are_still_one_run_of_bytes(self, half):
        tensor = torch.zeros(10, 8, 4, 64, dtype=torch.bfloat16).permute(0, 2, 1, 3)
        assert self.pages_of(half, tensor)[0][1:] == (4096, 4096, 10)

    @pytest.mark.parametrize(
        "tensor",
        [
            torch.zeros(10, 4, 8, 32, dtype=torch.bfloat16),  # half a page
            torch.zeros(2, 10, 2048, dtype=torch.uint8).transpose(0, 1),  # K and V apart
            torch.zeros(4096 * 2, dtype=torch.uint8).as_strided((2, 4096), (2048, 1)),  # overlapping
            [torch.zeros(10, 4096, dtype=torch.uint8)],
        ],
    )
    def test_what_is_no_run_of_bytes_turns_the_cache_off(self, half, tensor):
        assert self.pages_of(half, tensor) is None
        assert "layer.0" in half.off
        assert half.report().disabled == half.off
        assert half.report() is None

    def test_a_missing_layer_turns_the_cache_off(self, half):
        half.register({"other": torch.zeros(10, 4096, dtype=torch.uint8)})
        assert "layer.0" in half.off


class TestStream:
    """Pages on a GPU: copies come behind what the engine has queued."""

    @pytest.fixture
    def half(self, half):
        half.register({"layer.0": torch.zeros(10, 4096, dtype=torch.uint8)})
        assert half._stream is None, "pages in host memory have none"
        half._stream = lambda: 77
        return half

    def test_it_is_told_before_loads_and_before_stores_are_copied(self, half, client):
        half.bind(StepWork(loads=[move("a"), move("b")]))
        assert client.streams == [(77, 0, 0)]
        half.bind(StepWork(number=1, stores=[move("c")], computes=True))
        half.wait_for_save()
        assert client.streams == [(77, 0, 0), (77, 2, 0)] and len(client.submitted) == 1

    def test_a_step_that_moves_nothing_tells_nothing(self, half, client):
        half.bind(COMPUTES)
        half.wait_for_save()
        assert client.streams == []

    @pytest.mark.parametrize("work", [StepWork(loads=[move("a")]), StepWork(number=1, stores=[move("a")], computes=True)])
    def test_copies_that_have_ended_turn_the_cache_off(self, half, client, work):
        client.fail = "after_stream"
        half.bind(work)
        half.wait_for_save()
        assert "copies from and to the GPU have ended" in half.off
        assert not client.loads and not client.submitted
        assert half.transfer_results() == (({"a"}, {"a"}) if work.loads else (set(), set()))

    def test_a_stream_that_is_captured_costs_the_step_alone(self, half, client):
        client.fail = "captured"
        half.bind(StepWork(loads=[move("a")]))
        assert half.transfer_results() == ({"a"}, {"a"}), "it is computed"
        half.bind(StepWork(number=1, stores=[move("b")], computes=True))
        half.wait_for_save()
        assert half.report().ended == {1: 1} and not client.submitted, "nothing of it is stored, and nothing is read"
        assert half.off is None
        client.fail = None
        half.bind(StepWork(number=2, stores=[move("c")], loads=[move("d")], computes=True))
        half.wait_for_save()
        assert len(client.loads) == 1 and len(client.submitted) == 1

    def test_only_tensors_on_a_gpu_have_one(self):
        assert stream_of([torch.zeros(1), []]) is None
        assert stream_of([torch.zeros(1), SimpleNamespace(is_cuda=True, device="cuda:0")]) is not None


class TestLoads:
    def test_each_load_is_one_call_and_reported_once(self, half, client):
        half.bind(StepWork(loads=[move("a"), move("b", 5)]))
        assert client.loads == [(2, 8), (5, 20)]
        assert half.transfer_results() == (set(), set())
        client.done = [completion(2), completion(1, ok=False)]
        assert half.transfer_results() == ({"a", "b"}, {"a"})
        assert half.transfer_results() == (set(), set())

    def test_a_load_that_cannot_start_is_reported_as_failed(self, half, client):
        client.fail = "load"
        half.bind(StepWork(loads=[move("a")]))
        assert half.transfer_results() == ({"a"}, {"a"})
        assert half.transfer_results() == (set(), set())

    def test_only_a_step_without_a_forward_pass_waits_for_loads(self, half, client):
        half.bind(StepWork())
        half.transfer_results()
        assert client.waits == []  # nothing is loaded
        half.bind(StepWork(loads=[move("a")]))
        half.transfer_results()
        half.bind(StepWork(computes=True))
        half.transfer_results()
        assert client.waits == [IDLE_WAIT_MS, 0]

    def test_an_empty_load_is_reported_as_failed(self, half, client):
        half.bind(StepWork(loads=[Move("a")]))
        assert client.loads == []
        assert half.transfer_results() == ({"a"}, {"a"})

    def test_a_vllm_that_is_told_by_request_is_told_of_no_pages(self, half, client):
        half.bind(StepWork(loads=[Move("a", pages=(7,))]))
        assert half.transfer_results() == ({"a"}, {"a"})
        assert half.failed_pages() == set()
        assert half.report() is None

    def test_a_vllm_that_is_told_by_page_is_told_once_of_all_of_a_failed_load(self, client):
        half = WorkerHalf(setup(fails_by_page=True), client)
        good, bad = (replace(move(name), pages=given) for name, given in (("good", (1, 2)), ("bad", (3, 4))))
        half.bind(StepWork(loads=[good, bad, Move("empty", pages=(5,))]))
        client.done = [completion(1), completion(2, ok=False)]
        half.transfer_results()
        assert half.failed_pages() == {3, 4, 5}
        assert half.failed_pages() == set()
        assert half.report().failed == {"bad", "empty"}, "the scheduler's half is not told of it by vLLM"
        assert half.report() is None

    def test_running_loads_are_still_reported_after_the_cache_went_off(self, half, client):
        half.bind(StepWork(loads=[move("a")]))
        half.turn_off("a reason")
        half.bind(StepWork(loads=[move("b")]))
        client.done = [completion(1)]
        assert half.transfer_results() == ({"a", "b"}, {"b"})


class TestSpeeds:
    """By which the scheduler chooses between loading and computing."""

    def prefill(self, half, tokens):
        half.bind(StepWork(prefill_tokens=tokens, computes=True))
        half.wait_for_save()

    def test_what_was_computed_and_loaded_is_reported_once(self, half, client):
        self.prefill(half, 200)
        self.prefill(half, 300)
        half.bind(StepWork(loads=[move("a"), move("b")]))
        client.done = [completion(1), completion(2, ok=False)]
        half.transfer_results()
        report = half.report()
        assert (report.disabled, report.prefill_tokens) == ("", 500) and report.prefill_ns > 0
        assert (report.load_bytes, report.load_ns) == (completion(1).bytes, completion(1).copy_ns)
        assert half.report() is None

    def test_without_a_tier_below_memory_nothing_is_told_each_step(self, half, client):
        client.tier = None
        self.prefill(half, 500)
        half.bind(StepWork(loads=[move("a")]))
        client.done = [completion(1)]
        half.transfer_results()
        assert half.report() is None
        assert client.prefill[0] == 500

    def test_steps_of_less_than_a_chunk_tell_nothing(self, half):
        """A step of five tokens takes as long as one of fifty."""
        self.prefill(half, half.setup.chunk_tokens - 1)
        assert half.report() is None

    def test_the_slowest_of_several_workers_counts_and_none_that_is_off_is_lost(self):
        one = WorkerReport("", 500, 9_000, 100, 50)
        both = one.aggregate(WorkerReport("no pages", 500, 7_000, 200, 70))
        assert both == WorkerReport("no pages", 500, 9_000, 300, 70)
        assert WorkerReport("no pages").aggregate(one).disabled == "no pages"


class TestStores:
    def test_one_call_and_one_finish_a_step(self, half, client):
        half.bind(StepWork(number=1, stores=[move("a"), move("b", 3)], prefill_tokens=96, computes=True))
        assert client.begun == [(5, 20)]
        half.wait_for_save()
        half.bind(StepWork())
        half.wait_for_save()
        assert len(client.submitted) == 1
        assert client.prefill[0] == 96

    def test_groups_and_namespaces_have_calls_of_their_own(self, client):
        half = WorkerHalf(setup(groups=(group(0), group(1, window=33))), client)
        both, other = Move("a", [part(0, 2, 4), part(1, 2, 1)]), Move("b", [part(0, 1, 4)], "adapter: x\n")
        half.bind(StepWork(number=1, stores=[both, other, both], computes=True))
        assert client.begun == [(4, 16), (4, 4), (1, 4)]

    def test_a_failing_call_turns_the_cache_off_and_raises_nothing(self, half, client):
        client.fail = "store_begin"
        half.bind(StepWork(number=1, stores=[move("a")]))
        half.wait_for_save()
        assert "made to fail" in half.off

    @pytest.mark.parametrize("error", [SystemExit, RuntimeError])
    def test_pages_of_a_forward_pass_that_did_not_end_are_not_stored(self, half, client, error):
        """vLLM saves in a `finally`, and its workers end by SystemExit out of a signal handler, also in the middle of a pass."""

        @contextmanager
        def step():
            half.bind(StepWork(number=1, stores=[move("a")], computes=True))
            try:
                yield
            finally:
                half.wait_for_save()
                half.transfer_results()

        with pytest.raises(error), step():
            raise error
        assert client.begun and not client.submitted
        assert client.abandoned == 1, "larderd gets its grants back"
        half.bind(StepWork(number=2, stores=[move("b")]))
        half.wait_for_save()
        assert not client.submitted, "what was begun before is copied by the next finish"

    def test_a_step_that_follows_one_without_a_save_stores_nothing(self, half, client):
        half.bind(StepWork(number=1, stores=[move("a")]))
        half.bind(StepWork(number=2, stores=[move("b")]))
        half.wait_for_save()
        assert not client.submitted and client.abandoned == 1

    def test_a_quiet_step_after_one_without_a_save_turns_the_cache_off_too(self, half, client):
        half.bind(StepWork(number=1, stores=[move("a")]))
        half.bind(COMPUTES)
        half.wait_for_save()
        assert not client.submitted and client.abandoned == 1

    def test_halves_that_disagree_about_the_namespace_do_not_store(self, half, client):
        half.bind(StepWork(namespace="engine: other\n", stores=[move("a")]))
        assert client.begun == [] and "fingerprints: engine" in half.off

    def test_what_the_model_changed_of_its_configuration_is_as_the_scheduler_says(self, client):
        """DeepSeek-V2 renames its rope while it is built, in the worker's process alone."""
        half = WorkerHalf(setup(fingerprint="engine: test\nrope: deepseek_yarn\n"), client)
        told = "engine: test\nrope: yarn\n"
        half.bind(StepWork(namespace=told, loads=[move("a")], stores=[move("b")], number=1))
        assert half.off is None and client.namespaces == [told]
        assert client.spaces == [1, 1], "load and store are in the namespace that the scheduler looks up"
        half.wait_for_save()
        half.bind(StepWork(number=1, stores=[Move("c", [part(0, 1, 4)], line="adapter: x\n")]))
        half.wait_for_save()
        assert client.namespaces == [told, told + "adapter: x\n"]


class TestStoresUnderWay:
    """Copies go on after their step: vLLM must not give their blocks to others meanwhile."""

    def store(self, half, number=1, *names):
        half.bind(StepWork(number=number, stores=[move(name) for name in names or ("a",)], computes=True))
        half.wait_for_save()

    def step(self, half, **work):
        """One more step: (requests whose blocks are free, numbers of steps that ended)."""
        work = StepWork(**{"computes": True, **work})
        half.make_way(work.preempted)
        half.bind(work)
        half.wait_for_save()
        half.transfer_results()
        report = half.report()
        return half.free_requests(), report.ended if report is not None else {}

    def test_a_save_does_not_wait_for_its_copies(self, half, client):
        self.store(half)
        assert client.submitted and client.store_waits == []
        assert self.step(half) == (set(), {})
        client.ended = [1]
        assert self.step(half) == (set(), {1: 1})
        assert self.step(half) == (set(), {})
        assert client.store_waits == [0, 0], "and nothing is asked once all have ended"

    def test_a_request_that_ended_is_reported_when_its_last_copy_has(self, half, client):
        self.store(half, 1, "a", "b")
        self.store(half, 2, "a")
        assert self.step(half, kept=("a", "b"))[0] == set()
        client.ended = [1]
        assert self.step(half) == ({"b"}, {1: 1})
        client.ended = [2]
        assert self.step(half) == ({"a"}, {2: 1})
        assert self.step(half) == (set(), {})

    def test_one_whose_copies_have_ended_meanwhile_is_reported_at_once(self, half, client):
        self.store(half)
        client.ended = [1]
        half.transfer_results()
        assert self.step(half, kept=("a",)) == ({"a"}, {1: 1})

    def test_only_a_step_without_a_forward_pass_waits_for_them(self, half, client):
        self.store(half)
        self.step(half, kept=("a",))
        self.step(half, computes=False)
        assert client.store_waits == [0, IDLE_WAIT_MS]

    def test_what_a_preempted_request_stores_is_overtaken_before_its_blocks_are_written(self, half, client):
        self.store(half, 1, "a")
        self.store(half, 2, "b")
        half.make_way(("b", "c"))
        assert client.overtaken == [2]
        half.bind(StepWork(preempted=("a",), computes=True))
        assert client.overtaken == [2, 1], "by a vLLM that does not tell before"

    def test_blocks_of_a_window_are_waited_for_and_then_taken(self, client):
        half = WorkerHalf(setup(groups=(group(0), group(1, window=33))), client)
        half.bind(StepWork(number=1, stores=[Move("a", [part(0, 1, 4), part(1, 1, 1)])], computes=True))
        half.wait_for_save()
        assert client.submitted == [WINDOW_ANSWER_WAIT_MS]
        client.ended = [1]
        half.make_way()
        assert client.store_waits == [WINDOW_COPY_WAIT_MS] and client.overtaken == []
        half.bind(StepWork(number=2, stores=[Move("a", [part(0, 1, 4), part(1, 1, 1)])], computes=True))
        half.wait_for_save()
        half.make_way()
        assert client.overtaken == [2], "in vain, so nothing of it may be seen"

    @pytest.mark.parametrize("fail", ["store_submit", "store_begin"])
    def test_a_step_of_which_nothing_is_copied_is_reported_too(self, half, client, fail):
        client.fail = fail
        self.store(half)
        assert self.step(half, kept=("a",)) == ({"a"}, {1: 1})

    def test_a_worker_that_stores_nothing_reports_as_well(self, client):
        half = WorkerHalf(setup(), client, stores=False)
        self.store(half)
        assert client.begun == []
        assert self.step(half, kept=("a",)) == ({"a"}, {1: 1})

    def test_a_cache_that_went_off_reports_what_is_still_copied(self, half, client):
        self.store(half)
        half.turn_off("a reason")
        self.store(half, 2, "b")
        assert self.step(half, kept=("a", "b")) == ({"b"}, {2: 1})
        client.ended = [1]
        assert self.step(half) == ({"a"}, {1: 1})

    def test_the_reports_of_several_workers_add_up(self):
        one, other = WorkerReport(ended={1: 1, 2: 1}), WorkerReport(ended={2: 1})
        assert one.aggregate(other).ended == {1: 1, 2: 2}


def test_without_a_client_every_hook_answers():
    half = WorkerHalf(None, None)
    half.turn_off("refused")
    half.register({"layer.0": SimpleNamespace()})
    half.bind(StepWork(loads=[move("a")], stores=[move("b")], prefill_tokens=5))
    half.wait_for_save()
    assert half.transfer_results() == ({"a"}, {"a"})
    half.bind(StepWork(number=1, stores=[move("b")], preempted=("c",), kept=("b",)))
    half.wait_for_save()
    half.transfer_results()
    assert half.free_requests() == {"b"}
    report = half.report()
    assert (report.disabled, report.ended) == ("refused", {1: 1})
