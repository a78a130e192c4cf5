"""A worker's stores between the submitting step and the end.

Every numbered step is reported exactly once, with or without a store. So is every request that
ended meanwhile: vLLM keeps the request's blocks until the report. Owned by the worker's thread; the
copies run on the library's threads."""

import math
import time
from collections import Counter
from dataclasses import dataclass

from larder.vllm.fail_safe import late

# The wait for larderd's answers. No step waits meanwhile; but with a silent larderd, an ended
# request keeps its blocks this long.
ANSWER_WAIT_MS = 500
# The same for models with windows, whose blocks go to other requests while their request runs: a
# step that writes such a block waits. The second figure bounds that step's wait for copies.
WINDOW_ANSWER_WAIT_MS, WINDOW_COPY_WAIT_MS = 20, 1000


@dataclass(frozen=True)
class Step:
    number: int
    requests: frozenset


class StoresUnderWay:
    def __init__(self, client, windows):
        """windows: the model has a sliding window, so a running request may lose blocks to
        others."""
        self._client, self._windows = client, windows
        self._tickets: dict[int, Step] = {}
        self._overtaken: set[int] = set()  # tickets that commit no further chunk
        self._ended = Counter()  # numbers of steps, not told yet
        self._refused: set[int] = set()  # of these: steps with refused chunks
        self._kept: set[str] = set()  # requests that have ended

    def __bool__(self):
        """Whether a store has not ended."""
        return bool(self._tickets)

    @property
    def has_ended(self):
        """Whether take_ended() has steps."""
        return bool(self._ended)

    def submit(self, step):
        """The begun stores are copied from here on. REQUIRES: a store was begun. LarderError: no
        chunk is copied."""
        ticket = self._client.store_submit(
            WINDOW_ANSWER_WAIT_MS if self._windows else ANSWER_WAIT_MS
        )
        self._tickets[ticket] = step

    def nothing_of(self, number, refused=False):
        """No page is read for the step of this number. refused: the step had chunks to store, which
        may be given again."""
        self._ended[number] += 1
        if refused:
            self._refused.add(number)

    def make_way(self, preempted, rewritten=()):
        """Call this before a step writes any block. Stores of preempted requests are taken back.
        rewritten: numbers of steps whose stored blocks this step writes. The copies are waited for,
        WINDOW_COPY_WAIT_MS at most, and then taken back."""
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
        """Tickets of these steps that may still commit chunks."""
        return [
            ticket
            for ticket, step in self._tickets.items()
            if step.number in numbers and ticket not in self._overtaken
        ]

    def overtake(self):
        """Chunks that are not read by now are given back. Each store still ends in poll()."""
        self._overtake(self._tickets)

    def _overtake(self, tickets):
        for ticket in tickets:
            if ticket not in self._overtaken:
                self._client.store_overtake(ticket)
                self._overtaken.add(ticket)

    def keep(self, requests):
        """The requests have ended, and vLLM keeps their blocks."""
        self._kept.update(requests)

    @property
    def keeps(self):
        return bool(self._kept)

    def poll(self, wait_ms=0):
        """Notes ended stores. If no store has ended, waits for one, wait_ms at most. Returns
        whether any has ended."""
        if not self._tickets:
            return False
        done = self._client.store_poll(wait_ms)
        for ticket, result in done:
            self._overtaken.discard(ticket)
            self._note(self._tickets.pop(ticket), result)
        return bool(done)

    def _note(self, step, result):
        self._ended[step.number] += 1
        if result.refused:
            self._refused.add(step.number)
        late.info(
            "Stored %d chunks, %d bytes in %.2f ms (%d were there, %d refused)",
            result.stored,
            result.bytes,
            result.copy_ns / 1e6,
            result.present,
            result.refused,
        )

    def take_ended(self):
        """{number of a step: 1} for steps whose pages no thread reads any more."""
        if not self._ended:
            return {}
        ended, self._ended = dict(self._ended), Counter()
        return ended

    def take_refused(self):
        """Of the steps of take_ended(): the steps with chunks that larderd refused, or answered too
        late."""
        refused, self._refused = frozenset(self._refused), set()
        return refused

    def take_free(self):
        """Ended requests whose blocks no thread reads any more."""
        if not self._kept:
            return set()
        read = frozenset().union(*(step.requests for step in self._tickets.values()))
        free = self._kept - read
        self._kept -= free
        return free
