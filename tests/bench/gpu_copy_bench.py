"""make bench-gpu, G1 to G8: copies between KV pages on a GPU and larderd's memory, against the
limits of driver and link in the same run.

Each part is a module of its own, which describes its measurement: G1 and G2 gpu_one_way, G3
gpu_both_ways, G4 gpu_loss, G5 gpu_first_layer, G6 gpu_attach, G8 gpu_register. The bench reports a
part that this machine cannot measure. A failed part (wrong bytes, a lost device) is reported too
and does not end the other parts; the bench then ends with status 1. The report is written behind
each part. Without a GPU the bench reports that there was no measurement. Environment:
LARDER_LIBRARY (libgpu_arms.so lies beside the library), LARDERD, LARDER_COMMIT; GPU_PARTS
(G1,G2,G3,G4,G5,G6,G8): the rows of other parts stay in the report; GPU_DECODE_SHAPE (llama_8b)."""

from __future__ import annotations

import os
import pathlib
import sys
import time
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "engine"))

import gpu_attach
import gpu_both_ways
import gpu_one_way
import gpu_register
from gpu_arms import Arms, ArmsError, beside
from harness import goals
from harness.bench import line_of
from harness.bench import run as run_bench
from harness.larderd import Larderd
from harness.process import ProcessError
from larder import LarderError

BUILD = ROOT / "build" / "bench"
PARTS = ("G1", "G2", "G3", "G4", "G5", "G6", "G8")
TOUCH_S = 120
DEVICE = "cuda"


def one_way(arms: Arms, part: str) -> list[dict]:
    return [
        row
        for piece_bytes in gpu_one_way.PIECES
        if gpu_one_way.part_of(piece_bytes) == part
        for row in gpu_one_way.measure(arms, piece_bytes)
    ]


def losses(arms: Arms) -> list[dict]:
    torch = on_the_gpu()
    import gpu_loss
    from paged_engine.shapes import SHAPES

    scale, shape = gpu_loss.Scale(), SHAPES[os.environ.get("GPU_DECODE_SHAPE", "llama_8b")]
    steps = {
        "gemm": gpu_loss.gemm(DEVICE, scale.matrix),
        "decode": gpu_loss.decode(shape, DEVICE, scale.context),
    }
    loops = [
        gpu_loss.Loop(name, gpu_loss.with_small_copies(step, DEVICE), DEVICE, scale.turn_s)
        for name, step in steps.items()
    ]
    try:
        return gpu_loss.measure(arms, loops, scale)
    finally:
        del steps, loops
        torch.cuda.empty_cache()


def first_layer(_: Arms) -> list[dict]:
    torch = on_the_gpu()
    import gpu_first_layer

    scale = gpu_first_layer.Scale()
    with larderd_with(scale.bytes * 5 // 4, "gpu-first-layer") as larderd:
        rows = gpu_first_layer.measure(larderd.socket, DEVICE, scale)
    torch.cuda.empty_cache()
    return rows


def by_larderd(_: Arms) -> list[dict]:
    scale = gpu_attach.Scale()
    with larderd_with(scale.bytes * 4, "gpu-attach", "transfer: sidecar\n") as larderd:
        return gpu_attach.measure(
            larderd, beside(os.environ["LARDER_LIBRARY"]), BUILD / "gpu-attach", scale
        )


@contextmanager
def larderd_with(size: int, folder: str, extra: str = "") -> Iterator[Larderd]:
    """Ready, with all memory present."""
    with Larderd(
        os.environ["LARDERD"],
        BUILD / folder,
        f"larder-bench-{os.getpid()}",
        f"{(size >> 20) + 1}MiB",
        extra,
    ) as larderd:
        larderd.wait_ready()
        larderd.wait_touched(TOUCH_S)
        yield larderd


def on_the_gpu() -> ModuleType:
    """PyTorch, which sees the GPU."""
    try:
        import torch
    except ImportError:
        raise ArmsError(f"no PyTorch in {sys.executable}") from None
    if not torch.cuda.is_available():
        raise ArmsError("no CUDA device: torch.cuda.is_available() is false")
    return torch


MEASURE: dict[str, Callable[[Arms], list[dict]]] = {
    "G1": lambda arms: one_way(arms, "G1"),
    "G2": lambda arms: one_way(arms, "G2"),
    "G3": gpu_both_ways.measure,
    "G4": losses,
    "G5": first_layer,
    "G6": by_larderd,
    "G8": gpu_register.measure,
}


def tried(part: str, arms: Arms) -> list[dict]:
    """A part that cannot be measured here, or failed, is a row with the reason."""
    try:
        return MEASURE[part](arms)
    except (ArmsError, ProcessError) as error:
        return [{"part": part, "not_measured": line_of(error)}]
    except (RuntimeError, OSError, LarderError) as error:  # Void and PyTorch's are the first
        return [{"part": part, "failed": line_of(error)}]


@cache
def modules() -> dict[str, ModuleType]:
    """The functions that show and judge the rows of a part. Without PyTorch two parts have no rows,
    and cannot be imported."""
    found = {
        "G1": gpu_one_way,
        "G2": gpu_one_way,
        "G3": gpu_both_ways,
        "G6": gpu_attach,
        "G8": gpu_register,
    }
    try:
        import gpu_first_layer
        import gpu_loss
    except ImportError:
        return found
    return {**found, "G4": gpu_loss, "G5": gpu_first_layer}


def judge(rows: list[dict]) -> list[dict]:
    return [goal for module in dict.fromkeys(modules().values()) for goal in module.judge(rows)]


def show(row: dict) -> None:
    if "failed" in row:
        print(f"  {row['part']}: FAILED: {row['failed']}", flush=True)
    elif "not_measured" in row:
        what = "".join(
            f" {row[key]}" for key in ("piece_kib", "page_kib", "way", "by") if key in row
        )
        print(f"  {row['part']}{what}: not measured: {row['not_measured']}", flush=True)
    else:
        print(f"  {row['part']} {modules()[row['part']].show(row)}", flush=True)


def main() -> int:
    started, path = time.monotonic(), BUILD / "gpu_copies.json"
    parts = [
        part
        for part in (os.environ.get("GPU_PARTS") or ",".join(PARTS)).split(",")
        if part in PARTS
    ]
    rows, commit, failed = (
        goals.kept_rows(path, set(parts)),
        os.environ.get("LARDER_COMMIT", ""),
        False,
    )
    try:
        arms = Arms(beside(os.environ["LARDER_LIBRARY"]))
    except ArmsError as error:
        print(f"not measured: {', '.join(parts)} ({error})")
        rows += [{"part": part, "not_measured": str(error), "commit": commit} for part in parts]
        goals.write(path, "gpu_copies", rows, judge(rows))
        return 0
    print(f"{arms.device}, commit {commit}", flush=True)
    for part in parts:
        for row in tried(part, arms):
            rows.append({**row, "device": arms.device, "commit": commit})
            show(row)
            failed = failed or "failed" in row
        # a later part may be the end of this process
        goals.write(path, "gpu_copies", rows, judge(rows))
    goals.conclude(path, "gpu_copies", rows, judge(rows), started)
    return int(failed)


if __name__ == "__main__":
    run_bench("bench-gpu", main)
