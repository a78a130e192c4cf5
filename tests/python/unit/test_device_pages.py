"""The worker's half over pages of the fake CUDA driver: no GPU, and no proof about a GPU. A CUDA
error does not disturb the engine."""

import ctypes
import sys

import pytest

pytest.importorskip("vllm")

from device_fakes import BLOCKS, PAGE_BYTES, PAGES, Engine, FakeDevice, larderd, run_on_device  # noqa: E402, F401

ILLEGAL_ADDRESS = 700  # CUDA_ERROR_ILLEGAL_ADDRESS, after which every call of the context fails


def test_a_cuda_error_turns_the_cache_off_and_leaves_the_engine_alone(larderd):
    run_on_device(__file__, larderd)
    assert larderd.metrics()["larder_checksum_failures_total"] == 0, "no chunk is reported as bad"


def why_mixed_pages_are_refused(socket, pages):
    """Of an engine with one layer on the device and one in host memory, in the words of its log."""
    from larder.client import Client, LarderError
    from larder.vllm import words

    host = ctypes.create_string_buffer(PAGES * PAGE_BYTES)
    with Client(socket, "mixed") as client:
        client.set_namespace("engine: test\n", "m", 128, [(PAGE_BYTES, 2, BLOCKS)])
        layers = [
            (address, PAGE_BYTES, PAGE_BYTES, PAGES) for address in (pages, ctypes.addressof(host))
        ]
        with pytest.raises(LarderError) as refused:
            client.register_pages(0, layers)
        return words.of_error(refused.value)


def main(driver, socket):
    from larder.vllm.messages import StepWork

    device = FakeDevice(driver)
    pages = device.allocate(PAGES * PAGE_BYTES, False)
    assert (
        why_mixed_pages_are_refused(socket, pages)
        == "KV pages must lie in host memory or on one CUDA device, all of them"
    )
    content = device.fill(pages)
    engine = Engine(socket, pages)
    half = engine.half

    engine.store_to_the_end(1, 0)
    half.bind_connector_metadata(StepWork(loads=[engine.move(8)]))
    assert engine.failed() == set()
    assert device.blocks(pages, 8).raw == content

    for work in (b"kernel", b"copy"):  # by whichever way was measured to be the faster
        device.fail(work, 1, ILLEGAL_ADDRESS, True, 1)
    half.bind_connector_metadata(StepWork(loads=[engine.move(12)]))
    assert engine.failed() == {"r"}, "the engine computes the request"
    engine.store(2, 0)
    assert "copies from and to the GPU have ended" in half.off
    half.bind_connector_metadata(StepWork(loads=[engine.move(12)], kept=("r",)))
    assert half.get_transfer_results() == ({"r"}, {"r"}) and half.free_requests() == {"r"}
    report = half.report()
    assert report.disabled == half.off and report.ended == {2: 1}
    engine.client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
