"""Node: a real larderd, its plug-in and an engine's client."""

import os
from pathlib import Path

from engine_side import CHUNKS, EngineSide
from harness.larderd import Larderd
from plugin_program import wait_until


class Node:
    """`service`: has start_plugin(socket). Call stop()."""

    def __init__(self, service, url, folder, number):
        self.socket = folder / f"{number}.plugin"
        self.larderd = Larderd(
            Path(os.environ["LARDER_TEST_BIN"]) / "larderd",
            folder / str(number),
            f"larder-plugins-{os.getpid()}-{number}",
            "256MiB",
            f"backend:\n  url: {url}\n  plugin_socket: {self.socket}\n  prefix: test\n",
        )
        self.larderd.wait_ready()
        self.larderd.wait_touched()
        self.plugin = service.start_plugin(self.socket)
        wait_until(self.works)
        self.engine = EngineSide(self.larderd, f"engine {number}")

    def backend(self):
        return self.larderd.status()["backend"]

    def works(self):
        return self.backend()["takes_gets"]

    def wait_written(self, chunks):
        wait_until(lambda: self.backend()["puts"]["ok"] >= chunks)

    def stop(self):
        self.engine.client.close()
        self.plugin.stop(3)
        self.larderd.stop()


def two_nodes(service, url, folder):
    """For a fixture."""
    nodes = [Node(service, url, folder, number) for number in (1, 2)]
    yield nodes
    for node in nodes:
        node.stop()


def check_sharing(nodes):
    """One node stores, and the other loads."""
    first, second = nodes
    assert second.engine.shared(1) == 0
    first.engine.store(1)
    first.wait_written(CHUNKS)
    assert second.engine.shared(1) == CHUNKS
    assert second.engine.fetch(1).chunks == CHUNKS
    assert second.backend()["gets"]["ok"] == CHUNKS
