"""A worker's loads that wait for the files of an adapter.

The request waits, as during the copy of its KV; no step waits. Owned by the worker's thread."""

import time
from dataclasses import replace

WAIT_S = 0.1  # then the load fails, and the request is computed


class AwaitedAdapters:
    def __init__(self, loaded, clock=time.monotonic):
        """loaded: LoadedAdapters."""
        self._loaded = loaded
        self._clock = clock
        self._waiting = []  # (move, deadline)

    def __bool__(self):
        return bool(self._waiting)

    def ready(self, moves=()):
        """The moves to begin now, of these and of earlier ones: each is returned once."""
        now, waiting, ready = self._clock(), [], []
        for move, until in [*self._waiting, *((move, now + WAIT_S) for move in moves)]:
            if now < until and self._is_unknown(move):
                waiting.append((move, until))
            else:
                ready.append(move)
        self._waiting = waiting
        return ready

    def close(self, lines):
        """The scheduler has closed these namespaces, by Move.line: no load opens one again."""
        self._waiting = [
            (replace(move, parts=[]) if move.line in lines else move, until)
            for move, until in self._waiting
        ]

    def wait(self, seconds):
        """For a step without computation: leaves the processor to the thread that looks."""
        self._loaded.wait(seconds)

    def _is_unknown(self, move):
        if move.adapter is None or not move.parts:
            return False
        try:
            return self._loaded.matches(*move.adapter) is None
        except Exception:  # the begin of the load finds the same reason, and tells the reason
            return False
