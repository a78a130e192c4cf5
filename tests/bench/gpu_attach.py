"""G6: a larderd that copies itself (transfer: sidecar) and engines of other processes, over CUDA
IPC. Measures the time until larderd copies for an engine, and the memory opened for a copy (no
memory). Also the time until all memory of a killed engine is back.

Time to attach counts from the registration of an engine's pages. larderd registers its own memory
with the GPU meanwhile, in the background, and no engine waits for this. An engine's memory is
cudaMalloc()'s, named by legacy handles, and then memory mapped by hand, which the engine shares by
descriptors. The very first engine may wait for larderd's context too, which larderd makes at its
start. The first engine is judged by itself, by the times of cuInit and a context. All memory is
back when larderd's own status shows no session, no grant, no quarantined slot, no hold, and no open
memory. The time counts from the signal, and so includes the engine's end in the kernel."""

from __future__ import annotations

import pathlib
import statistics
import time
from dataclasses import dataclass

from engine_process import Died, EngineProcess
from gpu_arms import ArmsError
from harness import goals
from harness.bench import Void

ENGINE = pathlib.Path(__file__).with_name("gpu_attach_engine.py")
ATTACH_MS, BACK_MS = 50, 100
# for a larderd that has just started: cuInit takes half a second, and a context some 0.3 s more
FIRST_MS = 1000
BY_HANDLE, BY_DESCRIPTOR = "legacy handles", "descriptors"
PATIENCE_S = 60


@dataclass(frozen=True)
class Scale:
    layers: int = 32  # an allocation each
    page_bytes: int = 64 << 10
    chunk_blocks: int = 16
    chunks: int = 4
    attaches: int = 9
    rounds: int = 8  # of all chunks, stored and loaded
    kills: int = 5

    @property
    def bytes(self) -> int:
        return self.layers * self.page_bytes * self.chunk_blocks * self.chunks


class Engine:
    """An engine process with registered pages. A context manager."""

    def __init__(self, log: pathlib.Path, library: pathlib.Path, scale: Scale, by: str):
        options = {
            name: getattr(scale, name)
            for name in ("layers", "page_bytes", "chunk_blocks", "chunks")
        }
        self.process = EngineProcess(
            log, program=(str(ENGINE),), arms=str(library), by_hand=by == BY_DESCRIPTOR, **options
        )

    def __enter__(self):
        try:
            self._told(self.process.read)
        except Exception:
            self.process.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.__exit__()

    def ask(self, **what) -> dict:
        return self._told(lambda: self.process.ask(**what))

    @staticmethod
    def _told(ask) -> dict:
        try:
            told = ask()
        except Died as error:
            raise Void(str(error)) from None
        if "not_measured" in told:
            raise ArmsError(told["not_measured"])
        if "void" in told:
            raise Void(told["void"])
        return told


def measure(
    larderd, library: pathlib.Path, folder: pathlib.Path, scale: Scale = Scale()
) -> list[dict]:
    """`larderd`: a harness.larderd.Larderd with transfer: sidecar, ready and touched."""
    rows = []
    for by in (BY_HANDLE, BY_DESCRIPTOR):
        try:
            rows.append(measure_by(by, larderd, library, folder, scale))
        except ArmsError as error:
            rows.append({"part": "G6", "by": by, "not_measured": str(error)})
    return rows


def measure_by(by: str, larderd, library: pathlib.Path, folder: pathlib.Path, scale: Scale) -> dict:
    wait(lambda: held(larderd.status()) == {}, "larderd keeps nothing", larderd)
    with Engine(folder / "engine.log", library, scale, by) as engine:
        first, *attaches = attached(engine, larderd, 1 + scale.attaches, scale.layers)
        copies, opened = moved(engine, larderd, scale)
    backs = []
    for number in range(scale.kills):
        wait(lambda: held(larderd.status()) == {}, "the engine before is gone", larderd)
        with Engine(folder / f"engine-{number}.log", library, scale, by) as engine:
            backs.append(back_ms(engine, larderd))
    return row_of(by, scale, first, attaches, copies, opened, backs)


def attached(engine: Engine, larderd, times: int, allocations: int) -> list[float]:
    """Milliseconds of each; the last one stays attached."""
    taken = []
    for number in range(times):
        taken.append(engine.ask(attach=larderd.socket)["ms"])
        wait(
            lambda: larderd.status()["transfer"]["open"] == allocations,
            "the open memory is reported",
            larderd,
        )
        if number + 1 < times:
            engine.ask(detach=True)
            wait(lambda: held(larderd.status()) == {}, "the open memory is closed", larderd)
    return taken


def moved(engine: Engine, larderd, scale: Scale) -> tuple[int, int]:
    """Verified copies of larderd, and the memory opened for these copies."""
    before = larderd.status()["transfer"]
    engine.ask(move=scale.rounds)
    wanted = scale.rounds * scale.chunks
    wait(
        lambda: larderd.status()["transfer"]["loads"] - before["loads"] >= wanted,
        "the copies are counted",
        larderd,
    )
    after = larderd.status()["transfer"]
    stores, loads, failed, opened = (
        after[name] - before[name] for name in ("stores", "loads", "failed", "opened")
    )
    if (stores, loads, failed) != (wanted, wanted, 0):
        raise Void(
            f"larderd made {stores} stores and {loads} loads of {wanted} each, and {failed} failed"
        )
    return stores + loads, opened


def back_ms(engine: Engine, larderd) -> float:
    """From SIGKILL in the midst of copies until larderd has freed everything of the engine."""
    engine.ask(attach=larderd.socket)
    engine.ask(busy=True)
    wait(lambda: larderd.status()["memory"]["slots"]["granted"] > 0, "it stores", larderd)
    begin = time.perf_counter()
    engine.process.kill()
    wait(lambda: held(larderd.status()) == {}, "all is back", larderd)
    return 1e3 * (time.perf_counter() - begin)


def held(status: dict) -> dict:
    """The resources that larderd keeps for engines."""
    slots = status["memory"]["slots"]
    kept = {
        "sessions": len(status["sessions"]["attached"]),
        "granted": slots["granted"],
        "quarantined": slots["quarantined"],
        "holds": status["holds"],
        "open": status["transfer"]["open"],
    }
    return {name: count for name, count in kept.items() if count}


def wait(true, what: str, larderd) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise Void(f"not within {PATIENCE_S} s: {what}; {held(larderd.status())}")
        time.sleep(0.0005)


def row_of(
    by: str,
    scale: Scale,
    first: float,
    attaches: list[float],
    copies: int,
    opened: int,
    backs: list[float],
) -> dict:
    return {
        "part": "G6",
        "by": by,
        "bytes": scale.bytes,
        "allocations": scale.layers,
        "first_attach_ms": first,
        "attach_ms": statistics.median(attaches),
        "attach_worst_ms": max(attaches),
        "copies": copies,
        "opened_by_copies": opened,
        "back_ms": statistics.median(backs),
        "back_worst_ms": max(backs),
    }


def judge(rows: list[dict]) -> list[dict]:
    """The first engine of all is the first row's."""
    verdict = []
    for row in rows:
        if row["part"] != "G6" or "attach_ms" not in row:
            continue
        name = "G6" if row["by"] == BY_HANDLE else "G6.descriptors"
        verdict += [
            goals.goal(f"{name}.attach_ms", row["attach_ms"], "<=", ATTACH_MS),
            goals.goal(f"{name}.opened_by_copies", row["opened_by_copies"], "<=", 0),
            goals.goal(f"{name}.back_ms", row["back_worst_ms"], "<=", BACK_MS),
        ]
        if row["by"] == BY_HANDLE:
            verdict.append(goals.goal("G6.first_attach_ms", row["first_attach_ms"], "<=", FIRST_MS))
    return verdict


def show(row: dict) -> str:
    return (
        f"{row['allocations']} allocations by {row['by']}, {row['bytes'] / 1e9:.2f} GB: larderd "
        f"copies after {row['attach_ms']:.1f} ms (worst "
        f"{row['attach_worst_ms']:.1f}; the first engine {row['first_attach_ms']:.1f}), "
        f"{row['opened_by_copies']} opened by {row['copies']} verified copies; killed, "
        f"all is back after {row['back_ms']:.1f} ms (worst {row['back_worst_ms']:.1f})"
    )
