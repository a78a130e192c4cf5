"""The worker's half under vLLM's second model runner, CUDA's default: vLLM's own ActiveKVConnector
calls the hooks. No GPU: a fake stream."""

from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")
runner = pytest.importorskip("vllm.v1.worker.gpu.kv_connector")

import torch  # noqa: E402
from fakes import setup  # noqa: E402
from runner_fakes import connector_over, output_of  # noqa: E402
from timeline_fakes import on_gpu  # noqa: E402
from worker_fakes import client, completion, move, named  # noqa: E402, F401

from larder.vllm.messages import COMPUTES, RESTS, StepWork  # noqa: E402
from larder.vllm.worker import IDLE_WAIT_MS, LarderConnectorWorker  # noqa: E402

PAGES = {"layer.0": torch.zeros(10, 4096, dtype=torch.uint8)}
BATCH = SimpleNamespace(idx_mapping=None, req_ids=[], num_tokens=8192)


@pytest.fixture
def half(client):
    return named(LarderConnectorWorker(setup(v2_runner=True), client))


@pytest.fixture
def gpu(half, monkeypatch):
    return on_gpu(half, monkeypatch, PAGES)


@pytest.fixture
def active(gpu, half, client, monkeypatch):
    """vLLM's, which registers the pages itself."""
    connector = connector_over(half, client)
    monkeypatch.setattr(runner, "get_kv_transfer_group", lambda: connector)
    monkeypatch.setattr(runner, "is_forward_context_available", lambda: True)
    monkeypatch.setattr(runner, "get_forward_context", lambda: None)
    half._registered = False
    return runner.ActiveKVConnector(SimpleNamespace(), PAGES)


@pytest.fixture
def calls(half, monkeypatch):
    """Names of the half's own steps, in their order."""
    seen = []

    def note(name, method):
        def call(*args, **kwargs):
            seen.append(name)
            return method(*args, **kwargs)

        monkeypatch.setattr(half, name, call)

    for name in (
        "handle_preemptions",
        "bind_connector_metadata",
        "_order",
        "_store",
        "finish_forward",
        "wait_for_save",
        "get_transfer_results",
        "report",
    ):
        note(name, getattr(half, name))
    return seen


def step(active, work, gpu=None, takes=0, samples=0):
    active.pre_forward(output_of(work), BATCH)
    if gpu is not None:
        gpu.queue(takes)
    active.finish_forward()
    if gpu is not None:
        gpu.queue(samples)
    return active.post_forward(set())


def test_loads_come_behind_earlier_steps_and_stores_behind_sampling(active, half, client, calls):
    step(
        active,
        StepWork(
            number=1,
            stores=[move("a")],
            loads=[move("b")],
            preempted=("c",),
            prefill_tokens=8192,
            computes=True,
        ),
    )
    assert calls == [
        *(
            "handle_preemptions",
            "bind_connector_metadata",
            "handle_preemptions",
            "_order",
            "_store",
        ),
        *("finish_forward", "wait_for_save", "_order", "get_transfer_results", "report"),
    ]
    assert client.streams == [(77, 0, 0), (77, 1, 0)] and len(client.submitted) == 1


def test_the_prefill_clock_tells_what_the_gpu_computed(active, half, client, gpu):
    """The launch of 8192 tokens takes no time here, the GPU 300 ms, sampling 20."""
    step(active, StepWork(prefill_tokens=8192, computes=True), gpu, takes=300, samples=20)
    assert not hasattr(client, "prefill")
    gpu.passes(310)
    output = step(active, COMPUTES)
    assert client.prefill == (8192, 300_000_000)
    assert output.kv_connector_worker_meta.prefill_ns == 300_000_000


def test_dummy_runs_and_captures_call_no_hook(active, half, client, calls):
    active.set_disabled(True)
    assert step(active, COMPUTES) is None and calls == []
    active.reset_capture_state()
    active.set_disabled(False)
    step(active, COMPUTES)
    assert calls


def test_a_store_of_a_preempted_request_is_overtaken_before_the_pass(active, client):
    step(active, StepWork(number=1, stores=[move("a")], computes=True))
    active.pre_forward(output_of(StepWork(computes=True, preempted=("a",))), BATCH)
    assert client.overtaken == [1]


def test_a_pass_that_fails_is_not_stored(active, half, client):
    """This runner then calls no later hook."""
    active.pre_forward(output_of(StepWork(number=1, stores=[move("a")], computes=True)), BATCH)
    step(active, COMPUTES)
    assert not client.submitted and "never saved" in half.off


def test_ended_loads_and_failed_ones_are_told(active, client):
    step(active, StepWork(loads=[move("a"), move("b")], computes=True))
    client.done = [completion(1), completion(2, ok=False)]
    output = active.no_forward(output_of(RESTS)).kv_connector_output
    assert (output.finished_recving, output.failed_recving) == ({"a", "b"}, {"b"})


def test_a_step_without_a_pass_waits_for_nothing_on_a_gpu(active, client):
    step(active, StepWork(loads=[move("a")], computes=True))
    active.no_forward(output_of(RESTS))
    active.no_forward(output_of(StepWork(kept=("a",))))
    assert set(client.waits) == {0}


@pytest.mark.parametrize(("data_parallel", "waits"), [(True, 0), (False, IDLE_WAIT_MS)])
def test_a_data_parallel_rank_on_a_cpu_does_not_wait_either(client, data_parallel, waits):
    """The others' steps would wait for this one."""
    half = named(LarderConnectorWorker(setup(data_parallel=data_parallel), client))
    half.bind_connector_metadata(StepWork(loads=[move("a")], computes=True))
    half.get_transfer_results()
    half.bind_connector_metadata(RESTS)
    half.get_transfer_results()
    assert client.waits == [0, waits]
    client.done = [completion(1)]
    half.bind_connector_metadata(StepWork(number=1, stores=[move("b")], computes=True))
    half.wait_for_save()
    half.get_transfer_results()
    half.bind_connector_metadata(StepWork(kept=("b",)))
    half.get_transfer_results()
    assert client.store_waits == [0, waits]
