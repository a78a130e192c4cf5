"""A worker's stores between the step that submitted them and their end.

Owned by the worker's thread; the copies run on the library's threads. Every step that the scheduler has numbered is reported once, whether
anything of it was stored or not, and so is every request that ended meanwhile: vLLM keeps its blocks until then."""

import math
import time
from collections import Counter
from dataclasses import dataclass

from larder.vllm.fail_safe import late

# How long larderd's answers are waited for. Nobody waits meanwhile, but blocks of a request that ends are kept so long where larderd is silent.
ANSWER_WAIT_MS = 500
# The same where a window's blocks go to others while their request runs: a step that writes one waits. And how long that waits for copies.
WINDOW_ANSWER_WAIT_MS, WINDOW_COPY_WAIT_MS = 20, 1000


@dataclass(frozen=True)
class Step:
    number: int
    requests: frozenset


class StoresUnderWay:
    def __init__(self, client, windows):
        """windows: blocks of a running request may be given to others, since groups of it have a sliding window."""
        self._client, self._windows = client, windows
        self._tickets: dict[int, Step] = {}
        self._overtaken: set[int] = set()  # of these tickets, those of which nothing is committed any more
        self._ended = Counter()  # numbers of steps, not told yet
        self._kept: set[str] = set()  # requests that have ended

    def submit(self, step):
        """What was begun is copied from here on. REQUIRES: a store was begun. Raises LarderError where nothing is."""
        ticket = self._client.store_submit(WINDOW_ANSWER_WAIT_MS if self._windows else ANSWER_WAIT_MS)
        self._tickets[ticket] = step

    def nothing_of(self, number):
        """Of the step of that number nothing is read."""
        self._ended[number] += 1

    def make_way(self, preempted, rewritten=()):
        """Before a step writes any block. Nothing is stored any more of requests that were preempted. rewritten: numbers of steps whose stored
        blocks this step writes; their copies are waited for, so long at most, and then taken back."""
        if not self._tickets:
            return
        self._overtake(
            ticket
            for ticket, step in self._tickets.items()
            if not step.requests.isdisjoint(preempted)  # mutation: preempted-overtaken
        )
        if not rewritten:  # mutation: window-waits
            return
        until = time.monotonic() + WINDOW_COPY_WAIT_MS / 1e3
        while self._running(rewritten) and (left := until - time.monotonic()) > 0:
            if not self.poll(math.ceil(left * 1e3)):
                break
        self._overtake(self._running(rewritten))

    def _running(self, numbers):
        """Tickets of these steps that may still be committed."""
        return [ticket for ticket, step in self._tickets.items() if step.number in numbers and ticket not in self._overtaken]

    def overtake(self):
        """What was not read by now is given back. Each still ends in poll()."""
        self._overtake(self._tickets)

    def _overtake(self, tickets):
        for ticket in tickets:
            if ticket not in self._overtaken:
                self._client.store_overtake(ticket)
                self._overtaken.add(ticket)

    def keep(self, requests):
        """They have ended, and vLLM keeps their blocks."""
        self._kept.update(requests)

    @property
    def keeps(self):
        return bool(self._kept)

    def poll(self, wait_ms=0):
        """Notes what has ended; where nothing has, waits for one store, at most so long. Whether any has ended."""
        if not self._tickets:
            return False
        done = self._client.store_poll(wait_ms)
        for ticket, result in done:
            self._overtaken.discard(ticket)
            self._note(self._tickets.pop(ticket), result)
        return bool(done)

    def _note(self, step, result):
        self._ended[step.number] += 1
        late.info(
            "Stored %d chunks, %d bytes in %.2f ms (%d were there, %d refused)",
            result.stored,
            result.bytes,
            result.copy_ns / 1e6,
            result.present,
            result.refused,
        )

    def take_ended(self):
        """{number of a step: 1} for steps whose pages nobody reads any more."""
        if not self._ended:
            return {}
        ended, self._ended = dict(self._ended), Counter()
        return ended

    def take_free(self):
        """Requests that have ended and whose blocks nobody reads any more."""
        if not self._kept:
            return set()
        read = frozenset().union(*(step.requests for step in self._tickets.values()))
        free = self._kept - read
        self._kept -= free
        return free
