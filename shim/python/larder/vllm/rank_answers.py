"""A worker's answers to the scheduler's look-ups (rank_lookups): the number of chunks in its own
larderd.

The worker first fetches missing chunks from the lower tiers, if the scheduler finds a fetch
worthwhile. The answer then comes at the end of the fetch. larderd learns from a probe which chunks
a shared backend has, so the worker probes first where shared memory does not show all chunks. The
probe has a small part of the deadline. Owned by the worker's thread."""

import math
import time
from dataclasses import dataclass

from larder.client import LarderError
from larder.vllm.cost_model import (
    DEADLINE_SHARE,
    LEAST_DEADLINE_S,
    PROBE_DEADLINE_SHARE,
    Pause,
)
from larder.vllm.messages import RankLookup


@dataclass
class Running:
    """A look-up that waits for the probe or the fetch of this ticket."""

    lookup: RankLookup
    number: int  # of the namespace
    until: float
    there: int  # chunks in memory before
    probes: bool
    ticket: int
    reachable: int = 0  # missing chunks that shared memory shows on this node's disk
    shared: bool = False  # of a fetch: some of its chunks are in the backend

    @property
    def missing(self):
        return self.lookup.hashes[self.there * self.lookup.stride :]


class RankAnswers:
    def __init__(self, client, clock=time.monotonic):
        self._client, self._clock = client, clock
        # At most one for each open look-up of the scheduler; larderd bounds probes and fetches too.
        self._running: list[Running] = []
        self._answers: dict[int, tuple] = {}  # by RankLookup.number
        # after fetches that cost more than they gained, by whether they read the backend
        self._pauses = {shared: Pause(clock) for shared in (False, True)}
        self._probe_pause = Pause(clock)  # after late probes

    def __bool__(self):
        return bool(self._running)

    def ask(self, lookup, number):
        """number: of the namespace."""
        there = self._client.lookup(lookup.hashes, lookup.stride, number)
        if there < len(lookup.hashes) // lookup.stride and lookup.deadline_ms:
            if self._begin(lookup, number, there):
                return
        self.answer(lookup, there)

    def answer(self, lookup, chunks):
        self._answers[lookup.number] = 1, chunks

    def close(self, lines=None):
        """The scheduler has closed the namespaces of these lines (StepWork.closed), or None: this
        worker serves no load any more."""
        ends = [one for one in self._running if lines is None or one.lookup.line in lines]
        for one in ends:
            self._stop(one)
            self.answer(one.lookup, 0)

    def reset(self):
        """Ends the fetches: larderd holds their chunks no longer. The memory answers."""
        for one in tuple(self._running):
            self._stop(one)
            self._answer_from_memory(one)

    def wait(self, wait_ms):
        """Waits for one probe or fetch, in a step without work, so that larderd gets the
        processor."""
        for one in self._running:
            poll = self._client.tiers.probe_poll if one.probes else self._client.tiers.fetch_poll
            poll(one.ticket, wait_ms)
            return

    @property
    def has_news(self):
        """Whether take() may have answers."""
        return bool(self._running or self._answers)

    def take(self):
        """The answers since the last call, for WorkerReport.answers."""
        for one in tuple(self._running):
            self._see(one)
        answers, self._answers = self._answers, {}
        return answers

    def _begin(self, lookup, number, there):
        """Begins a probe or a fetch. False: the memory answers."""
        below = self._client.tiers.speed()
        if below is None or lookup.deadline_ms < LEAST_DEADLINE_S * 1e3:
            return False
        until = self._clock() + lookup.deadline_ms / 1e3
        one = Running(lookup, number, until, there, probes=True, ticket=0)
        chunks = len(one.missing) // lookup.stride
        reachable = 0
        if below.serving:
            reachable = self._client.tiers.reachable(one.missing, lookup.stride, number)
        one.reachable = reachable
        asks = below.shared and reachable < chunks  # mutation: rank-probe
        paused = self._probe_pause.lasts() or self._pauses[True].lasts()
        if asks and not paused and self._probe(one):
            return True
        return reachable > 0 and self._fetch(one, reachable, shared=False)

    def _probe(self, one):
        """Begins a probe. False: over a bound, or larderd is away."""
        lookup = one.lookup
        # A part of the deadline: a fetch of what the disk has must still be in time.
        most_ms = math.ceil(lookup.deadline_ms * PROBE_DEADLINE_SHARE / DEADLINE_SHARE)
        try:
            one.ticket = self._client.tiers.probe(one.missing, lookup.stride, most_ms, one.number)
        except LarderError:
            return False
        self._running.append(one)
        return True

    def _fetch(self, one, chunks, shared):
        """Begins a fetch of the first missing chunks. False: there is none."""
        left_ms = math.ceil((one.until - self._clock()) * 1e3)
        if left_ms <= 0 or self._pauses[shared].lasts():  # mutation: rank-fetch-pause
            return False
        hashes = one.missing[: chunks * one.lookup.stride]
        try:
            ticket = self._client.tiers.fetch(hashes, one.lookup.stride, left_ms, one.number)
        except LarderError:
            return False
        one.ticket, one.probes, one.shared = ticket, False, shared
        if one not in self._running:
            self._running.append(one)
        return True

    def _see(self, one):
        if one.probes:
            probed = self._client.tiers.probe_poll(one.ticket)
            if probed is None:
                return
            self._client.tiers.probe_end(one.ticket)
            if probed.late:
                self._probe_pause.begin()
            else:
                self._probe_pause.paid()
            # A figure of 0: memory has all that was found, or no tier is to be relied on.
            if probed.chunks and probed.read_bytes_per_s:
                if self._fetch(one, probed.chunks, shared=probed.shared > 0):
                    return
            elif probed.late and one.reachable:
                if self._fetch(one, one.reachable, shared=False):
                    return
            self._running.remove(one)
        else:
            fetched = self._client.tiers.fetch_poll(one.ticket)
            if fetched is None:
                return
            self._note(one, fetched)
            self._stop(one)
        self._answer_from_memory(one)

    def _note(self, one, fetched):
        """A late fetch with a gain below its wait is a loss, as in the cost model."""
        chunks = len(one.lookup.hashes) // one.lookup.stride
        compute_s = one.lookup.deadline_ms / 1e3 / DEADLINE_SHARE
        if fetched.late and compute_s * fetched.chunks / chunks < fetched.elapsed_s:
            self._pauses[one.shared].begin()
        elif fetched.chunks:
            self._pauses[one.shared].paid()

    def _answer_from_memory(self, one):
        lookup = one.lookup
        self.answer(lookup, self._client.lookup(lookup.hashes, lookup.stride, one.number))

    def _stop(self, one):
        self._running.remove(one)
        end = self._client.tiers.probe_end if one.probes else self._client.tiers.fetch_end
        end(one.ticket)
