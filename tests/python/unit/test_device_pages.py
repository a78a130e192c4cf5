"""The worker's half over pages of the fake CUDA driver (tests/cuda/fake_driver), a real library and a real larderd: no GPU, and nothing is proved
about one. What a CUDA error does to the engine is: nothing."""

import ctypes
import os
import subprocess
import sys
import time
from array import array
from pathlib import Path

import pytest

pytest.importorskip("vllm")

PAGES, PAGE_BYTES, BLOCKS = 32, 4096, 4
ILLEGAL_ADDRESS = 700  # CUDA_ERROR_ILLEGAL_ADDRESS, after which nothing of the context works


@pytest.fixture
def larderd(tmp_path):
    from harness.larderd import Larderd

    binary = Path(os.environ["LARDER_TEST_BIN"]) / "larderd"
    with Larderd(binary, tmp_path, f"larder-device-{os.getpid()}", "16MiB") as larderd:
        larderd.wait_ready()
        larderd.wait_touched()
        yield larderd


def test_a_cuda_error_turns_the_cache_off_and_leaves_the_engine_alone(larderd):
    """In a process of its own, which has "loaded CUDA" for good."""
    driver = Path(os.environ["LARDER_TEST_BIN"]).parent / "lib" / "fake_cuda" / "libcuda.so.1"
    if not driver.exists():
        pytest.skip(f"{driver} is not built")
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, __file__, str(driver), larderd.socket],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert larderd.metrics()["larder_checksum_failures_total"] == 0, "no chunk is called bad for it"


class FakeDevice:
    """Memory that only the fake driver's copies and kernels can reach."""

    def __init__(self, driver):
        self._driver = ctypes.CDLL(driver, mode=ctypes.RTLD_GLOBAL)
        self._allocate = self._driver["_ZN6larder9fake_cuda8allocateEmb"]
        self._view = self._driver["_ZN6larder9fake_cuda4viewEPKv"]
        self._fail = self._driver["_ZN6larder9fake_cuda4failEPKciibi"]
        self._allocate.restype = self._view.restype = ctypes.c_void_p
        self._allocate.argtypes, self._view.argtypes = [ctypes.c_size_t, ctypes.c_bool], [ctypes.c_void_p]
        self._fail.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_bool, ctypes.c_int]

    def allocate(self, size):
        return self._allocate(size, False)

    def seen(self, address, size):
        return (ctypes.c_char * size).from_address(self._view(address))

    def fail_next_copy(self):
        """By whichever way was measured to be the faster."""
        for work in (b"kernel", b"copy"):
            self._fail(work, 1, ILLEGAL_ADDRESS, True, 1)


def main(driver, socket):
    from fakes import setup

    from larder.client import Client
    from larder.vllm.messages import Move, Part, StepWork
    from larder.vllm.worker import WorkerHalf

    device = FakeDevice(driver)
    pages = device.allocate(PAGES * PAGE_BYTES)
    content = os.urandom(BLOCKS * PAGE_BYTES)
    device.seen(pages, len(content)).raw = content
    client = Client(socket, "python on a fake device")
    client.set_namespace("engine: test\n", "m", 128, [(PAGE_BYTES, 1, BLOCKS)])
    half = WorkerHalf(setup(), client)
    client.register_pages(0, [(pages, PAGE_BYTES, PAGE_BYTES, PAGES)])
    half._stream = lambda: None  # the default one
    assert client.wait_attached(60_000)
    key = bytes(range(32))

    def move(first):
        return Move("r", [Part(0, key, array("I", range(first, first + BLOCKS)).tobytes())])

    def until(true):
        deadline = time.monotonic() + 60
        while not true():
            assert time.monotonic() < deadline, (half.off, list(iter(client.next_log, None)))
            time.sleep(0.01)

    def stored():
        half.transfer_results()
        report = half.report()
        return report is not None and report.ended == {1: 1}

    def failed():
        """Whose load has failed, once it has ended."""
        results = []
        until(lambda: results.append(half.transfer_results()) or results[-1][0])
        return results[-1][1]

    half.bind(StepWork(number=1, stores=[move(0)], computes=True))
    half.wait_for_save()
    until(stored)
    until(lambda: client.lookup(key, 32) == 1)
    half.bind(StepWork(loads=[move(8)]))
    assert failed() == set()
    assert device.seen(pages + 8 * PAGE_BYTES, len(content)).raw == content

    device.fail_next_copy()
    half.bind(StepWork(loads=[move(12)]))
    assert failed() == {"r"}, "it is computed"
    half.bind(StepWork(number=2, stores=[move(0)], computes=True))
    half.wait_for_save()
    assert "copies from and to the GPU have ended" in half.off
    half.bind(StepWork(loads=[move(12)], kept=("r",)))
    assert half.transfer_results() == ({"r"}, {"r"}) and half.free_requests() == {"r"}
    report = half.report()
    assert report.disabled == half.off and report.ended == {2: 1}
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
