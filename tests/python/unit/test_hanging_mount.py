"""An adapter's folder on a real mount that hangs. No thread of the engine waits for the mount, and
other adapters have their names."""

import os
import time

import pytest

pytest.importorskip("vllm")

from hanging_mount import CannotMount, HangingMount  # noqa: E402
from test_adapters import Manager, folder, known, request  # noqa: E402, F401
from vllm.config.lora import LoRAConfig  # noqa: E402

from larder.vllm import adapter_folders, adapters, loaded_adapters  # noqa: E402
from larder.vllm.adapter_files import files_of  # noqa: E402
from larder.vllm.adapters import Adapters, NotYet, Unserved  # noqa: E402

A_STEP_S = 0.05  # no hook takes so long, on a machine that may be busy
SECONDS = 20


@pytest.fixture
def hanging(tmp_path):
    path = tmp_path / "mount"
    path.mkdir()
    try:
        mount = HangingMount(path)
    except CannotMount as reason:
        pytest.skip(str(reason))
    yield path, mount
    mount.end()
    wait_for(lambda: not adapters._readers.running and not adapter_folders._looks.running)


def wait_for(condition):
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def timed(call, *arguments):
    """(the result or the exception, seconds)."""
    begin = time.monotonic()
    try:
        answer = call(*arguments)
    except (NotYet, Unserved) as error:
        answer = error
    return answer, time.monotonic() - begin


# covers F-091
def test_the_scheduler_waits_for_no_mount(hanging, folder):
    path, mount = hanging
    known_adapters, asked = Adapters(LoRAConfig()), request(path, 2, "hanging")
    answer, took_s = timed(known_adapters.line, asked)
    assert isinstance(answer, NotYet) and took_s < A_STEP_S
    time.sleep(adapters.READ_WAIT_S)
    answer, took_s = timed(known_adapters.line, asked)
    assert "still being read" in str(answer) and took_s < A_STEP_S
    assert known(known_adapters, request(folder)), "another adapter"
    mount.end()
    wait_for(lambda: "cannot be read" in str(timed(known_adapters.line, asked)[0]))


# covers F-091
def test_a_worker_waits_for_no_mount(hanging, folder):
    path, _ = hanging
    held = loaded_adapters.LoadedAdapters()
    there = [
        file._replace(path=f"{path}/{os.path.basename(file.path)}") for file in files_of(folder)
    ]
    answer, took_s = timed(held.matches, 7, tuple(there))
    assert answer is None and took_s < A_STEP_S


# covers F-091
def test_vllms_load_is_held_up_for_a_moment(hanging, monkeypatch):
    """vLLM itself would hang here. A folder that hangs before the load and answers in the load
    gives the adapter no name."""
    path, mount = hanging
    monkeypatch.setattr(loaded_adapters, "LOOK_WAIT_S", 0.05)
    held, manager = loaded_adapters.LoadedAdapters(), Manager()
    _, took_s = timed(
        loaded_adapters._noted(lambda self, asked: mount.end()), manager, request(path, 7)
    )
    assert took_s < SECONDS and held.take_news() == {7: ()}
