"""The time that the engine computes the steps with prefill.

A runner queues a pass on a GPU and goes on, so a clock of the host would measure the launch.
DeviceClock puts a timing event before the pass and another behind the pass. Both are read after the
GPU has passed both, so a read never waits. HostClock serves engines whose hooks return when the
pass has ended. Owned by the worker's thread."""

import time

MOST_UNREAD = 8  # passes whose events are not reached yet; a further pass is not measured


class HostClock:
    def __init__(self, now=time.perf_counter_ns):
        self._now = now
        self._tokens = self._begun = 0
        self._ended = []

    def __bool__(self):
        """Whether a pass is open, or has a time that was not taken yet."""
        return bool(self._tokens or self._ended)

    def begin(self, tokens):
        """A pass that prefills so many tokens begins."""
        self._tokens, self._begun = tokens, self._now()

    def end(self):
        """The pass was launched. Without a begun pass this call has no effect."""
        if self._tokens:
            self._ended.append((self._tokens, self._now() - self._begun))
        self._tokens = 0

    def drop(self):
        """The pass has failed."""
        self._tokens = 0

    def take(self):
        """[(tokens, nanoseconds)] of passes that the engine has computed since the last call."""
        ended, self._ended = self._ended, []
        return ended


class DeviceClock:
    """The same on a GPU. timeline: a Timeline."""

    def __init__(self, timeline):
        self._timeline = timeline
        self._free = []  # events, for the next pass
        self._open = None  # (tokens, event before the pass): a pass that was not launched yet
        self._unread = []  # (tokens, event before the pass, event behind the pass)

    def __bool__(self):
        return bool(self._open or self._unread)

    def begin(self, tokens):
        self.drop()
        if len(self._unread) < MOST_UNREAD and not self._timeline.is_captured():
            self._open = tokens, self._mark()

    def end(self):
        if self._open is not None:
            (tokens, before), self._open = self._open, None
            self._unread.append((tokens, before, self._mark()))

    def drop(self):
        if self._open is not None:
            self._free.append(self._open[1])
            self._open = None

    def take(self):
        ended = []
        while self._unread and self._unread[0][2].query():
            tokens, before, behind = self._unread.pop(0)
            ended.append((tokens, round(before.elapsed_time(behind) * 1e6)))
            self._free += (before, behind)
        return ended

    def _mark(self):
        event = self._free.pop() if self._free else self._timeline.event()
        self._timeline.record(event)
        return event


class Timeline:
    """The stream of a CUDA device that the engine computes on, which may be another one in each
    step."""

    def __init__(self, device):
        import torch

        self._cuda, self._device = torch.cuda, device

    def event(self):
        return self._cuda.Event(enable_timing=True)

    def record(self, event):
        event.record(self._cuda.current_stream(self._device))

    def is_captured(self):
        """An event that is recorded now would belong to a CUDA graph."""
        return self._cuda.is_current_stream_capturing()
