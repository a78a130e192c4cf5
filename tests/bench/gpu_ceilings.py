"""The limits of this GPU and its link, measured in the run that is judged by these limits. On "cpu"
the same over host memory, for tests."""

from __future__ import annotations

import statistics
import subprocess
import time
from typing import Callable

import torch

from harness.bench import Void

COPY_BYTES = 2 << 30
MATRIX = 8192
ROUNDS = 7


def device_line(device: str) -> str:
    """The GPU's name and the driver's version."""
    if torch.device(device).type != "cuda":
        return device
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(
            asked, capture_output=True, text=True, timeout=30, check=True
        ).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        driver = "unknown"
    return (
        f"{torch.cuda.get_device_name(device)}, driver {driver}, CUDA {torch.version.cuda}, "
        f"torch {torch.__version__}"
    )


def copy_bytes_per_s(device: str, size: int = COPY_BYTES) -> float:
    """One large copy from pinned memory to the device, the median of several, each byte
    compared."""
    on_gpu = torch.device(device).type == "cuda"
    source = torch.empty(size, dtype=torch.uint8, pin_memory=on_gpu).random_(256)
    target = torch.zeros(size, dtype=torch.uint8, device=device)
    seconds = _median_s(lambda: target.copy_(source, non_blocking=True), on_gpu)
    if not torch.equal(target, source.to(device)):
        raise Void("the large copy gave other bytes")
    return size / seconds


def matrix_flops(device: str, size: int = MATRIX) -> float:
    """A square product in bfloat16 of random numbers: the limit of a prefill made only of
    products."""
    one, other = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / _median_s(lambda: one @ other, torch.device(device).type == "cuda")


def _median_s(work: Callable, on_gpu: bool) -> float:
    def once() -> float:
        begin = time.perf_counter()
        work()
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    once()
    return statistics.median(once() for _ in range(ROUNDS))
