"""An engine on the fake CUDA driver falls asleep by our backend and wakes up. The KV memory goes
during a requested copy, and other memory has its addresses then. A copy that touches missing memory
is CUDA's error 700 there too, for good."""

import sys
import time

import pytest

pytest.importorskip("vllm")

from device_fakes import PAGE_BYTES, PAGES, Engine, FakeDevice, larderd, run_on_device  # noqa: E402, F401

SLOW_MS = 300  # a copy


# covers F-026
def test_an_engine_sleeps_while_copies_are_asked_for_and_loads_the_same_bytes_when_it_has_woken_up(
    larderd,
):
    run_on_device(__file__, larderd)
    assert larderd.metrics()["larder_checksum_failures_total"] == 0


class ByHand:
    """vLLM's allocator over the fake driver: the KV memory alone."""

    def __init__(self, device, pages):
        self.device, self.pages = device, pages

    def sleep(self, offload_tags):
        self.device.unmap_by_hand(self.pages)

    def wake_up(self, tags=None):
        self.device.map_again(self.pages, False)


def main(driver, socket):
    from vllm import device_allocator

    from larder.vllm import sleep_mode
    from larder.vllm.messages import StepWork
    from larder.vllm.sleep_backend import LarderSleepBackend

    device = FakeDevice(driver)
    pages = device.map_by_hand(PAGES * PAGE_BYTES, False)
    content = device.fill(pages)
    engine = Engine(socket, pages)
    half = engine.half
    sleep_mode.on_pages(half)
    device_allocator.get_mem_allocator_instance = lambda: ByHand(device, pages)
    backend = LarderSleepBackend()

    engine.store_to_the_end(1, 0)

    device.delay_ms(SLOW_MS, None)
    half.bind_connector_metadata(StepWork(loads=[engine.move(8)]))
    began = time.monotonic()
    backend.suspend(1)  # behind the load
    assert time.monotonic() - began > SLOW_MS / 2e3, "the test must make the copy wait"
    assert engine.failed() == set(), "the copy had ended when the memory went"
    device.delay_ms(0, None)

    engine.store(2, 0)
    half.bind_connector_metadata(StepWork(loads=[engine.move(12)]))
    assert engine.failed() == {"r"}, "the engine computes the prompt"
    assert half.off is None and half.report().ended == {2: 1}

    backend.resume()
    assert device.blocks(pages).raw != content, "other memory"
    half.bind_connector_metadata(StepWork(loads=[engine.move(16)]))
    assert engine.failed() == set()
    assert device.blocks(pages, 16).raw == content
    assert half.off is None
    engine.client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
