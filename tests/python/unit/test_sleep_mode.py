"""vLLM's sleep mode: vLLM's own classes over a recording allocator, the worker's half over a
recording client."""

import sys
from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from fakes import setup  # noqa: E402
from vllm import device_allocator  # noqa: E402
from vllm.device_allocator.sleep_mode_backend import SleepModeBackendFactory  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole  # noqa: E402
from vllm.v1.worker.gpu_worker import Worker  # noqa: E402
from worker_fakes import Client, completion, move  # noqa: E402

from larder._native import DEADLINE_EXCEEDED  # noqa: E402
from larder.client import Client as RealClient  # noqa: E402
from larder.client import LarderError  # noqa: E402
from larder.vllm import connector, sleep_mode, worker  # noqa: E402
from larder.vllm.groups import Unsupported  # noqa: E402
from larder.vllm.messages import RESTS, StepWork  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402

ASLEEP = ["abandon", "leave", "sleep"]


class SleepyClient(Client):
    """`running`: the result of each look at the state in turn, the last one for good."""

    def __init__(self, calls):
        super().__init__()
        self.calls, self.running, self.keeps = calls, [(0, 0)], False

    def copies(self):
        loads, stores = self.running.pop(0) if len(self.running) > 1 else self.running[0]
        if loads + stores:
            self.calls.append(f"{loads} {stores}")
        return loads + stores

    def store_abandon(self):
        super().store_abandon()
        self.calls.append("abandon")

    def store_overtake(self, ticket):
        self.calls.append(f"overtake {ticket}")

    def pages_leave(self, wait_ms):
        self.calls.append("leave")
        if self.keeps:
            raise LarderError("larder_pages_leave", DEADLINE_EXCEEDED)

    def pages_are_back(self):
        self.calls.append("back")


class Allocator:
    """vLLM's, as far as vLLM's backend calls it."""

    def __init__(self, calls):
        self.calls, self.fails = calls, False

    def sleep(self, offload_tags):
        if self.fails:
            raise MemoryError("no host memory for the weights")
        self.calls.append("sleep")

    def wake_up(self, tags=None):
        self.calls.append(f"wake {tags}")

    def discard(self, tags):
        self.calls.append(f"discard {tags}")


@pytest.fixture(autouse=True)
def older_vllm(monkeypatch):
    """The installed one may be newer."""
    monkeypatch.setattr(sleep_mode, "_TOLD", False)


@pytest.fixture
def calls():
    return []


@pytest.fixture
def client(calls):
    return SleepyClient(calls)


@pytest.fixture
def half(client, monkeypatch):
    monkeypatch.setattr(sleep_mode, "_ON_PAGES", type(sleep_mode._ON_PAGES)())
    return registered(client)


def registered(client):
    half = LarderConnectorWorker(setup(), client)
    half.register_kv_caches({"layer.0": torch.zeros(32, 4096, dtype=torch.uint8)})
    assert half.off is None
    return half


@pytest.fixture
def allocator(calls, monkeypatch):
    made = Allocator(calls)
    monkeypatch.setattr(device_allocator, "get_mem_allocator_instance", lambda: made)
    return made


def configuration(**more):
    return Fake(enable_sleep_mode=True, sleep_mode_backend="cumem", **more)


@pytest.fixture
def backend(half, allocator):
    """As made by vLLM's worker at the first sleep."""
    config = configuration()
    sleep_mode.take_part(config)
    return Worker.sleep_mode_backend.fget(
        Fake(_sleep_mode_backend=None, vllm_config=Fake(model_config=config))
    )


class TestOrder:
    def test_pages_leave_after_copies_and_copies_resume_with_them(self, backend, calls, client):
        client.running = [(1, 2), (0, 1), (0, 0)]
        backend.suspend(1)
        assert calls == ["abandon", "1 2", "0 1", "leave", "sleep"]
        assert backend.state() == "SUSPENDED"
        calls.clear()
        backend.resume()
        assert calls == ["wake None", "back"]

    def test_begun_and_submitted_stores_are_abandoned(self, backend, half, client, calls):
        half.bind_connector_metadata(StepWork(number=1, stores=[move("a")], computes=True))
        half.wait_for_save()
        # and never saved
        half.bind_connector_metadata(StepWork(number=2, stores=[move("a")], computes=True))
        backend.suspend(1)
        assert calls == ["abandon", "overtake 1", "leave", "sleep"]
        client.ended = [1]
        half.get_transfer_results()
        assert half.report().ended == {1: 1, 2: 1}, "each step is reported once all the same"

    def test_the_other_half_of_a_partial_wake(self, backend, calls):
        backend.suspend(1)
        calls.clear()
        backend.resume(["weights"])
        assert calls == ["wake ['weights']"]
        backend.resume(["kv_cache"])
        assert calls[1:] == ["wake ['kv_cache']", "back"]

    def test_the_kv_memory_alone(self, backend, calls):
        """release_kv_cache_memory(), then a sleep with all memory."""
        backend.discard(("weights",))
        backend.discard(("kv_cache",))
        assert calls == ["discard ('weights',)", "abandon", "leave", "discard ('kv_cache',)"]
        backend.suspend(1)
        assert calls[4:] == ASLEEP

    def test_two_engines_of_a_process_share_vllms_allocator(self, backend, calls):
        other = registered(SleepyClient(calls))
        backend.suspend(1)
        assert calls == ["abandon", "leave", "abandon", "leave", "sleep"]
        del other
        backend.resume()
        assert calls[5:] == ["wake None", "back"], "one that is gone is not told"


class TestToldByVllm:
    """vLLM 0.33 and newer, whose worker calls two hooks of its connector around its own backend."""

    @pytest.fixture(autouse=True)
    def told(self, older_vllm, monkeypatch):
        monkeypatch.setattr(sleep_mode, "_TOLD", True)

    def test_the_hooks_do_what_the_backend_does_elsewhere(self, half, client, calls):
        one = connector.LarderConnector.__new__(connector.LarderConnector)
        client.running = [(1, 0), (0, 0)]
        one.unregister_kv_caches()
        assert calls == ["abandon", "1 0", "leave"]
        half.bind_connector_metadata(StepWork(loads=[move()]))
        assert not client.loads
        one.restore_kv_caches()
        one.restore_kv_caches()
        half.bind_connector_metadata(StepWork(loads=[move()]))
        assert client.loads

    # covers F-026
    def test_copies_that_do_not_end_are_vllms_answer(self, half, client, calls, monkeypatch):
        monkeypatch.setattr(worker, "SLEEP_WAIT_S", 0.02)
        client.running = [(1, 1)]
        with pytest.raises(RuntimeError, match="this engine cannot fall asleep now"):
            connector.LarderConnector.unregister_kv_caches(None)
        assert "leave" not in calls

    def test_vllms_own_backend_stays(self):
        config = configuration(sleep_mode_offload_cudagraph=True)
        sleep_mode.check(config)
        sleep_mode.take_part(config)
        assert config.sleep_mode_backend == "cumem"

    def test_a_backend_that_was_never_tried_is_refused(self):
        with pytest.raises(Unsupported, match="leave sleep_mode_backend at cumem"):
            sleep_mode.check(Fake(enable_sleep_mode=True, sleep_mode_backend="criu"))


class TestRefusals:
    # covers F-026
    def test_copies_that_do_not_end_keep_the_engine_awake(
        self, backend, half, client, calls, monkeypatch
    ):
        monkeypatch.setattr(worker, "SLEEP_WAIT_S", 0.02)
        client.running = [(1, 1)]
        with pytest.raises(
            RuntimeError,
            match=(
                "2 copies of Larder from and to KV pages have not ended in 0.02 s: "
                ".* cannot fall asleep now"
            ),
        ):
            backend.suspend(1)
        assert "sleep" not in calls and "leave" not in calls and backend.state() == "RUNNING"
        half.bind_connector_metadata(StepWork(loads=[move()]))
        assert client.loads and half.off is None, "the engine goes on with the cache"
        client.running = [(0, 0)]
        backend.suspend(1)
        assert calls[-3:] == ASLEEP

    def test_one_of_two_halves_that_cannot_let_go_keeps_both(self, backend, calls, monkeypatch):
        monkeypatch.setattr(worker, "SLEEP_WAIT_S", 0.01)
        stuck = registered(SleepyClient(calls))
        stuck.client.running = [(0, 1)]
        with pytest.raises(RuntimeError):
            backend.suspend(1)
        assert calls.count("leave") == calls.count("back") and not any(
            one._away for one in sleep_mode._ON_PAGES
        )

    # covers F-026
    def test_a_larderd_that_keeps_pages_open_does_not_prevent_sleep(self, backend, client, calls):
        client.keeps = True
        backend.suspend(1)
        assert calls == ASLEEP

    def test_a_closed_cache_does_not_prevent_sleep(self, half, allocator, calls):
        half.client = RealClient("/nowhere/larder.sock")
        half.client.close()
        sleep_mode.pages_leave()
        sleep_mode.pages_are_back()

    def test_a_cache_that_is_off_still_ends_its_copies(self, backend, half, client, calls):
        half.turn_off("a reason")
        calls.clear()
        client.running = [(1, 0), (0, 0)]
        backend.suspend(1)
        assert calls == ["abandon", "1 0", "leave", "sleep"]

    def test_where_vllm_itself_fails_to_sleep_nothing_is_copied_until_it_has_woken_up(
        self, backend, half, allocator, client
    ):
        allocator.fails = True
        with pytest.raises(MemoryError):
            backend.suspend(1)
        half.bind_connector_metadata(StepWork(loads=[move()]))
        assert not client.loads
        backend.resume()
        half.bind_connector_metadata(StepWork(loads=[move()]))
        assert client.loads


class TestAway:
    # covers F-026
    def test_requests_during_sleep_are_computed_and_reported(self, backend, half, client):
        backend.suspend(1)
        half.bind_connector_metadata(
            StepWork(number=1, loads=[move("l")], stores=[move("s")], computes=True)
        )
        half.wait_for_save()
        assert not client.loads and not client.begun and not client.submitted
        assert half.get_transfer_results() == ({"l"}, {"l"})
        assert half.report().ended == {1: 1} and half.off is None

    def test_the_cache_resumes_after_the_wake_up(self, backend, half, client):
        backend.suspend(2)
        half.bind_connector_metadata(RESTS)
        backend.resume()
        half.bind_connector_metadata(
            StepWork(number=1, loads=[move("l")], stores=[move("s")], computes=True)
        )
        half.wait_for_save()
        assert client.loads and client.submitted
        client.done = [completion(1)]
        assert half.get_transfer_results() == ({"l"}, set())


class TestConfiguration:
    def test_ours_is_made_by_name_and_vllms_own_is_left_to_others(self, backend):
        assert type(backend).__name__ == "LarderSleepBackend" and backend.preserves_communicators()
        assert SleepModeBackendFactory.get_backend_class("cumem").__name__ == "CuMemBackend"

    def test_engines_that_never_sleep_are_left_alone(self):
        config = Fake(
            enable_sleep_mode=False, enable_cumem_allocator=False, sleep_mode_backend="cumem"
        )
        sleep_mode.check(config)
        sleep_mode.take_part(config)
        assert config.sleep_mode_backend == "cumem"

    def test_the_allocator_alone_suffices_to_sleep(self):
        config = Fake(
            enable_sleep_mode=False, enable_cumem_allocator=True, sleep_mode_backend="cumem"
        )
        sleep_mode.take_part(config)
        assert config.sleep_mode_backend == "larder"
        sleep_mode.check(config)  # in the same process the scheduler finds the worker's entry

    def test_no_configuration_names_the_backend_by_itself(self):
        """Else the name would be a user's option, and there were no need to write the name."""
        from vllm.engine.arg_utils import EngineArgs

        assert not hasattr(EngineArgs, "sleep_mode_backend")

    @pytest.mark.parametrize(
        ("refusal", "backend"), [(None, "larder"), (Unsupported("a reason"), "cumem")]
    )
    def test_a_worker_registers_the_backend(self, refusal, backend, monkeypatch):
        def setup_of(*_):
            if refusal:
                raise refusal
            return setup(socket="/nowhere/larder.sock")

        monkeypatch.setattr(connector, "setup_of", setup_of)
        config = configuration()
        vllm_config = Fake(kv_transfer_config=Fake(), model_config=config)
        for role, expected in (
            (KVConnectorRole.SCHEDULER, "cumem"),
            (KVConnectorRole.WORKER, backend),
        ):
            connector.LarderConnector(vllm_config, role, None).shutdown()
            assert config.sleep_mode_backend == expected

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (
                {"sleep_mode_backend": "criu"},
                "sleep mode by the backend criu takes KV pages away while they may be copied",
            ),
            (
                {"sleep_mode_offload_cudagraph": True},
                "sleep_mode_offload_cudagraph needs the sleep backend cumem itself",
            ),
        ],
    )
    def test_unsupported_configurations_are_refused(self, more, words):
        config = configuration()
        vars(config).update(more)
        with pytest.raises(Unsupported, match=words):
            sleep_mode.check(config)

    def test_a_vllm_without_backends_is_refused(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "vllm.device_allocator.sleep_mode_backend", None)
        with pytest.raises(Unsupported, match="sleep mode .* is not served by this vLLM"):
            sleep_mode.check(Fake(enable_sleep_mode=True))
