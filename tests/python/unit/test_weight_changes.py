"""The calls to the workers that move an engine to a namespace of its own: all but the calls known
to leave the weights alone."""

import types

import pytest

pytest.importorskip("vllm")

from vllm.v1.engine.core import EngineCore  # noqa: E402

from larder.vllm import weight_changes  # noqa: E402
from larder.vllm.groups import Unsupported  # noqa: E402


class Half:
    def __init__(self):
        self.calls = []

    def weights_change(self, call):
        self.calls.append(call)

    def prefix_cache_emptied(self):
        self.calls.append("emptied")


@pytest.fixture
def half(monkeypatch):
    for name in ("collective_rpc", "reset_prefix_cache"):
        monkeypatch.setattr(EngineCore, name, getattr(EngineCore, name))  # undone behind the test
    made = Half()
    made.model_config = object()
    weight_changes.watch(made, made.model_config)
    return made


def core(model_config=None):
    """An EngineCore whose workers answer with the request."""
    made = object.__new__(EngineCore)
    made.vllm_config = types.SimpleNamespace(model_config=model_config)
    made.model_executor = types.SimpleNamespace(
        collective_rpc=lambda method, timeout, args, kwargs: [(method, timeout, args, kwargs)]
    )
    return made


@pytest.mark.parametrize(
    "call",
    [
        "reload_weights", "start_weight_update", "update_weights", "finish_weight_update",
        "start_draft_weight_update", "reset_weights", "apply_model", "checkpoint_restore",
        "load_model", "a_method_of_a_worker_extension", "sleep", "wake_up",
    ],
)  # fmt: skip
# covers F-074
def test_a_call_that_may_change_weights_is_told_before_it_is_made(half, call):
    assert core().collective_rpc(call, 5, ("a",), {"b": 1}) == [(call, 5, ("a",), {"b": 1})]
    assert half.calls == [call]


# covers F-074
def test_a_function_may_do_anything(half):
    def profile(worker):
        pass

    core().collective_rpc(profile)
    assert half.calls == ["profile"], "a known name makes no known function"


@pytest.mark.parametrize(
    "call",
    [
        "update_max_model_len",
        "synchronize_device",
        "compute_weight_checksums",
        "profile",
        "get_model_inspection",
    ],
)
def test_a_call_that_leaves_the_weights_alone_is_not_told(half, call):
    core().collective_rpc(call)
    assert half.calls == []


# covers F-096
def test_a_trainer_that_loads_weights_into_the_model_itself_is_told(half, monkeypatch):
    """In one process with the engine a trainer needs no call to the workers."""

    class Model:
        def load_weights(self, weights):
            return set(weights)

    monkeypatch.setattr(
        "vllm.model_executor.model_loader.utils.get_model_cls", lambda config: Model
    )
    for _ in range(2):
        weight_changes.watch_model(types.SimpleNamespace(model_config=None))
    assert Model().load_weights(["a"]) == {"a"}
    assert half.calls == ["load_weights"]


@pytest.mark.parametrize("done", [True, False])
def test_vllms_own_cache_is_told_to_be_empty_once_it_is(half, done):
    made = core(half.model_config)
    made.scheduler = types.SimpleNamespace(reset_prefix_cache=lambda running, connector: done)
    assert made.reset_prefix_cache() is done
    assert half.calls == ["emptied"] * done


# covers F-080
def test_what_is_done_to_another_engine_of_the_process_is_not_told(half):
    other = Half()
    other.model_config = object()
    weight_changes.watch(other, other.model_config)
    made = core(other.model_config)
    made.scheduler = types.SimpleNamespace(reset_prefix_cache=lambda running, connector: True)
    made.collective_rpc("reload_weights")
    made.reset_prefix_cache()
    assert (half.calls, other.calls) == ([], ["reload_weights", "emptied"]), (
        "KV that is old would be stored, or hits be lost"
    )


def test_another_engine_that_starts_changes_no_weights(half, monkeypatch):
    """The new model may be of the same class."""
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    class Model:
        def load_weights(self, weights):
            return set(weights)

    class Loader(BaseModelLoader):
        def __init__(self):
            pass

        def download_model(self, model_config):
            pass

        def load_weights(self, model, model_config):
            model.load_weights([])

        def load_model(self):
            self.load_weights(Model(), None)

    monkeypatch.setattr(
        "vllm.model_executor.model_loader.utils.get_model_cls", lambda config: Model
    )
    weight_changes.watch_model(types.SimpleNamespace(model_config=None))
    Loader().load_model()
    assert half.calls == []
    Loader().load_weights(Model(), None)
    assert half.calls == ["load_weights"], "as vLLM loads weights anew"


def test_engines_that_are_made_again_in_one_process_wrap_it_once(half):
    for _ in range(5):
        weight_changes.watch(Half())
    core().collective_rpc("reload_weights")
    assert half.calls == ["reload_weights"]


def test_a_vllm_without_that_call_is_refused(monkeypatch):
    monkeypatch.delattr(EngineCore, "collective_rpc")
    with pytest.raises(Unsupported, match="EngineCore.collective_rpc is missing"):
        weight_changes.watch(Half())


def test_every_call_that_this_vllm_makes_itself_is_known_one_way_or_the_other():
    """The names in vLLM's sources that change weights must not be on the list of harmless ones."""
    changing = ("weight", "load", "restore", "reset_weights", "apply")
    harmless = {
        "compute_weight_checksums",
        "init_weight_transfer_engine",
        "shutdown_weight_transfer_engine",
    }
    assert {
        name for name in weight_changes._HARMLESS if any(word in name for word in changing)
    } == harmless
