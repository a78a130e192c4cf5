"""make bench-infinistore: larder-infinistore against the bare protocol, on one real server.

The server runs in a network namespace. Both arms (plugin_arm.py) move 64 objects of 2 MiB and one
page, in turns; each round writes new objects. The bare arm has one request at a time, as
the server's own client, and no records. A row counts if all bytes are right. Then three
plug-ins put, get and remove the same eight chunks: the server must live on. Environment:
INFINISTORE_ROUNDS (15), INFINISTORE_CALLS (10000)."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import time

from harness import goals
from harness.bench import Void
from harness.bench import run as run_bench
from harness.infinistore import PLACE, URL, InfiniStore
from plugin_arm import COUNT, ROOT, SIZE, ChildArm, PluginArm, probes, rates, rounds_of

from infinistore_load import run_load  # behind plugin_arm, which adds the folder of the tests

ROUNDS = int(os.environ.get("INFINISTORE_ROUNDS", "15"))
CALLS = int(os.environ.get("INFINISTORE_CALLS", "10000"))
REPORT = pathlib.Path("build/bench/infinistore.json")


def measure(folder: pathlib.Path) -> tuple[list[dict], list[dict]]:
    with InfiniStore(folder, gib=2) as store:
        arm = ROOT / "tests" / "bench" / "infinistore_bare_loop.py"
        place = PLACE.split(":")
        command = [sys.executable, str(arm), *place, str(COUNT), str(SIZE)]
        bare, plugin = ChildArm([*store.enter, *command]), PluginArm(folder, URL)
        with store.start_plugin(plugin.larderd.path):
            plugin.larderd.accept()
            plugin.larderd.wait_state(True)
            times = rounds_of(bare, plugin, ROUNDS, ("put", "get"))
        bare.stop()
        rows, ratios = rates(times)
        looks, trips = probes(store, folder, "infinistore", PLACE)
        load = run_load(store, folder, URL, CALLS)
        crashed = store.server.child.poll() is not None
    print(f"  {load['puts']} puts, {load['gets']} gets ({load['hits']} hits) of the same chunks")
    if load["wrong"]:
        raise Void(f"{load['wrong']} wrong objects")
    rows += [*looks, {"call": "concurrent", **load}]
    found = [
        goals.goal("infinistore.get_vs_bare", ratios["get"], ">=", 0.95),
        goals.figure("infinistore.put_vs_bare", ratios["put"]),
        *[goals.goal(f"infinistore.rtts_{c}", trips[c], "<=", 2) for c in trips],
        goals.goal("infinistore.server_crashes", float(crashed), "<=", 0),
    ]
    return rows, found


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows, found = measure(pathlib.Path(folder))
    goals.conclude(REPORT, "infinistore", rows, found, started)
    return 0


if __name__ == "__main__":
    run_bench("bench-infinistore", main)
