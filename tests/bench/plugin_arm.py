"""A plug-in beside the bare way to its service, for mooncake_bench.py and infinistore_bench.py.

ChildArm is a program that does the same calls without the plug-in. PluginArm is larderd's end of
the plug-in's socket (tests/python/plugins/larderd_side.py): a packet of all entries until the last
DONE. larderd's copy between region and arena is not in it. A wrong byte voids the run."""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "python" / "plugins"))

from harness.bench import Void  # noqa: E402
from larderd_side import OK, LarderdSide, key  # noqa: E402

COUNT, SIZE = 64, (2 << 20) + 4096
DELAY_S = 0.02  # one way, by the proxy of probes()
PROXY_PORT = 50052


class ChildArm:
    """The command reads lines `put PREFIX`, `get PREFIX` and answers with seconds."""

    def __init__(self, command: list[str]):
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._line()

    def call(self, what: str, number: int) -> float:
        self._child.stdin.write(f"{what} bare{number}\n")
        self._child.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        line = self._child.stdout.readline().strip()
        if not line:
            raise Void("the bare arm has ended: a wrong result or wrong bytes")
        return line

    def stop(self) -> None:
        self._child.stdin.close()
        self._child.wait(20)


class PluginArm:
    def __init__(self, folder: pathlib.Path, url: str):
        self.larderd = LarderdSide(folder / "plugin.sock", url, COUNT * SIZE)
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


def rounds_of(bare: ChildArm, plugin: PluginArm, rounds: int, calls) -> dict[str, list[float]]:
    """{"put bare": [seconds of each round], ...}. The order of the arms turns with each round."""
    times: dict[str, list[float]] = {}
    arms = [("bare", bare), ("plug-in", plugin)]
    for number in range(rounds + 1):
        for what in calls:
            for name, arm in arms:
                seconds = arm.call(what, number)
                if number:  # the first round touches memory and opens connections
                    times.setdefault(f"{what} {name}", []).append(seconds)
        arms.reverse()
    return times


def rates(times: dict[str, list[float]]) -> tuple[list[dict], dict[str, float]]:
    """The rows of put and get, and {"put": plug-in over bare, ...}."""
    rows, ratios = [], {}
    for what in ("put", "get"):
        for name in ("bare", "plug-in"):
            rate = COUNT * SIZE / statistics.median(times[f"{what} {name}"]) / 1e9
            rows.append({"call": what, "arm": name, "gigabytes_s": round(rate, 3)})
            print(f"  {what} of {COUNT}, {name:<8} {rate:6.2f} GB/s")
        pairs = zip(times[f"{what} bare"], times[f"{what} plug-in"], strict=True)
        ratios[what] = statistics.median(bare / ours for bare, ours in pairs)
    return rows, ratios


def probes(
    service, folder: pathlib.Path, scheme: str, place: str
) -> tuple[list[dict], dict[int, float]]:
    """The rows, and {keys: round trips}. A proxy before the service delays the probes: the added
    time over the delay gives their round trips."""
    found, rows, trips = {}, [], {}
    proxy = [sys.executable, str(ROOT / "tests" / "bench" / "delayed_proxy.py")]
    with service.run("proxy", [*proxy, str(PROXY_PORT), place, str(DELAY_S)]) as process:
        process.wait_until(lambda: service.listens(PROXY_PORT), 10)
        for name, at in (("near", place), ("far", f"127.0.0.1:{PROXY_PORT}")):
            (folder / name).mkdir()
            arm = PluginArm(folder / name, f"{scheme}://{at}")
            with service.start_plugin(arm.larderd.path):
                arm.larderd.accept()
                arm.larderd.wait_state(True)
                found[name] = [arm.probe(count) for count in (64, 1024)]
            arm.larderd.close()
    for count, near, far in zip((64, 1024), found["near"], found["far"], strict=True):
        rows.append({"call": "probe", "keys": count, "near_us": round(near * 1e6)})
        print(f"  probe of {count:>4} keys {near * 1e6:9.0f} us, far {far * 1e3:.1f} ms")
        trips[count] = (far - near) / (2 * DELAY_S)
    return rows, trips
