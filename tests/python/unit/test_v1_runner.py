"""The worker's half under the mixin of vLLM's first model runner: the stores, and their times with
a late or missing save of vLLM.

vLLM's own context manager runs the hooks. On a GPU, which a fake stream stands in for, the first
runner saves before it samples."""

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from runner_fakes import connector_over, output_of  # noqa: E402
from timeline_fakes import on_gpu  # noqa: E402
from vllm.v1.worker import kv_connector_model_runner_mixin as runner  # noqa: E402
from worker_fakes import client, half, move  # noqa: E402, F401

from larder.vllm.messages import COMPUTES, RESTS, StepWork  # noqa: E402


def store(number, *names):
    return StepWork(number=number, stores=[move(name) for name in names], computes=True)


class Runner:
    """As far as GPUModelRunner.execute_model and sample_tokens call the connector."""

    def __init__(self, connector, speculates=False, last_stage=True):
        self.connector, self.speculates, self.last_stage = connector, speculates, last_stage

    def step(self, work, passes=lambda: None, drafts=lambda: None):
        self.connector.handle_preemptions(work)
        mixin = runner.KVConnectorModelRunnerMixin
        with mixin.maybe_get_kv_connector_output(
            output_of(work), defer_finalize=self.speculates
        ) as output:
            passes()
        if self.speculates and self.last_stage:
            drafts()
            mixin.finalize_kv_connector()
        return output


@pytest.fixture
def connector(half, client, monkeypatch):
    made = connector_over(half, client)
    monkeypatch.setattr(runner, "get_kv_transfer_group", lambda: made)
    monkeypatch.setattr(runner, "has_kv_transfer_group", lambda: True)
    monkeypatch.setattr(runner, "get_forward_context", lambda: None)
    return made


class TestSpeculation:
    # covers F-053
    def test_a_stage_that_is_not_the_last_never_saves_and_stores_with_the_next_step(
        self, connector, half, client
    ):
        stage = Runner(connector, speculates=True, last_stage=False)
        stage.step(store(1, "a"))
        assert client.begun and not client.submitted
        stage.step(store(2, "b"))
        assert len(client.submitted) == 1 and half.off is None
        client.ended = [1]
        assert stage.step(COMPUTES).kv_connector_worker_meta.ended == {1: 1}
        assert len(client.submitted) == 2

    def test_the_last_stage_stores_behind_its_drafts(self, connector, half, client):
        stage = Runner(connector, speculates=True)
        submitted = []
        stage.step(store(1, "a"), drafts=lambda: submitted.append(len(client.submitted)))
        assert submitted == [0] and len(client.submitted) == 1 and half.off is None

    @pytest.mark.parametrize("speculates", [False, True])
    def test_a_pass_that_fails_is_not_stored(self, connector, half, client, speculates):
        stage = Runner(connector, speculates, last_stage=False)
        with pytest.raises(RuntimeError):
            stage.step(store(1, "a"), passes=fail)
        stage.step(store(2, "b"))
        stage.step(COMPUTES)
        assert not client.submitted and "the forward pass ended by RuntimeError" in half.off


def fail():
    raise RuntimeError("CUDA out of memory")


class TestOnAGpu:
    @pytest.fixture
    def stage(self, connector, half, monkeypatch):
        on_gpu(half, monkeypatch, {"layer.0": torch.zeros(10, 4096, dtype=torch.uint8)})
        return Runner(connector)

    def test_stores_come_behind_sampling(self, stage, half, client):
        stage.step(store(1, "a"))
        assert not client.submitted and client.streams == [], (
            "the sampled tokens are not on their way yet"
        )
        stage.step(COMPUTES)
        assert client.submitted and client.streams == [(77, 0, 0)]

    def test_an_engine_that_has_nothing_else_to_do_stores_all_the_same(self, stage, client):
        """vLLM steps on while an ended request keeps its blocks."""
        stage.step(store(1, "a"))
        stage.step(StepWork(kept=("a",)))
        assert client.submitted
        client.ended = [1]
        assert stage.step(RESTS).finished_sending == {"a"}

    @pytest.mark.parametrize(
        "work", [StepWork(computes=True, preempted=("a",)), StepWork(computes=True, rewritten=(1,))]
    )
    def test_blocks_that_the_next_step_writes_are_not_read(self, stage, half, client, work):
        stage.step(store(1, "a", "b"))
        output = stage.step(work)
        assert not client.submitted and client.abandoned == 1
        assert output.kv_connector_worker_meta.ended == {1: 1} and half.off is None

    def test_a_pass_that_fails_is_not_stored(self, stage, half, client):
        with pytest.raises(RuntimeError):
            stage.step(store(1, "a"), passes=fail)
        stage.step(COMPUTES)
        assert not client.submitted and client.abandoned

    def test_pages_that_leave_take_what_was_not_begun_with_them(self, stage, half, client):
        stage.step(store(1, "a"))
        client.copies = lambda: 0
        client.pages_leave = client.pages_are_back = lambda *_: None
        half.pages_leave()
        half.pages_are_back()
        assert stage.step(COMPUTES).kv_connector_worker_meta.ended == {1: 1}
        assert not client.submitted
