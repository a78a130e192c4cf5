"""make bench-mooncake: larder-mooncake against the wheel's own batch calls, on one real pool.

A master and two members run in a network namespace. Both arms (plugin_arm.py) move 64 objects of
2 MiB and one page in one call, in turns, from and to shared memory of their own; each round writes
new objects. A row counts if all bytes are right. Environment: MOONCAKE_ROUNDS (15)."""

from __future__ import annotations

import os
import pathlib
import tempfile
import time

from harness import goals
from harness.bench import run as run_bench
from harness.mooncake import MASTER, URL, MooncakePool, programs
from plugin_arm import COUNT, ROOT, SIZE, ChildArm, PluginArm, probes, rates, rounds_of

ROUNDS = int(os.environ.get("MOONCAKE_ROUNDS", "15"))
REPORT = pathlib.Path("build/bench/mooncake.json")


def measure(folder: pathlib.Path) -> tuple[list[dict], list[dict]]:
    with MooncakePool(folder) as pool:
        arm = ROOT / "tests" / "bench" / "mooncake_wheel_arm.py"
        command = [str(programs() / "python"), str(arm), MASTER, str(COUNT), str(SIZE)]
        wheel, plugin = ChildArm([*pool.enter, *command]), PluginArm(folder, URL)
        with pool.start_plugin(plugin.larderd.path):
            plugin.larderd.accept()
            plugin.larderd.wait_state(True)
            times = rounds_of(wheel, plugin, ROUNDS, ("put", "get", "remove"))
        wheel.stop()
        rows, ratios = rates(times)
        looks, trips = probes(pool, folder, "mooncake", MASTER)
    found = [goals.goal(f"mooncake.{c}_vs_wheel", ratios[c], ">=", 0.95) for c in ratios]
    found += [goals.goal(f"mooncake.rtts_{c}", trips[c], "<=", 2) for c in trips]
    return rows + looks, found


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows, found = measure(pathlib.Path(folder))
    goals.conclude(REPORT, "mooncake", rows, found, started)
    return 0


if __name__ == "__main__":
    run_bench("bench-mooncake", main)
