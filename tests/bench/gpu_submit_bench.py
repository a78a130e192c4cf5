"""make bench-gpu, submit, called like vLLM's connector: through Python and the C ABI. The library's
own cost is in gpu_bench.

The time is the engine's thread's, from larder_after_stream() to the ticket of larder_load(), for a
request alone. The load before has ended, and the copy threads sleep. Chunks of 576 pieces, as in an
8B-shaped model; the library verifies each load before its figure counts. Pages in host memory on
any machine, and on a GPU if there is one. Environment: LARDER_LIBRARY (libgpu_arms.so lies beside
the library), LARDERD, LARDER_COMMIT."""

from __future__ import annotations

import ctypes
import hashlib
import os
import pathlib
import random
import statistics
import time
from array import array
from contextlib import ExitStack

from gpu_arms import Arms, ArmsError, beside
from harness import goals
from harness.bench import Void
from harness.bench import run as run_bench
from harness.larderd import Larderd
from larder import Client

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build" / "bench"
LAYERS, BLOCKS, CHUNKS, PIECE_BYTES = 36, 16, 64, 4096
CHUNK_BYTES = LAYERS * BLOCKS * PIECE_BYTES
PAGE_BYTES = CHUNKS * CHUNK_BYTES
HASH_BYTES, HASHES = 32, b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(CHUNKS))
COUNTS = (1, 16, CHUNKS)
WARM_UPS, LOADS, PATIENCE_MS = 20, 200, 10_000
GOAL_US = 5
HOST = "host memory"


def client_of(socket: str, pages: int) -> Client:
    """Everything is stored from the pages; the content does not matter."""
    client = Client(socket, "bench submit", 2)
    client.set_namespace(
        "engine: bench submit\n", "bench", 16 * BLOCKS, [(PIECE_BYTES, LAYERS, BLOCKS)]
    )
    client.register_pages(
        0,
        [
            (pages + i * CHUNKS * BLOCKS * PIECE_BYTES, PIECE_BYTES, PIECE_BYTES, CHUNKS * BLOCKS)
            for i in range(LAYERS)
        ],
    )
    client.wait_attached(PATIENCE_MS)
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while client.lookup(HASHES, HASH_BYTES) < CHUNKS:
        if time.monotonic() > deadline:
            raise Void("not all chunks were stored")
        client.after_stream(None)
        client.store_begin(HASHES, HASH_BYTES, table(CHUNKS))
        client.store_finish(PATIENCE_MS)
        time.sleep(0.05)
    return client


def table(chunks: int) -> bytes:
    pages = list(range(CHUNKS * BLOCKS))
    random.Random(5).shuffle(pages)
    return array("I", pages[: chunks * BLOCKS]).tobytes()


def median_us(client: Client, chunks: int, loads: int) -> float:
    numbers, taken = array("I", table(chunks)), []
    for number in range(WARM_UPS + loads):
        # Newly made, as in the connector.
        hashes, pages = (
            b"".join(HASHES[i * HASH_BYTES : (i + 1) * HASH_BYTES] for i in range(chunks)),
            numbers.tobytes(),
        )
        begin = time.perf_counter()
        client.after_stream(None)
        client.load(hashes, HASH_BYTES, pages)
        seconds = time.perf_counter() - begin
        done = client.poll(PATIENCE_MS)
        if [one.ok for one in done] != [True]:
            raise Void(f"a load failed: {done}")
        if number >= WARM_UPS:
            taken.append(1e6 * seconds)
    return statistics.median(taken)


def measure(larderd: Larderd, where: str, pages: int, loads: int = LOADS) -> list[dict]:
    with client_of(larderd.socket, pages) as client:
        return [
            {
                "part": "submit",
                "pages": where,
                "pieces": chunks * LAYERS * BLOCKS,
                "submit_us": median_us(client, chunks, loads),
            }
            for chunks in COUNTS
        ]


def judge(rows: list[dict]) -> list[dict]:
    """The most pieces."""
    most = COUNTS[-1] * LAYERS * BLOCKS
    return [
        goals.goal(
            "gpu.submit_python_host_us" if row["pages"] == HOST else "gpu.submit_python_us",
            row["submit_us"],
            "<=",
            GOAL_US,
        )
        for row in rows
        if row.get("pieces") == most
    ]


def show(row: dict) -> str:
    if "not_measured" in row:
        return f"{row['pages']}: not measured: {row['not_measured']}"
    return f"pages in {row['pages']}, {row['pieces']:>6} pieces: {row['submit_us']:.1f} us"


def main() -> int:
    started, rows, host = time.monotonic(), [], ctypes.create_string_buffer(PAGE_BYTES)
    with (
        Larderd(
            os.environ["LARDERD"],
            BUILD / "gpu-submit",
            f"larder-bench-{os.getpid()}",
            f"{(2 * PAGE_BYTES) >> 20}MiB",
        ) as larderd,
        ExitStack() as memory,
    ):
        larderd.wait_ready()
        larderd.wait_touched()
        rows += measure(larderd, HOST, ctypes.addressof(host))
        try:
            arms = Arms(beside(os.environ["LARDER_LIBRARY"]))
            field = memory.enter_context(
                arms.field(PAGE_BYTES, PIECE_BYTES, CHUNK_BYTES, slots=False)
            )
            rows += measure(larderd, arms.device, field.pages)
        except ArmsError as error:
            rows.append({"part": "submit", "pages": "a GPU", "not_measured": str(error)})
    rows = [{**row, "commit": os.environ.get("LARDER_COMMIT", "")} for row in rows]
    for row in rows:
        print(f"  submit through Python, {show(row)}")
    goals.conclude(BUILD / "gpu_submit.json", "gpu_submit", rows, judge(rows), started)
    return 0


if __name__ == "__main__":
    run_bench("bench-gpu", main)
