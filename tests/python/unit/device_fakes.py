"""The worker's half over pages of the fake CUDA driver (tests/cuda/fake_driver), a real library and
a real larderd: shared code of its tests. Each test runs in a process of its own, which has "loaded
CUDA" for good."""

import ctypes
import os
import subprocess
import sys
import time
from array import array
from pathlib import Path

import pytest

PAGES, PAGE_BYTES, BLOCKS = 32, 4096, 4
KEY = bytes(range(32))


@pytest.fixture
def larderd(tmp_path):
    from harness.larderd import Larderd

    binary = Path(os.environ["LARDER_TEST_BIN"]) / "larderd"
    with Larderd(binary, tmp_path, f"larder-device-{os.getpid()}", "16MiB") as larderd:
        larderd.wait_ready()
        larderd.wait_touched()
        yield larderd


def run_on_device(file, larderd):
    """`file` DRIVER SOCKET, which must end well."""
    driver = Path(os.environ["LARDER_TEST_BIN"]).parent / "lib" / "fake_cuda" / "libcuda.so.1"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, file, str(driver), larderd.socket],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout[-4000:]


class FakeDevice:
    """Memory that only the fake driver's copies and kernels can reach."""

    def __init__(self, driver):
        self._driver = ctypes.CDLL(driver, mode=ctypes.RTLD_GLOBAL)
        self._allocate = self._function(
            "allocateEmbi", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_bool, ctypes.c_int
        )
        self.map_by_hand = self._function(
            "map_by_handEmb", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_bool, name_bytes=11
        )
        self.unmap_by_hand = self._function(
            "unmap_by_handEPSt4byte", None, ctypes.c_void_p, name_bytes=13
        )
        self.map_again = self._function(
            "map_againEPSt4byteb", None, ctypes.c_void_p, ctypes.c_bool, name_bytes=9
        )
        self.delay_ms = self._function(
            "delay_msEiPKc", None, ctypes.c_int, ctypes.c_char_p, name_bytes=8
        )
        self._view = self._function("viewEPKv", ctypes.c_void_p, ctypes.c_void_p, name_bytes=4)
        self.fail = self._function(
            "failEPKciibi",
            None,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_bool,
            ctypes.c_int,
            name_bytes=4,
        )

    def allocate(self, size, without_context, device=0):
        return self._allocate(size, without_context, device)

    def _function(self, mangled, result, *arguments, name_bytes=8):
        function = self._driver[f"_ZN6larder9fake_cuda{name_bytes}{mangled}"]
        function.restype, function.argtypes = result, list(arguments)
        return function

    def blocks(self, pages, first=0):
        """The content of BLOCKS pages from the `first` on: `.raw` reads and writes the bytes."""
        return (ctypes.c_char * (BLOCKS * PAGE_BYTES)).from_address(
            self._view(pages + first * PAGE_BYTES)
        )

    def fill(self, pages):
        """Unique bytes on the first blocks."""
        content = os.urandom(BLOCKS * PAGE_BYTES)
        self.blocks(pages).raw = content
        return content


class Engine:
    """A client and the worker's half over `pages`, an address on the device."""

    def __init__(self, socket, pages):
        from fakes import setup

        from larder.client import Client
        from larder.vllm.messages import StepWork
        from larder.vllm.worker import LarderConnectorWorker

        self.client = Client(socket, "python on a fake device")
        self.client.set_namespace("engine: test\n", "m", 128, [(PAGE_BYTES, 1, BLOCKS)])
        self.half = LarderConnectorWorker(setup(v2_runner=True), self.client)
        self.half.bind_connector_metadata(StepWork(namespace="engine: test\n"))
        self.client.register_pages(0, [(pages, PAGE_BYTES, PAGE_BYTES, PAGES)])
        self.half._stream = lambda: None  # the default one
        assert self.client.wait_attached(60_000)

    @staticmethod
    def move(first):
        from larder.vllm.messages import Move, Part

        return Move("r", [Part(0, KEY, array("I", range(first, first + BLOCKS)).tobytes())])

    def until(self, true):
        deadline = time.monotonic() + 60
        while not true():
            assert time.monotonic() < deadline, (
                self.half.off,
                list(iter(self.client.next_log, None)),
            )
            time.sleep(0.01)

    def store(self, number, first):
        """Begins the load, and its copies."""
        from larder.vllm.messages import StepWork

        self.half.bind_connector_metadata(
            StepWork(number=number, stores=[self.move(first)], computes=True)
        )
        self.half.wait_for_save()

    def store_to_the_end(self, number, first):
        """And larderd has the chunks."""
        self.store(number, first)
        self.until(lambda: self.ended() == {number: 1})
        self.until(lambda: self.client.lookup(KEY, 32) == 1)

    def ended(self):
        """{number of a step: 1} of stores that have, since the last call."""
        self.half.get_transfer_results()
        report = self.half.report()
        return report.ended if report is not None else {}

    def failed(self):
        """The requests with failed loads, after the end of the loads."""
        results = []
        self.until(lambda: results.append(self.half.get_transfer_results()) or results[-1][0])
        return results[-1][1]
