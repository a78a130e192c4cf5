"""Load or recompute: whether chunks that larderd has below its memory are worth waiting for, and how long; and whether asking a
backend for them is.

What it goes by is measured: the engine's prefill and load speed by its workers, the device's by larderd, what a look takes by the
library. Owned by the scheduler's thread. A fetch that came late and did not pay for its waiting stops further ones for a while, longer
each time: those from the backend and those from the disk each by themselves."""

import math
import time
from dataclasses import dataclass

# Fetching and loading must take at most this share of the time in which the engine computes the same tokens.
WORTH_SHARE = 0.5
# A request waits for its fetch at most this share of the time in which the engine computes all that the request lacks ...
DEADLINE_SHARE = 0.25
# ... and asks for no more than should have come after this part of that.
DEADLINE_FILLED = 0.8
# Else a deadline is the estimate so often, and a little more: what a busy machine takes to answer at all.
SLACK, SLACK_S = 4, 0.05
# Of an engine that has computed nothing yet nobody knows how long it takes: it waits so long at most.
UNKNOWN_DEADLINE_S = 0.25
# With less time than this to gain nothing is asked for.
LEAST_DEADLINE_S = 0.004
# A look, which may find nothing, takes at most this share of the time in which the engine computes all that the request lacks ...
PROBE_DEADLINE_SHARE = 0.04
# ... is left out where looks usually take more than this, but for one from time to time ...
PROBE_SHARE = 0.02
# ... and has this deadline where nobody knows how long the engine takes, and never a shorter one than that.
UNKNOWN_PROBE_DEADLINE_S, LEAST_PROBE_DEADLINE_S = 0.05, 0.005
# After a fetch that cost more than it brought, and after each further one without a good one between.
FIRST_PAUSE_S, PAUSE_FACTOR, LONGEST_PAUSE_S = 1.0, 4, 300.0
# Older measurements count half once so much is measured on top of them.
PREFILL_MEMORY_TOKENS, LOAD_MEMORY_BYTES = 16384, 4 << 30
# What copying into KV pages takes until a load has been measured.
ASSUMED_LOAD_BYTES_PER_S = 2e9


class Speed:
    """Units a second over what was measured lately; big measurements count more than small ones."""

    def __init__(self, memory):
        self._memory = memory
        self._units = self._seconds = 0.0

    def add(self, units, nanoseconds):
        self._units += units
        self._seconds += nanoseconds / 1e9
        if self._units > self._memory:
            self._units, self._seconds = self._units / 2, self._seconds / 2

    def value(self):
        """None: nothing was measured."""
        return self._units / self._seconds if self._seconds > 0 else None


class Pause:
    """Of what did not pay: longer each time, until it paid again."""

    def __init__(self, clock):
        self._clock = clock
        self._seconds, self._until = 0.0, -math.inf

    def lasts(self):
        return self._clock() < self._until

    def begin(self):
        self._seconds = min(max(self._seconds * PAUSE_FACTOR, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        self._until = self._clock() + self._seconds  # mutation: fetch-loss

    def paid(self):
        self._seconds = 0.0


@dataclass(frozen=True)
class ProbePlan:
    """Wait so long for a look, which is worth so long, and look again for so long while something is missing."""

    deadline_s: float
    worth_s: float
    patience_s: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Ask for so many chunks, wait so long. Times in seconds; compute_s: of those chunks, None where it is unknown. shared: some of
    them are in the backend."""

    chunks: int
    deadline_s: float
    estimate_s: float
    compute_s: float | None
    shared: bool = False

    @property
    def deadline_ms(self):
        return math.ceil(self.deadline_s * 1e3)


class LoadOrRecompute:
    """chunk_bytes: of all shards and groups."""

    def __init__(self, chunk_bytes, chunk_tokens, clock=time.monotonic):
        self.chunk_tokens = chunk_tokens
        self._chunk_bytes = chunk_bytes
        self._prefill = Speed(PREFILL_MEMORY_TOKENS)
        self._load = Speed(LOAD_MEMORY_BYTES)
        self._pauses = {shared: Pause(clock) for shared in (False, True)}
        self._usual_look_s = None
        self._probe_pause, self._await_pause = Pause(clock), Pause(clock)

    def measured(self, prefill_tokens=0, prefill_ns=0, load_bytes=0, load_ns=0):
        self._prefill.add(prefill_tokens, prefill_ns)
        self._load.add(load_bytes, load_ns)

    def probe(self, lacking_tokens, awaited=False):
        """The ProbePlan for a request that lacks so many tokens, or None: what the backend may have of them is computed. awaited: another
        engine has just computed them, and they are worth waiting for as long as for a fetch."""
        tokens_per_s = self._prefill.value()
        if tokens_per_s is None:
            longest, deadline = UNKNOWN_DEADLINE_S, UNKNOWN_PROBE_DEADLINE_S
            worth = deadline * PROBE_SHARE / PROBE_DEADLINE_SHARE
        else:
            compute = lacking_tokens / tokens_per_s
            longest, worth = DEADLINE_SHARE * compute, PROBE_SHARE * compute
            deadline = max(PROBE_DEADLINE_SHARE * compute, LEAST_PROBE_DEADLINE_S)
            if longest < LEAST_DEADLINE_S:
                return None
        plan = ProbePlan(deadline, worth, longest if awaited and not self._await_pause.lasts() else 0.0)
        usual = self._usual_look_s
        if self._pauses[True].lasts() or (usual is not None and usual > plan.worth_s and self._probe_pause.lasts()):
            return None
        return plan

    def probed(self, plan, elapsed_s, late):
        """A look took so long."""
        usual = elapsed_s if self._usual_look_s is None else self._usual_look_s
        if late or elapsed_s > plan.worth_s:
            self._usual_look_s = max(usual, elapsed_s)
            self._probe_pause.begin()
            return
        if elapsed_s < usual / 2:
            self._probe_pause.paid()
        self._usual_look_s = (usual + elapsed_s) / 2

    def awaited(self, came):
        """Whether all came that was waited for by looking again."""
        if came:
            self._await_pause.paid()
        else:
            self._await_pause.begin()

    def plan(self, below, chunks, lacking_tokens, waiting_chunks=0, shared=False):
        """The Plan for a request that lacks so many tokens, the first `chunks` chunks of which are below memory, or None: compute
        them. shared: a look has found them, some in the backend, and `below` is what it told. waiting_chunks: what other fetches of
        this engine have still to bring."""
        if below is None or not below.serving or chunks <= 0 or self._pauses[shared].lasts():
            return None
        one = self._chunk_bytes / below.read_bytes_per_s if below.read_bytes_per_s else 0.0
        first = below.read_latency_ns / 1e9 + waiting_chunks * one
        tokens_per_s = self._prefill.value()
        longest = UNKNOWN_DEADLINE_S if tokens_per_s is None else DEADLINE_SHARE * lacking_tokens / tokens_per_s
        if tokens_per_s is not None:
            load = self._chunk_bytes / (self._load.value() or ASSUMED_LOAD_BYTES_PER_S)
            if one + load > WORTH_SHARE * self.chunk_tokens / tokens_per_s:
                return None
        if one:
            chunks = min(chunks, int((DEADLINE_FILLED * longest - first) / one))
        elif first > DEADLINE_FILLED * longest:
            chunks = 0
        if chunks <= 0 or longest < LEAST_DEADLINE_S:
            return None
        estimate = first + chunks * one
        compute = None if tokens_per_s is None else chunks * self.chunk_tokens / tokens_per_s
        deadline = min(SLACK * estimate + SLACK_S, longest) if one else longest  # mutation: fetch-cap
        return Plan(chunks, deadline, estimate, compute, shared)

    def ended(self, plan, chunks, elapsed_s, late):
        """A fetch brought so many of its plan's chunks. One that was late and brought less than it took to wait for is a loss."""
        gained = None if plan.compute_s is None else plan.compute_s * chunks / plan.chunks
        if not late or (gained is not None and gained >= elapsed_s):
            if chunks:
                self._pauses[plan.shared].paid()
            return
        self._pauses[plan.shared].begin()
