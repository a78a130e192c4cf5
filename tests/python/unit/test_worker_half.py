"""The worker's half against fakes: pages as bytes, every load reported once, and no exception."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from fakes import NAMED, group, setup, step  # noqa: E402
from fakes import Client as SchedulerClient  # noqa: E402
from worker_fakes import client, completion, half, move, named, part  # noqa: E402, F401

from larder.kv_pages import stream_of  # noqa: E402
from larder.vllm import one_process  # noqa: E402
from larder.vllm.groups import Unsupported  # noqa: E402
from larder.vllm.messages import COMPUTES, Move, StepWork, WorkerReport  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.worker import IDLE_WAIT_MS, LarderConnectorWorker  # noqa: E402


class TestPages:
    def pages_of(self, half, tensor):
        half.register_kv_caches({"layer.0": tensor})
        return half.client.layers

    def test_one_storage_of_its_own(self, half):
        tensor = torch.zeros(10, 4, 8, 64, dtype=torch.bfloat16)
        assert self.pages_of(half, tensor) == [(tensor.data_ptr(), 4096, 4096, 10)]

    def test_a_view_into_a_storage_shared_by_layers(self, half):
        storage = torch.zeros(3, 10, 4096, dtype=torch.uint8)
        assert self.pages_of(half, storage[1]) == [(storage.data_ptr() + 40960, 4096, 4096, 10)]

    def test_layers_side_by_side_in_each_block(self, half):
        storage = torch.zeros(10, 3, 4096, dtype=torch.uint8)
        assert self.pages_of(half, storage[:, 2]) == [
            (storage.data_ptr() + 8192, 3 * 4096, 4096, 10)
        ]

    def test_dimensions_in_another_order_are_still_one_run_of_bytes(self, half):
        tensor = torch.zeros(10, 8, 4, 64, dtype=torch.bfloat16).permute(0, 2, 1, 3)
        assert self.pages_of(half, tensor)[0][1:] == (4096, 4096, 10)

    @pytest.mark.parametrize(
        "tensor",
        [
            torch.zeros(10, 4, 8, 32, dtype=torch.bfloat16),  # half a page
            torch.zeros(2, 10, 2048, dtype=torch.uint8).transpose(0, 1),  # K and V apart
            # overlapping
            torch.zeros(4096 * 2, dtype=torch.uint8).as_strided((2, 4096), (2048, 1)),
            [torch.zeros(10, 4096, dtype=torch.uint8)],
        ],
    )
    def test_pages_that_are_not_contiguous_turn_the_cache_off(self, half, tensor):
        assert self.pages_of(half, tensor) is None
        assert "layer.0" in half.off
        assert half.report().disabled == half.off
        assert half.report() is None

    @pytest.mark.parametrize(
        "error", [IndexError("of torch"), RuntimeError("of torch"), TypeError("of Larder")]
    )
    def test_no_other_exception_leaves_the_worker(self, half, monkeypatch, error):
        """vLLM would not start."""

        def fail(*_):
            raise error

        monkeypatch.setattr("larder.vllm.pages.pages_of", fail)
        assert self.pages_of(half, torch.zeros(10, 4096, dtype=torch.uint8)) is None
        assert f"unexpected {type(error).__name__} in register" in half.off

    def test_a_missing_layer_turns_the_cache_off(self, half):
        half.register_kv_caches({"other": torch.zeros(10, 4096, dtype=torch.uint8)})
        assert "layer.0" in half.off


class TestStream:
    """Pages on a GPU: copies come behind the queued work of the engine."""

    @pytest.fixture
    def half(self, client):
        half = named(LarderConnectorWorker(setup(v2_runner=True), client))
        half.register_kv_caches({"layer.0": torch.zeros(10, 4096, dtype=torch.uint8)})
        assert half._stream is None, "pages in host memory have no stream"
        half._stream = lambda: 77
        return half

    def test_the_stream_is_passed_before_loads_and_stores(self, half, client):
        half.bind_connector_metadata(StepWork(loads=[move("a"), move("b")]))
        assert client.streams == [(77, 0, 0)]
        half.bind_connector_metadata(StepWork(number=1, stores=[move("c")], computes=True))
        half.wait_for_save()
        assert client.streams == [(77, 0, 0), (77, 2, 0)] and len(client.submitted) == 1

    def test_a_step_that_moves_nothing_tells_nothing(self, half, client):
        half.bind_connector_metadata(COMPUTES)
        half.wait_for_save()
        assert client.streams == []

    @pytest.mark.parametrize(
        "work", [StepWork(loads=[move("a")]), StepWork(number=1, stores=[move("a")], computes=True)]
    )
    # covers F-025
    def test_copies_that_have_ended_turn_the_cache_off(self, half, client, work):
        client.fail = "after_stream"
        half.bind_connector_metadata(work)
        half.wait_for_save()
        assert "copies from and to the GPU have ended" in half.off
        assert not client.loads and not client.submitted
        assert half.get_transfer_results() == (({"a"}, {"a"}) if work.loads else (set(), set()))

    # covers F-027
    def test_a_stream_that_is_captured_costs_the_step_alone(self, half, client):
        client.fail = "captured"
        half.bind_connector_metadata(StepWork(loads=[move("a")]))
        assert half.get_transfer_results() == ({"a"}, {"a"}), "the engine computes the prompt"
        half.bind_connector_metadata(StepWork(number=1, stores=[move("b")], computes=True))
        half.wait_for_save()
        assert half.report().ended == {1: 1} and not client.submitted, (
            "no chunk of it is stored, and no chunk is read"
        )
        assert half.off is None
        client.fail = None
        half.bind_connector_metadata(
            StepWork(number=2, stores=[move("c")], loads=[move("d")], computes=True)
        )
        half.wait_for_save()
        assert len(client.loads) == 1 and len(client.submitted) == 1

    # covers F-055
    def test_workers_on_another_machine_than_the_scheduler_go_off(self, client):
        """Ray may place workers there: their larderd is another one."""
        half = LarderConnectorWorker(setup(), client)
        half.bind_connector_metadata(
            StepWork(namespace="engine: test\n", larderd="another kernel's boot")
        )
        assert (
            half.off.startswith("its workers use another larderd than its scheduler")
            and client.namespaces == []
        )
        assert half.report().disabled == half.off

    def test_workers_on_the_same_machine_do_not(self, client):
        half, scheduler = (
            LarderConnectorWorker(setup(), client),
            LarderConnectorScheduler(setup(), SchedulerClient(), NAMED),
        )
        scheduler.begin()
        work = scheduler.build_connector_meta(step(new=[("r", 0, 1)]))
        assert work.larderd
        half.bind_connector_metadata(work)
        assert half.off is None and client.namespaces == [work.namespace]

    def test_only_tensors_on_a_gpu_have_one(self):
        assert stream_of([torch.zeros(1), []]) is None
        assert (
            stream_of([torch.zeros(1), SimpleNamespace(is_cuda=True, device="cuda:0")]) is not None
        )


class TestLoads:
    def test_each_load_is_one_call_and_reported_once(self, half, client):
        half.bind_connector_metadata(StepWork(loads=[move("a"), move("b", 5)]))
        assert client.loads == [(2, 8), (5, 20)]
        assert half.get_transfer_results() == (set(), set())
        client.done = [completion(2), completion(1, ok=False)]
        assert half.get_transfer_results() == ({"a", "b"}, {"a"})
        assert half.get_transfer_results() == (set(), set())

    def test_a_load_that_cannot_start_is_reported_as_failed(self, half, client):
        client.fail = "load"
        half.bind_connector_metadata(StepWork(loads=[move("a")]))
        assert half.get_transfer_results() == ({"a"}, {"a"})
        assert half.get_transfer_results() == (set(), set())

    def test_only_a_step_without_a_forward_pass_waits_for_loads(self, half, client):
        half.bind_connector_metadata(StepWork())
        half.get_transfer_results()
        assert client.waits == []  # the worker loads no chunk
        half.bind_connector_metadata(StepWork(loads=[move("a")]))
        half.get_transfer_results()
        half.bind_connector_metadata(StepWork(computes=True))
        half.get_transfer_results()
        assert client.waits == [IDLE_WAIT_MS, 0]

    def test_one_wait_sees_the_groups_of_a_load_end_one_by_one(self, client, monkeypatch):
        """A hybrid's state and chunks: the engine's step between both ends takes milliseconds."""
        half = named(LarderConnectorWorker(setup(groups=(group(0), group(1))), client))
        ends, waits = [[completion(2)], [completion(1)], []], []
        monkeypatch.setattr(client, "poll", lambda wait_ms: (waits.append(wait_ms), ends.pop(0))[1])
        both = [part(0, 2, 4), part(1, 2, 4)]
        half.bind_connector_metadata(StepWork(loads=[Move("a", both), move("b")]))
        assert half.get_transfer_results() == ({"a"}, set())
        assert len(waits) == 2 and 0 < waits[1] <= waits[0], "one wait, not one for each group"
        assert half.get_transfer_results() == (set(), set()) and not ends

    def test_an_empty_load_is_reported_as_failed(self, half, client):
        half.bind_connector_metadata(StepWork(loads=[Move("a")]))
        assert client.loads == []
        assert half.get_transfer_results() == ({"a"}, {"a"})

    def test_a_vllm_that_is_told_by_request_is_told_of_no_pages(self, half, client):
        half.bind_connector_metadata(StepWork(loads=[Move("a", pages=(7,))]))
        assert half.get_transfer_results() == ({"a"}, {"a"})
        assert half.get_block_ids_with_load_errors() == set()
        assert half.report() is None

    def test_a_vllm_that_is_told_by_page_is_told_once_of_all_of_a_failed_load(self, client):
        half = LarderConnectorWorker(setup(fails_by_page=True), client)
        good, bad = (
            replace(move(name), pages=given) for name, given in (("good", (1, 2)), ("bad", (3, 4)))
        )
        half.bind_connector_metadata(StepWork(loads=[good, bad, Move("empty", pages=(5,))]))
        client.done = [completion(1), completion(2, ok=False)]
        half.get_transfer_results()
        assert half.get_block_ids_with_load_errors() == {3, 4, 5}
        assert half.get_block_ids_with_load_errors() == set()
        assert half.report().failed == {"bad", "empty"}, "vLLM does not tell the scheduler's half"
        assert half.report() is None

    def test_running_loads_are_still_reported_after_the_cache_went_off(self, half, client):
        half.bind_connector_metadata(StepWork(loads=[move("a")]))
        half.turn_off("a reason")
        half.bind_connector_metadata(StepWork(loads=[move("b")]))
        client.done = [completion(1)]
        assert half.get_transfer_results() == ({"a", "b"}, {"b"})


class TestSpeeds:
    """By which the scheduler chooses between loading and computing."""

    def prefill(self, half, tokens):
        half.bind_connector_metadata(StepWork(prefill_tokens=tokens, computes=True))
        half.wait_for_save()

    def test_computed_and_loaded_tokens_are_reported_once(self, half, client):
        self.prefill(half, 200)
        self.prefill(half, 300)
        half.bind_connector_metadata(StepWork(loads=[move("a"), move("b")]))
        client.done = [completion(1), completion(2, ok=False)]
        half.get_transfer_results()
        report = half.report()
        assert (report.disabled, report.prefill_tokens) == ("", 500) and report.prefill_ns > 0
        assert (report.load_bytes, report.load_ns) == (completion(1).bytes, completion(1).copy_ns)
        assert half.report() is None

    def test_without_lower_tiers_no_speed_is_reported(self, half, client):
        client.tier = None
        self.prefill(half, 500)
        half.bind_connector_metadata(StepWork(loads=[move("a")]))
        client.done = [completion(1)]
        half.get_transfer_results()
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


def test_without_a_client_every_hook_answers():
    half = LarderConnectorWorker(None, None)
    half.turn_off("refused")
    half.register_kv_caches({"layer.0": SimpleNamespace()})
    half.bind_connector_metadata(StepWork(loads=[move("a")], stores=[move("b")], prefill_tokens=5))
    half.wait_for_save()
    assert half.get_transfer_results() == ({"a"}, {"a"})
    half.bind_connector_metadata(
        StepWork(number=1, stores=[move("b")], preempted=("c",), kept=("b",))
    )
    half.wait_for_save()
    half.get_transfer_results()
    assert half.free_requests() == {"b"}
    report = half.report()
    assert (report.disabled, report.ended) == ("refused", {1: 1})


# covers F-081
def test_pages_of_a_second_engine_of_the_process_end_the_cache_of_both(half, monkeypatch):
    """vLLM has one connector for the workers of a process, and the engine of a step is unknown. The
    end of one engine takes the connector from the other, so the schedulers of both must know
    without a step."""
    monkeypatch.setattr(one_process, "_shared", False)
    scheduler = LarderConnectorScheduler(setup(), SchedulerClient(), NAMED)
    monkeypatch.setattr(one_process.weight_changes, "_HALVES", {scheduler: None})
    one_process.check()
    for _ in range(2):
        half.register_kv_caches({"layer.0": torch.zeros(10, 4096, dtype=torch.uint8)})
    assert len(half.client.groups) == 1, (
        "the first engine's loads must not go to the second's pages"
    )
    half.bind_connector_metadata(
        StepWork(namespace="engine: test\n", loads=[move("r")], computes=True)
    )
    assert half.get_transfer_results() == ({"r"}, {"r"}) and half.client.loads == []
    for _ in range(2):  # whichever engine steps next
        assert "VLLM_ENABLE_V1_MULTIPROCESSING" in half.report().disabled
    assert scheduler.off == one_process.SHARED
    with pytest.raises(Unsupported):  # the second engine makes its scheduler after its workers
        one_process.check()
