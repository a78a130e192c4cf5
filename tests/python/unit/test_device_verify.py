"""liblarder_test.so takes a slot's bytes without verification on request of a test, on a device
too. Without this, the controls of tests/python/models have no meaning on a GPU."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm")

from device_fakes import BLOCKS, KEY, PAGE_BYTES, PAGES, Engine, FakeDevice, larderd, run_on_device  # noqa: E402, F401


def test_a_zeroed_slot_is_refused_until_a_test_wants_it_believed(larderd, tmp_path, monkeypatch):
    monkeypatch.setenv(
        "LARDER_LIBRARY", str(Path(os.environ["LARDER_LIBRARY"]).with_name("liblarder_test.so"))
    )
    monkeypatch.setenv("LARDER_TEST_SKIP_VERIFY", str(tmp_path / "unverified"))
    monkeypatch.setenv("ARENA", f"/dev/shm/{larderd.shm_name}.arena")
    run_on_device(__file__, larderd)
    assert larderd.metrics()["larder_checksum_failures_total"] == 1


def main(driver, socket):
    from larder.vllm.messages import StepWork

    device = FakeDevice(driver)
    pages = device.allocate(PAGES * PAGE_BYTES, False)
    content = device.fill(pages)
    engine = Engine(socket, pages)

    def loaded(first):
        """Whether the load failed."""
        engine.half.bind_connector_metadata(StepWork(loads=[engine.move(first)]))
        return engine.failed()

    def zero():
        arena = Path(os.environ["ARENA"])
        with arena.open("r+b") as file:
            file.write(bytes(arena.stat().st_size))

    engine.store_to_the_end(1, 0)
    assert loaded(8) == set() and device.blocks(pages, 8).raw == content
    zero()
    assert loaded(12) == {"r"}, "verified"
    engine.until(lambda: engine.client.lookup(KEY, 32) == 0)  # larderd has dropped the chunk
    engine.store_to_the_end(2, 0)
    zero()
    Path(os.environ["LARDER_TEST_SKIP_VERIFY"]).touch()
    assert loaded(16) == set() and device.blocks(pages, 16).raw == bytes(BLOCKS * PAGE_BYTES)
    engine.client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
