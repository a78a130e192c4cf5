"""make bench-weights: the identity of a model's weights against a loop that reads and hashes the
same files.

Larder's arm is the code of an engine: a WeightsReader, from start() to the identity, without a
memo. The loop is read_and_hash.cc, compiled for AVX2 on x86-64; the start of its process is not
counted. Both read 2 GiB in four files, on one thread, in turns. From the page cache the processor
time counts, which other work of the machine does not change; from the disk the clock counts. The
pages are dropped before each turn of the disk. A row counts if both arms have the same digest of
each file, and if the identity is the same in every round. The last row is a second start, with a
memo. Environment: WEIGHTS_ROUNDS (9), WEIGHTS_MIB (2048).
"""

from __future__ import annotations

import os
import pathlib
import shutil
import statistics
import subprocess
import time

from harness import goals
from harness.bench import Void
from harness.bench import run as run_bench
from larder import weights, weights_memo
from larder.weights import Source, WeightsReader

BUILD = pathlib.Path("build/bench")
FOLDER = BUILD / "weights"
LOOP = os.environ["READ_AND_HASH"]
ROUNDS = int(os.environ.get("WEIGHTS_ROUNDS", "9"))
MIB = int(os.environ.get("WEIGHTS_MIB", "2048"))
FILES = 4
LIMIT_S = 600


def make_files() -> list[pathlib.Path]:
    """Random bytes, written out to the disk so that their pages can be dropped."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    paths = [FOLDER / f"model-{number}.safetensors" for number in range(FILES)]
    for path in paths:
        with open(path, "wb") as file:
            for _ in range(MIB // FILES):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    return paths


def drop_pages(paths: list[pathlib.Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def by_larder(memo: str | None = None) -> tuple[float, float, str]:
    """(seconds, processor seconds, identity)."""
    reader = WeightsReader(Source(str(FOLDER)), memo_path=memo)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    reader.start()
    while (line := reader.poll()) is None:
        if time.perf_counter() - begin > LIMIT_S:
            raise Void(f"no identity within {LIMIT_S} s")
        time.sleep(0.001)
    return time.perf_counter() - begin, time.process_time() - begin_cpu, line


def by_loop(paths: list[pathlib.Path]) -> tuple[float, float, dict[str, str]]:
    """(seconds, processor seconds, {path: digest})."""
    done = subprocess.run(
        [LOOP, *paths], check=True, capture_output=True, text=True, timeout=LIMIT_S
    )
    *files, seconds = done.stdout.splitlines()
    wall, processor = map(float, seconds.split())
    return (
        wall,
        processor,
        {path: digest for digest, path in (line.split(" ", 1) for line in files)},
    )


def verify(paths: list[pathlib.Path]) -> None:
    *_, digests = by_loop(paths)
    for path in paths:
        if weights.hash_file(str(path)).digest != digests[str(path)]:
            raise Void(f"the digests of {path} differ")


def row(place: str, paths: list[pathlib.Path], before_each) -> dict:
    larder, loop = [], []
    for number in range(ROUNDS):
        for arm in (0, 1) if number % 2 else (1, 0):
            before_each()
            (loop if arm else larder).append(by_loop(paths) if arm else by_larder())
    if len({line for *_, line in larder}) != 1:
        raise Void("the same files have several identities")
    found = {"place": place}
    for column, name in enumerate(("wall", "processor")):
        ones, others = [one[column] for one in larder], [one[column] for one in loop]
        found[f"larder_{name}_gb_per_s"] = MIB * (1 << 20) / 1e9 / statistics.median(ones)
        found[f"loop_{name}_gb_per_s"] = MIB * (1 << 20) / 1e9 / statistics.median(others)
        found[f"{name}_ratio"] = statistics.median(other / one for one, other in zip(ones, others))
        print(
            f"  {place:<11} {name:<10} larder {found[f'larder_{name}_gb_per_s']:6.2f} GB/s   "
            f"loop {found[f'loop_{name}_gb_per_s']:6.2f} GB/s   ratio {found[f'{name}_ratio']:5.3f}"
        )
    return found


def remembered() -> dict:
    """A second start finds all in the memo."""
    memo = str(FOLDER) + ".memo"
    pathlib.Path(memo).unlink(missing_ok=True)
    weights_memo._SETTLED_S = 0  # the files were written just now
    *_, first = by_larder(memo)
    seconds, _, second = by_larder(memo)
    if first != second:
        raise Void("the memo gives another identity")
    print(f"  {'memo':<11} {'wall':<10} larder {seconds * 1e3:6.2f} ms")
    return {"place": "memo", "larder_ms": seconds * 1e3}


def main() -> int:
    started = time.monotonic()
    print(f"bench-weights: {MIB} MiB in {FILES} files, {ROUNDS} rounds; {goals.machine()}")
    try:
        paths = make_files()
        verify(paths)
        rows = [
            row("page cache", paths, lambda: None),
            row("disk", paths, lambda: drop_pages(paths)),
            remembered(),
        ]
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    figures = [
        goals.goal("weights.vs_read_and_hash", rows[0]["processor_ratio"], ">=", 0.8),
        goals.goal("weights.vs_read_and_hash_disk", rows[1]["wall_ratio"], ">=", 0.8),
        goals.figure("weights.second_start_ms", rows[2]["larder_ms"]),
    ]
    goals.conclude(BUILD / "weights.json", "weights", rows, figures, started)
    return 0


if __name__ == "__main__":
    run_bench("bench-weights", main)
