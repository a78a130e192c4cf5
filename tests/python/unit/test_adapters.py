"""LoRA adapters by the files that vLLM loaded: read on another thread, named by content and
settings, checked by the workers."""

import json
import os
import shutil
import threading
import time
import types

import pytest

pytest.importorskip("vllm")

from vllm.config.lora import LoRAConfig  # noqa: E402

from larder.vllm import adapters as module  # noqa: E402
from larder.vllm import loaded_adapters  # noqa: E402
from larder.vllm.adapter_files import files_of  # noqa: E402
from larder.vllm.adapter_folders import AdapterFolders  # noqa: E402
from larder.vllm.adapters import Adapters, NotYet, Unserved  # noqa: E402
from larder.weights import UnknownWeights  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "adapter"
    path.mkdir()
    (path / "adapter_model.safetensors").write_bytes(b"weights" * 1000)
    (path / "adapter_config.json").write_text(json.dumps({"r": 8}))
    return path


def request(path, number=1, name="a", **more):
    fields = {"load_inplace": False, "base_model_name": None, "is_3d_lora_weight": False, **more}
    return types.SimpleNamespace(
        lora_int_id=number,
        lora_name=name,
        lora_path=str(path),
        __struct_fields__=("lora_name", *fields),
        **fields,
    )


def known(adapters, asked, patience_s=20):
    until = time.monotonic() + patience_s
    while True:
        try:
            return adapters.line(asked)
        except NotYet:
            assert time.monotonic() < until
            time.sleep(0.001)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(module, "READ_WAIT_S", 20)
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0)
    yield
    until = time.monotonic() + 20
    while module._readers.running:
        assert time.monotonic() < until, "a reader is left"
        time.sleep(0.01)


def test_a_worker_with_other_files_than_a_request_has_named(folder):
    adapters, asked = Adapters(LoRAConfig()), request(folder, 7)
    known(adapters, asked)
    number, files = adapters.files(asked)
    assert not adapters.loaded({number: files, 8: ()}) and adapters.loaded({number: files[:1]})


def test_an_adapter_that_vllm_has_downloaded_is_read_at_once(folder, monkeypatch):
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 1000)
    adapters, asked = Adapters(LoRAConfig()), request("org/absent", 7)
    with pytest.raises(Unserved):
        known(adapters, asked)
    adapters.loaded({7: files_of(str(folder))})
    assert known(adapters, asked).startswith("adapter: ")


def test_equal_content_elsewhere_has_the_same_line_and_other_content_another(folder, tmp_path):
    adapters = Adapters(LoRAConfig())
    line = known(adapters, request(folder))
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert known(adapters, request(copy, 2, "b")) == line
    (copy / "adapter_model.safetensors").write_bytes(b"weights" * 999 + b"Weights")
    assert known(Adapters(LoRAConfig()), request(copy)) != line


def test_any_file_that_vllm_may_read_counts_and_a_readme_does_not(folder):
    line = known(Adapters(LoRAConfig()), request(folder))
    (folder / "README.md").write_text("about")
    assert known(Adapters(LoRAConfig()), request(folder)) == line
    (folder / "new_embeddings.safetensors").write_bytes(b"more")
    assert known(Adapters(LoRAConfig()), request(folder)) != line


@pytest.mark.parametrize(
    "setting",
    [
        {"target_modules": ["o_proj"]},
        {"enable_tower_connector_lora": True},
        {"lora_dtype": "float16"},
    ],
)
def test_settings_that_change_what_an_adapter_computes_are_in_its_line(folder, setting):
    assert known(Adapters(LoRAConfig(**setting)), request(folder)) != known(
        Adapters(LoRAConfig()), request(folder)
    )


def test_settings_that_only_say_how_many_are_not(folder):
    assert known(Adapters(LoRAConfig(max_loras=4, max_cpu_loras=9)), request(folder)) == known(
        Adapters(LoRAConfig()), request(folder)
    )


def test_a_field_of_the_request_that_this_file_does_not_know_counts(folder):
    plain = known(Adapters(LoRAConfig()), request(folder))
    assert known(Adapters(LoRAConfig()), request(folder, future="x")) != plain


# covers F-091
def test_files_that_hang_cost_one_adapter_alone(folder, tmp_path, monkeypatch):
    """A network mount without an answer: the engine's thread does not wait."""
    monkeypatch.setattr(module, "READ_WAIT_S", 0.05)
    hang, slow = threading.Event(), str(tmp_path / "hanging")
    real = module.files_of
    monkeypatch.setattr(
        module, "files_of", lambda path: hang.wait(60) and () if path == slow else real(path)
    )
    adapters, begin = Adapters(LoRAConfig()), time.monotonic()
    try:
        with pytest.raises(NotYet):
            adapters.line(request(slow, 2, "slow"))
        assert time.monotonic() - begin < 0.04
        time.sleep(0.06)
        with pytest.raises(Unserved, match="the files are still being read"):
            adapters.line(request(slow, 2, "slow"))
        monkeypatch.setattr(module, "READ_WAIT_S", 20)
        assert known(adapters, request(folder))
    finally:
        hang.set()


# covers F-350
def test_each_value_of_a_field_of_a_newer_request_is_a_name_of_its_own(folder):
    """Also values that a condition takes for nothing, and objects that are printed alike."""
    adapters = Adapters(LoRAConfig())
    values = [None, 0, False, "", 1, "1", 1.0, b"1", (1,), [1], {1: 2}, {"1": 2}]
    lines = {known(adapters, request(folder, future=value)) for value in values}
    assert len(lines) == len(values)
    assert known(adapters, request(folder, future=None)) == known(adapters, request(folder))
    with pytest.raises(Unserved, match="a field of its request cannot be named"):
        known(adapters, request(folder, future=threading.Lock()))


# covers F-091
def test_as_many_hanging_readers_as_there_may_be_and_one_more(folder, tmp_path, monkeypatch):
    hang = threading.Event()
    monkeypatch.setattr(module, "files_of", lambda path: hang.wait(60) and ())
    adapters = Adapters(LoRAConfig())
    try:
        for number in range(1, 5):
            with pytest.raises(NotYet):
                adapters.line(request(tmp_path / f"{number}", number, f"{number}"))
        with pytest.raises(Unserved, match="the files of 4 other adapters are being read"):
            adapters.line(request(folder, 9, "nine"))
    finally:
        hang.set()


# covers F-092
def test_an_error_while_reading_costs_that_adapter_alone(folder, tmp_path):
    adapters = Adapters(LoRAConfig())
    with pytest.raises(Unserved, match="cannot be read"):
        known(adapters, request(tmp_path / "missing", 2, "gone"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unserved, match="has no local weights"):
        known(adapters, request(tmp_path / "empty", 3, "empty"))
    assert known(adapters, request(folder))


def test_the_remedy_for_weights_is_none_for_an_adapter(folder, monkeypatch):
    """weights_id names the model's weights alone."""

    def over_the_limit(paths):
        raise UnknownWeights("9 bytes are not in the page cache")

    monkeypatch.setattr(module, "files_identity", over_the_limit)
    with pytest.raises(
        Unserved, match="the files cannot be read: 9 bytes are not in the page cache$"
    ):
        known(Adapters(LoRAConfig()), request(folder))


# covers F-088
def test_an_adapter_whose_files_are_not_those_that_vllm_loaded_is_not_served(folder):
    """A training loop overwrites the folder between the loading and the first request."""
    loaded = files_of(folder)
    (folder / "adapter_model.safetensors").write_bytes(b"WEIGHTS" * 1000)
    adapters = Adapters(LoRAConfig())
    adapters.loaded({1: loaded})
    with pytest.raises(Unserved, match="other files than vLLM loaded"):
        known(adapters, request(folder))


# covers F-089
def test_an_adapter_that_vllm_loads_anew_from_other_files_has_a_new_line(folder):
    adapters = Adapters(LoRAConfig())
    line = known(adapters, request(folder))
    adapters.loaded({1: files_of(folder)})
    (folder / "adapter_model.safetensors").write_bytes(b"WEIGHTS" * 1000)
    assert known(adapters, request(folder)) == line, "vLLM still holds the loaded files"
    adapters.loaded({1: files_of(folder)})
    assert known(adapters, request(folder)) != line, "at once: vLLM holds the files of the folder"


# covers F-090
def test_files_that_changed_while_vllm_read_them_are_not_served(folder):
    adapters = Adapters(LoRAConfig())
    adapters.loaded({1: ()})
    with pytest.raises(Unserved, match="other files"):
        known(adapters, request(folder))


# covers F-093
def test_an_adapter_that_is_loaded_in_place_is_not_served(folder):
    with pytest.raises(Unserved, match="load_inplace"):
        Adapters(LoRAConfig()).line(request(folder, load_inplace=True))


def test_known_adapters_are_bounded(folder):
    adapters = Adapters(LoRAConfig())
    adapters.loaded({number: () for number in range(2, 6000)})
    assert len(adapters._loaded) <= 4096
    for number in range(5000):
        adapters._adapter(request(folder, number + 1, f"{number}"))
    assert len(adapters._known) <= 4096


class Manager:
    """The wrapped methods of vLLM's WorkerLoRAManager."""

    def __init__(self, lora_config=None):
        self.held = set()
        self.lora_config = lora_config

    def list_adapters(self):
        return self.held

    def _load_adapter(self, lora_request):
        self.held.add(lora_request.lora_int_id)
        return "adapter"


def seen(held, files, patience_s=20):
    """The result of matches() a second later."""
    held._folders = AdapterFolders()
    until = time.monotonic() + patience_s
    while (answer := held.matches(7, files)) is None:
        assert time.monotonic() < until
        time.sleep(0.001)
    return answer


class TestWhatAWorkerHolds:
    @pytest.fixture
    def manager(self, monkeypatch):
        monkeypatch.setattr(Manager, "_load_adapter", loaded_adapters._noted(Manager._load_adapter))
        return Manager()

    @pytest.fixture
    def held(self):
        return loaded_adapters.LoadedAdapters()

    def test_a_load_is_reported_once_and_decides_from_then_on(self, manager, held, folder):
        assert manager._load_adapter(request(folder, 7)) == "adapter"
        files = files_of(folder)
        assert held.take_news() == {7: files} and held.take_news() == {}
        (folder / "adapter_model.safetensors").write_bytes(b"others")
        assert held.matches(7, files) and not held.matches(7, files_of(folder))

    def test_files_decide_for_an_adapter_that_is_not_held(self, manager, held, folder):
        manager._load_adapter(request(folder, 7))
        files = files_of(folder)
        manager.held.clear()  # vLLM needed the room
        assert seen(held, files) is True
        (folder / "adapter_model.safetensors").write_bytes(b"others")
        assert seen(held, files) is False
        shutil.rmtree(folder)
        assert seen(held, files) is False

    def test_an_adapter_released_by_vllm_is_forgotten(self, manager, folder):
        manager._load_adapter(request(folder, 7))
        manager.held.discard(7)
        manager._load_adapter(request(folder, 8))
        assert set(loaded_adapters._records[manager].loaded) == {8}

    # covers F-090
    def test_files_that_change_while_vllm_reads_match_nothing(self, held, folder):
        def load(self, lora_request):
            os.utime(folder / "adapter_config.json", (1, 1))
            self.held.add(lora_request.lora_int_id)

        manager = Manager()
        loaded_adapters._noted(load)(manager, request(folder, 7))
        assert held.take_news() == {7: ()} and not held.matches(7, files_of(folder))

    # covers F-080
    def test_engines_of_one_process_hold_adapters_of_their_own(self, manager, folder, tmp_path):
        """Both may give their adapters the same number."""
        configs = [object(), object()]
        one, other = [loaded_adapters.LoadedAdapters(config) for config in configs]
        mine, theirs = Manager(configs[0]), Manager(configs[1])
        second = shutil.copytree(folder, tmp_path / "second")
        mine._load_adapter(request(folder, 7))
        theirs._load_adapter(request(second, 7))
        assert (one.take_news(), other.take_news()) == (
            {7: files_of(folder)},
            {7: files_of(second)},
        )
        assert one.matches(7, files_of(folder)) and not one.matches(7, files_of(second))
        assert other.matches(7, files_of(second)) and not other.matches(7, files_of(folder))

    def test_loads_of_an_ended_engine_are_discarded(self, manager, folder):
        config = object()
        first = loaded_adapters.LoadedAdapters(config)
        gone = Manager(config)
        gone._load_adapter(request(folder, 7))
        del first
        assert loaded_adapters.LoadedAdapters(object()).take_news() == {}
