"""make bench-peer-field: reads of chunks of 2 MiB from a peer's memory. Against Mooncake, UCX and
NIXL over TCP, on the loopback of a network namespace.

The arms take turns. larder: `peer_bench --arm`, a PeerTier and a PeerServer in two processes.
mooncake: one batch_get_into of the wheel's client from a real pool. nixl: one READ of all objects
(peer_nixl_arm.py). ucx: ucx_perftest's ucp_get, which verifies no bytes; the other arms verify all.
Environment: PEER_ROUNDS (11)."""

from __future__ import annotations

import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

from harness import goals
from harness.bench import Void
from harness.bench import run as run_bench
from harness.mooncake import MASTER, MooncakePool, programs
from harness.plugin_environment import programs as environment
from plugin_arm import ROOT, ChildArm

ROUNDS = int(os.environ.get("PEER_ROUNDS", "11"))
COUNT, SIZE = 16, (2 << 20) + 4096  # a slot: payload and digests
REPORT = pathlib.Path("build/bench/peer-field.json")
UCX_PORT = 13337
UCX_ENV = ["env", "UCX_TLS=tcp", "UCX_NET_DEVICES=lo"]
LEAST = {"mooncake": 2, "ucx": 3, "nixl": 4}


class UcxArm:
    """A server and a client for each call."""

    def __init__(self, enter: list[str]):
        library = environment("field", "python").parent / "lib"
        folder = next(library.glob("python3*/site-packages/libucx"))
        libraries = f"LD_LIBRARY_PATH={folder / 'lib'}"
        self._command = [*enter, *UCX_ENV, libraries, str(folder / "bin" / "ucx_perftest")]
        self._command += ["-p", str(UCX_PORT)]

    def call(self, what: str, number: int) -> float:
        with subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as server:
            time.sleep(0.5)
            test = ["127.0.0.1", "-t", "ucp_get", "-s", str(SIZE), "-n", str(4 * COUNT), "-w", "4"]
            command = [*self._command, *test]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            server.kill()
        final = re.search(r"^Final:.*$", done.stdout, re.MULTILINE)
        if final is None:
            raise Void(f"ucx_perftest: {(done.stderr or done.stdout).strip()[-200:]}")
        # iterations, latencies in us (percentile, average, overall), MB/s (average, overall), rates
        mib_s = float(final[0].split()[6])
        return COUNT * SIZE / (mib_s * (1 << 20))


def measure(folder: pathlib.Path) -> tuple[list[dict], list[dict]]:
    bench = ROOT / "build" / "release" / "bin" / "peer_bench"
    sizes = [str(COUNT), str(SIZE)]
    with MooncakePool(folder) as pool:
        wheel = [str(programs() / "python"), str(ROOT / "tests/bench/mooncake_wheel_arm.py")]
        nixl = [str(environment("field", "python") / "python")]
        nixl += [str(ROOT / "tests/bench/peer_nixl_arm.py")]
        arms = {
            "larder": ChildArm([*pool.enter, str(bench), "--arm"]),
            "mooncake": ChildArm([*pool.enter, *wheel, MASTER, *sizes]),
            "ucx": UcxArm(pool.enter),
            "nixl": ChildArm([*pool.enter, *UCX_ENV, *nixl, *sizes]),
        }
        arms["mooncake"].call("put", 0)
        times: dict[str, list[float]] = {name: [] for name in arms}
        for number in range(ROUNDS + 1):
            for name, arm in arms.items():
                seconds = arm.call("get", 0)
                if number:  # the first round touches memory and opens connections
                    times[name].append(seconds)
        for arm in arms.values():
            if isinstance(arm, ChildArm):
                arm.stop()
    rows, found = [], []
    for name, taken in times.items():
        rate = COUNT * SIZE / statistics.median(taken) / 1e9
        rows.append({"arm": name, "gigabytes_s": round(rate, 3)})
        print(f"  {COUNT} reads of 2 MiB, {name:<8} {rate:6.2f} GB/s")
        if name in LEAST:
            factor = statistics.median(b / a for a, b in zip(times["larder"], taken, strict=True))
            found.append(goals.goal(f"peer.get_2m_vs_{name}", factor, ">=", LEAST[name]))
    return rows, found


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows, found = measure(pathlib.Path(folder))
    goals.conclude(REPORT, "peer-field", rows, found, started)
    return 0


if __name__ == "__main__":
    run_bench("bench-peer-field", main)
