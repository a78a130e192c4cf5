"""The small model of the benchmarks with many engines: the demo's shape at half its width, real
random weights, 12 KiB of KV a token."""

from __future__ import annotations

import os

from demo.model import make_model


def small_model(progress=print) -> str:
    """The model's path in the cache folder ($LARDER_CACHE, ~/.cache/larder); made if missing."""
    cache = os.environ.get("LARDER_CACHE") or os.path.expanduser("~/.cache/larder")
    out_dir = os.path.join(cache, "bench-model-1")
    if not os.path.exists(out_dir):
        progress("making a small model (about 15 s, 140 MB)")
    return make_model(
        out_dir, layers=12, hidden=512, intermediate=1408, heads=8, kv_heads=4, head_dim=64
    )
