"""Larder's own share of a request's time, as larderd counted it: the difference of two readings of its metrics."""

from __future__ import annotations

import time

# Looking up, waiting for the copy, copying and verifying.
PARTS = ("lookup", "load_wait", "load_copy")


def _sums(metrics: dict[str, float]) -> dict[str, float]:
    return {part: metrics[f'larder_operation_seconds_sum{{operation="{part}"}}'] for part in PARTS}


class LarderShare:
    """Reads larderd's metrics before and after. Engines report over a ring that larderd drains several times a second."""

    def __init__(self, larderd):
        self.larderd = larderd
        self.before = larderd.metrics()

    def read(self, loads: int = 1, timeout_s: float = 3) -> dict[str, float]:
        """Milliseconds by part, once `loads` more loads were counted, or what there is after timeout_s."""
        name = 'larder_operation_seconds_count{operation="load_copy"}'
        deadline = time.monotonic() + timeout_s
        while True:
            after = self.larderd.metrics()
            if after[name] - self.before[name] >= loads or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        old, new = _sums(self.before), _sums(after)
        return {part: 1e3 * (new[part] - old[part]) for part in PARTS}
