"""make bench-mooncake: larder-mooncake against the wheel's own batch calls, on one real pool.

A master and two members run in a network namespace. Both arms move 64 objects of 2 MiB and one page
in one call, in turns, from and to shared memory of their own; each round writes new objects. The
arm `plug-in` is larderd's end of the socket (tests/python/plugins/larderd_side.py): a packet of 64
entries until the last DONE. larderd's copy between region and arena is not in it. A row counts if
all bytes are right. A proxy before the master delays the probes of the last rows. The added time
over the delay gives their round trips. Environment: MOONCAKE_ROUNDS (15)."""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "python" / "plugins"))

from harness import goals  # noqa: E402
from harness.bench import Void  # noqa: E402
from harness.bench import run as run_bench  # noqa: E402
from harness.mooncake import MASTER, URL, MooncakePool, programs  # noqa: E402
from larderd_side import OK, LarderdSide, key  # noqa: E402

ROUNDS = int(os.environ.get("MOONCAKE_ROUNDS", "15"))
COUNT, SIZE = 64, (2 << 20) + 4096
DELAY_S = 0.02  # one way
PROXY_PORT = 50052
REPORT = pathlib.Path("build/bench/mooncake.json")


class WheelArm:
    def __init__(self, pool: MooncakePool):
        arm = ROOT / "tests" / "bench" / "mooncake_wheel_arm.py"
        self._child = subprocess.Popen(
            [*pool.enter, str(programs() / "python"), str(arm), MASTER, str(COUNT), str(SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._line()

    def call(self, what: str, number: int) -> float:
        self._child.stdin.write(f"{what} wheel{number}\n")
        self._child.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        line = self._child.stdout.readline().strip()
        if not line:
            raise Void("the wheel's arm has ended: a wrong result or wrong bytes")
        return line

    def stop(self) -> None:
        self._child.stdin.close()
        self._child.wait(20)


class PluginArm:
    def __init__(self, folder: pathlib.Path):
        self.larderd = LarderdSide(folder / "plugin.sock", URL, COUNT * SIZE)
        self._data = os.urandom(SIZE)

    def call(self, what: str, number: int) -> float:
        keys = [key(number * COUNT + at) for at in range(COUNT)]
        entries = [(name, at * SIZE, SIZE) for at, name in enumerate(keys)]
        content = self._data if what == "put" else bytes(SIZE)
        for at in range(COUNT):
            self.larderd.region[at * SIZE : (at + 1) * SIZE] = content
        begin = time.perf_counter()
        if what == "put":
            results = self.larderd.put(*entries)
        elif what == "get":
            results = [result for _, result in self.larderd.get(*entries)]
        else:
            results = self.larderd.remove(*keys)
        seconds = time.perf_counter() - begin
        if set(results) != {OK}:
            raise Void(f"{what}: results {sorted(set(results))}")
        if what == "get" and any(
            self.larderd.region[at * SIZE : (at + 1) * SIZE] != self._data for at in range(COUNT)
        ):
            raise Void("wrong bytes")
        return seconds

    def probe(self, count: int) -> float:
        """The middle of five."""
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            if self.larderd.exist([key(number) for number in range(count)])[0] != OK:
                raise Void("a probe failed")
            times.append(time.perf_counter() - begin)
        return statistics.median(times)


def rounds_of(wheel: WheelArm, plugin: PluginArm) -> dict[str, list[float]]:
    """{"put wheel": [seconds of each round], ...}. The order of the arms turns with each round."""
    times: dict[str, list[float]] = {}
    arms = [("wheel", wheel), ("plug-in", plugin)]
    for number in range(ROUNDS + 1):
        for what in ("put", "get", "remove"):
            for name, arm in arms:
                seconds = arm.call(what, number)
                if number:  # the first round touches memory and opens connections
                    times.setdefault(f"{what} {name}", []).append(seconds)
        arms.reverse()
    return times


def probes(pool: MooncakePool, folder: pathlib.Path) -> dict[int, tuple[float, float]]:
    """{keys: (seconds, seconds with the delay)}."""
    found = {}
    proxy = [sys.executable, str(ROOT / "tests" / "bench" / "delayed_proxy.py")]
    far = f"127.0.0.1:{PROXY_PORT}"
    with pool.run("proxy", [*proxy, str(PROXY_PORT), MASTER, str(DELAY_S)]) as process:
        process.wait_until(lambda: pool.listens(str(PROXY_PORT)), 10)
        for name, url in (("near", URL), ("far", f"mooncake://{far}")):
            arm = PluginArm(folder / name)
            arm.larderd.url = url
            with pool.start_plugin(arm.larderd.path):
                arm.larderd.accept()
                arm.larderd.wait_state(True)
                found[name] = [arm.probe(count) for count in (64, 1024)]
            arm.larderd.close()
    return {count: (found["near"][i], found["far"][i]) for i, count in enumerate((64, 1024))}


def measure(folder: pathlib.Path) -> tuple[list[dict], list[dict]]:
    for name in ("near", "far"):
        (folder / name).mkdir()
    with MooncakePool(folder) as pool:
        wheel, plugin = WheelArm(pool), PluginArm(folder)
        with pool.start_plugin(plugin.larderd.path):
            plugin.larderd.accept()
            plugin.larderd.wait_state(True)
            times = rounds_of(wheel, plugin)
        wheel.stop()
        looks = probes(pool, folder)
    rows, found = [], []
    for what in ("put", "get"):
        for name in ("wheel", "plug-in"):
            rate = COUNT * SIZE / statistics.median(times[f"{what} {name}"]) / 1e9
            rows.append({"call": what, "arm": name, "gigabytes_s": round(rate, 3)})
            print(f"  {what} of {COUNT} by the {name:<8} {rate:6.2f} GB/s")
        pairs = zip(times[f"{what} wheel"], times[f"{what} plug-in"], strict=True)
        ratio = statistics.median(wheel / ours for wheel, ours in pairs)
        found.append(goals.goal(f"mooncake.{what}_vs_wheel", ratio, ">=", 0.95))
    for count, (near, far) in looks.items():
        rows.append({"call": "probe", "keys": count, "near_us": round(near * 1e6)})
        print(f"  probe of {count:>4} keys {near * 1e6:9.0f} us, far {far * 1e3:.1f} ms")
        trips = (far - near) / (2 * DELAY_S)
        found.append(goals.goal(f"mooncake.rtts_{count}", trips, "<=", 2))
    return rows, found


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows, found = measure(pathlib.Path(folder))
    goals.conclude(REPORT, "mooncake", rows, found, started)
    return 0


if __name__ == "__main__":
    run_bench("bench-mooncake", main)
