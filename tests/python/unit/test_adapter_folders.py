"""A worker's look at an adapter's folder: on another thread, once a second at most, and no step
waits for the look."""

import ast
import os
import pathlib
import shutil
import threading
import time

import pytest

pytest.importorskip("vllm")

from test_adapters import Manager, folder, known, request  # noqa: E402, F401
from vllm.config.lora import LoRAConfig  # noqa: E402
from worker_fakes import client, completion, half, move, named  # noqa: E402, F401

from larder.vllm import adapter_files, adapter_folders, awaited_adapters, loaded_adapters  # noqa: E402
from larder.vllm.adapter_files import FilesUnknown, files_of  # noqa: E402
from larder.vllm.adapter_folders import AdapterFolders  # noqa: E402
from larder.vllm.adapters import Adapters  # noqa: E402
from larder.vllm.messages import COMPUTES, RESTS, StepWork  # noqa: E402

A_STEP_S = 0.05  # no hook takes so long, on a machine that may be busy


class Mount:
    """os.scandir of all folders: hangs while `hangs` is set, and is counted."""

    def __init__(self):
        self.looks, self._answers = 0, threading.Event()
        self._answers.set()

    def scandir(self, path):
        self.looks += 1
        assert self._answers.wait(60)
        return os.scandir(path)

    def hang(self):
        self._answers.clear()

    def answer(self):
        self._answers.set()


@pytest.fixture(autouse=True)
def mount(monkeypatch):
    made = Mount()
    monkeypatch.setattr(
        adapter_files, "os", type("os", (), {"scandir": made.scandir, "stat": os.stat})
    )
    yield made
    made.answer()
    until = time.monotonic() + 20
    while adapter_folders._looks.running:
        assert time.monotonic() < until, "a thread is left"
        time.sleep(0.001)


@pytest.fixture
def files(folder):
    return files_of(folder)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    made = type("Clock", (), {"now": 100.0, "__call__": lambda self: self.now})()
    return made


def settled(folders, folder):
    until = time.monotonic() + 20
    while folders.files(folder) is None:
        assert time.monotonic() < until
        time.sleep(0.001)
    return folders.files(folder)


def with_adapter(files, request_id="r"):
    made = move(request_id)
    made.adapter, made.line = (7, files), "adapter: x\n"
    return made


class TestPaths:
    """Paths as users give adapters to vLLM."""

    def test_a_name_of_the_hub_is_the_folder_that_vllm_downloaded(self, folder, monkeypatch):
        import huggingface_hub

        def cached(name, revision=None, cache_dir=None, local_files_only=False):
            assert local_files_only and name == "org/adapter"
            return str(folder)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", cached)
        assert files_of("org/adapter") == files_of(str(folder))

    def test_a_name_of_modelscope_is_not_the_hubs_adapter_of_that_name(self, folder, monkeypatch):
        import huggingface_hub

        monkeypatch.setenv("VLLM_USE_MODELSCOPE", "True")
        monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(folder))
        with pytest.raises(FilesUnknown):
            files_of("org/adapter")

    def test_the_users_home(self, folder, monkeypatch):
        monkeypatch.setenv("HOME", str(folder.parent))
        assert files_of(f"~/{folder.name}") == files_of(str(folder))

    def test_a_path_from_the_working_directory(self, folder, monkeypatch):
        """vLLM tells the absolute path after its load."""
        monkeypatch.chdir(folder.parent)
        assert files_of(folder.name) == files_of(str(folder))

    def test_an_unknown_name_is_refused(self):
        with pytest.raises(FilesUnknown, match="org/absent"):
            files_of("org/absent")


class TestFolders:
    def test_an_answer_counts_for_a_second(self, folder, mount, clock):
        folders = AdapterFolders(clock)
        found = settled(folders, folder)
        looks = mount.looks
        (folder / "adapter_model.safetensors").write_bytes(b"others")
        clock.now += 0.99
        assert folders.files(folder) == found and mount.looks == looks
        clock.now += 0.02
        assert settled(folders, folder) == files_of(folder) != found
        assert mount.looks == looks + 2, "one of the threads is the test's own"

    # covers F-091
    def test_a_hanging_mount_is_read_once(self, folder, mount, clock):
        mount.hang()
        folders, begin = AdapterFolders(clock), time.monotonic()
        for _ in range(5):
            assert folders.files(folder) is None
            clock.now += 2
        assert time.monotonic() - begin < A_STEP_S
        mount.answer()
        assert settled(folders, folder) == files_of(folder)

    def test_hanging_reads_are_bounded(self, folder, tmp_path, mount):
        mount.hang()
        folders = AdapterFolders()
        for i in range(20):
            assert folders.files(tmp_path / f"{i}") is None
        assert adapter_folders._looks.running == 4
        mount.answer()
        assert settled(folders, folder)

    def test_a_thread_ends_with_its_read(self, folder):
        settled(AdapterFolders(), folder)
        until = time.monotonic() + 20
        while any(thread.name == "larder-adapter" for thread in threading.enumerate()):
            assert time.monotonic() < until

    @pytest.mark.parametrize("path", ["missing", "no\0path"])
    def test_a_folder_that_cannot_be_read_has_no_files(self, tmp_path, path):
        assert settled(AdapterFolders(), str(tmp_path / path)) == ()

    def test_the_table_is_bounded(self, tmp_path):
        folders = AdapterFolders()
        for i in range(300):
            settled(folders, str(tmp_path / f"{i}"))
        assert len(folders._reads) <= 256

    def test_no_thread_to_be_had_is_not_known(self, folder, monkeypatch):
        def start(self):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", start)
        assert AdapterFolders().files(folder) is None and adapter_folders._looks.running == 0


class TestVllmsOwnLoad:
    @pytest.fixture
    def load(self, monkeypatch):
        monkeypatch.setattr(loaded_adapters, "LOOK_WAIT_S", 0.02)
        manager, held = Manager(), loaded_adapters.LoadedAdapters()
        one = loaded_adapters._noted(Manager._load_adapter)
        return lambda path: one(manager, request(path, 7)) and held.take_news()

    # covers F-091
    def test_a_hanging_mount_delays_the_load_briefly(self, load, folder, mount):
        mount.hang()
        assert load(folder) == {7: ()}

    def test_a_mount_hanging_after_the_read_of_vllm_delays_briefly(
        self, monkeypatch, folder, mount
    ):
        monkeypatch.setattr(loaded_adapters, "LOOK_WAIT_S", 0.02)
        manager, held = Manager(), loaded_adapters.LoadedAdapters()
        loaded_adapters._noted(lambda self, asked: mount.hang())(manager, request(folder, 7))
        assert held.take_news() == {7: ()}

    @pytest.mark.parametrize("modelscope", [False, True])
    def test_a_name_that_vllm_downloads_in_the_load(self, monkeypatch, folder, modelscope):
        """The adapter has its name at once, and not at the next load."""
        from vllm.lora import worker_manager

        if modelscope:
            monkeypatch.setenv("VLLM_USE_MODELSCOPE", "True")
        hub = folder.rename(folder.parent / "elsewhere")

        def download(name):
            assert name == "org/adapter"
            return str(hub.rename(folder))

        def load(self, asked):
            assert worker_manager.get_adapter_absolute_path(asked.lora_path) == str(folder)

        monkeypatch.setattr(
            worker_manager, "get_adapter_absolute_path", loaded_adapters._resolved(download)
        )
        held, manager = loaded_adapters.LoadedAdapters(), Manager()
        asked = request("org/adapter", 7)
        loaded_adapters._noted(load)(manager, asked)
        news = held.take_news()
        assert news == {7: files_of(str(folder))}
        adapters = Adapters(LoRAConfig())
        adapters.loaded(news)
        assert known(adapters, asked).startswith("adapter: ")

    def test_a_name_whose_newer_files_vllm_downloads_in_the_load(self, monkeypatch, folder):
        import huggingface_hub
        from vllm.lora import worker_manager

        newer = folder.parent / "newer"
        shutil.copytree(folder, newer)
        there = [folder]
        monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(there[0]))

        def download(name):
            there[0] = newer
            return str(newer)

        monkeypatch.setattr(
            worker_manager, "get_adapter_absolute_path", loaded_adapters._resolved(download)
        )

        def load(self, asked):
            worker_manager.get_adapter_absolute_path(asked.lora_path)

        held, manager = loaded_adapters.LoadedAdapters(), Manager()
        loaded_adapters._noted(load)(manager, request("org/adapter", 7))
        assert held.take_news() == {7: files_of(str(newer))}

    # covers F-089
    def test_files_seen_before_the_load_do_not_count_after_it(self, folder, mount, clock):
        """vLLM loads the adapter, unloads it, and the folder is overwritten, all within a
        second."""
        held, manager = loaded_adapters.LoadedAdapters(), Manager()
        held._folders._clock = clock
        files = files_of(folder)
        while held.matches(7, files) is None:
            time.sleep(0.001)
        loaded_adapters._noted(Manager._load_adapter)(manager, request(f"{folder}/", 7))
        manager.held.clear()
        (folder / "adapter_model.safetensors").write_bytes(b"others")
        while (answer := held.matches(7, files)) is None:
            time.sleep(0.001)
        assert answer is False


class TestWorker:
    """Loads of an adapter that the worker has not loaded."""

    @pytest.fixture(autouse=True)
    def no_adapter_is_loaded(self, monkeypatch):
        monkeypatch.setattr(loaded_adapters, "_records", {})

    def ended(self, half, patience_s=20):
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            ended = half.get_transfer_results()
            if ended != (set(), set()):
                return ended
        raise TimeoutError("no load has ended")

    # covers F-091
    def test_a_mount_that_hangs_costs_the_load_and_no_step(self, half, client, files, mount):
        mount.hang()
        begin = time.monotonic()
        half.bind_connector_metadata(StepWork(loads=[with_adapter(files)]))
        assert half.get_transfer_results() == (set(), set())
        for _ in range(3):
            half.bind_connector_metadata(COMPUTES)
            half.get_transfer_results()
        assert time.monotonic() - begin < A_STEP_S
        assert self.ended(half) == ({"r"}, {"r"}) and client.loads == [] and half.off is None
        assert time.monotonic() - begin < 2
        assert half.get_transfer_results() == (set(), set()), "told once"

    def test_a_folder_that_answers_costs_no_load(self, half, client, files):
        half.bind_connector_metadata(StepWork(loads=[with_adapter(files)]))
        until = time.monotonic() + 20
        while not client.loads:
            assert time.monotonic() < until
            assert half.get_transfer_results() == (set(), set())
        client.done = [completion(1)]
        assert half.get_transfer_results() == ({"r"}, set())

    # covers F-089
    def test_other_files_than_those_of_the_kv(self, half, client, files, folder):
        (folder / "adapter_model.safetensors").write_bytes(b"others")
        half.bind_connector_metadata(StepWork(loads=[with_adapter(files)]))
        assert self.ended(half) == ({"r"}, {"r"}) and client.loads == []

    def test_loads_of_other_requests_go_on(self, half, client, files, mount):
        mount.hang()
        half.bind_connector_metadata(StepWork(loads=[with_adapter(files), move("plain")]))
        assert len(client.loads) == 1
        client.done = [completion(1)]
        assert half.get_transfer_results() == ({"plain"}, set())
        assert self.ended(half) == ({"r"}, {"r"})

    def test_two_loads_of_one_adapter_read_its_folder_once(self, half, client, files, mount):
        looks = mount.looks
        half.bind_connector_metadata(
            StepWork(loads=[with_adapter(files, "a"), with_adapter(files, "b")])
        )
        until = time.monotonic() + 20
        while len(client.loads) < 2:
            assert time.monotonic() < until
            half.get_transfer_results()
        assert mount.looks == looks + 1

    @pytest.mark.parametrize("event", ["off", "away", "closed"])
    def test_a_waiting_load_is_reported_as_failed_once(self, half, client, files, mount, event):
        mount.hang()
        half.bind_connector_metadata(StepWork(loads=[with_adapter(files)]))
        if event == "off":
            half.turn_off("made to")
        elif event == "away":
            half._away = True
        else:
            half.bind_connector_metadata(StepWork(closed=[("adapter: x\n", False)]))
        mount.answer()
        assert self.ended(half) == ({"r"}, {"r"}) and client.loads == []
        assert client.namespaces == ["engine: test\n"], "the closed one is not opened again"
        assert half.get_transfer_results() == (set(), set())

    def test_an_idle_step_yields_the_processor_to_the_read(self, half, files, mount):
        mount.hang()
        half.bind_connector_metadata(StepWork(loads=[with_adapter(files)]))
        half.bind_connector_metadata(RESTS)
        begin = time.monotonic()
        half.get_transfer_results()
        assert 0.001 < time.monotonic() - begin < A_STEP_S

    # covers F-091
    def test_a_store_of_an_adapter_that_this_step_loads_waits_for_no_mount(
        self, half, client, files, mount, monkeypatch
    ):
        """vLLM loads the adapter between the two hooks: the files of this load decide."""
        mount.hang()
        begin = time.monotonic()
        half.bind_connector_metadata(
            StepWork(computes=True, number=1, stores=[with_adapter(files)])
        )
        assert len(client.begun) == 1
        manager = Manager()
        manager.held.add(7)
        record = loaded_adapters._Record(None, loaded={7: files})
        monkeypatch.setattr(loaded_adapters, "_records", {manager: record})
        half.wait_for_save()
        assert (
            time.monotonic() - begin < A_STEP_S
            and len(client.submitted) == 1
            and client.abandoned == 0
        )

    def test_a_store_of_an_adapter_that_stays_unknown_is_skipped(self, half, client, files, mount):
        mount.hang()
        half.bind_connector_metadata(
            StepWork(computes=True, number=1, stores=[with_adapter(files)])
        )
        half.wait_for_save()
        assert client.submitted == [] and client.abandoned == 1


def test_a_load_waits_as_long_as_a_name_of_its_adapter():
    from larder.vllm import adapters

    assert awaited_adapters.WAIT_S == adapters.READ_WAIT_S


# covers F-091
def test_only_these_modules_of_the_connector_touch_a_file_system():
    """A new wait needs a reason why no step waits."""
    reasons = {
        "adapter_files": "runs on threads of background_reads alone",
        "naming": "/proc of the kernel, once, while the engine starts",
        "hosts": "/proc of the kernel",
    }
    touching = {
        "open", "stat", "lstat", "scandir", "listdir", "walk", "readlink", "realpath", "glob",
        "exists", "isfile", "isdir", "getsize", "getmtime", "read_text", "read_bytes", "iterdir",
        "rglob",
    }  # fmt: skip
    found = set()
    for path in pathlib.Path(loaded_adapters.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
                if name in touching:
                    found.add(path.stem)
    assert found == set(reasons)
