"""Load or recompute: whether chunks in larderd's lower tiers are worth a wait, and for how long.
Also whether a probe of the backend is worth its time.

All inputs are measured: workers measure the engine's prefill and load speed, larderd the speed of
the device, the library the time of a probe. A late fetch that did not pay for the wait stops
further fetches for a while, longer each time; fetches from the backend and from the disk have
separate pauses. Owned by the scheduler's thread."""

import math
import time
from dataclasses import dataclass

# Fetch and load together may take at most this share of the time to compute the same tokens.
WORTH_SHARE = 0.5
# The deadline of a fetch is at most this share of the time to compute all missing tokens.
DEADLINE_SHARE = 0.25
# A fetch asks only for chunks that should arrive within this part of the longest deadline.
DEADLINE_FILLED = 0.8
# Otherwise the deadline is SLACK times the estimate, plus the time in which a busy machine answers.
SLACK, SLACK_S = 4, 0.05
# The longest deadline of an engine whose computing time is not measured yet.
UNKNOWN_DEADLINE_S = 0.25
# With less time than this to gain, no fetch is made.
LEAST_DEADLINE_S = 0.004
# A probe may find no chunk. Its deadline is this share of the time to compute all missing tokens.
PROBE_DEADLINE_SHARE = 0.04
# Where probes usually take more than this share, only one probe is made from time to time.
PROBE_SHARE = 0.02
# The deadline of a probe before any measurement, and the shortest deadline.
UNKNOWN_PROBE_DEADLINE_S, LEAST_PROBE_DEADLINE_S = 0.05, 0.005
# The pause after a fetch that cost more than it gained; longer after each further such fetch, until
# a good one.
FIRST_PAUSE_S, PAUSE_FACTOR, LONGEST_PAUSE_S = 1.0, 4, 300.0
# Older measurements count half after this much new measurement.
PREFILL_MEMORY_TOKENS, LOAD_MEMORY_BYTES = 16384, 4 << 30
# The speed of copies into KV pages before the first measured load.
ASSUMED_LOAD_BYTES_PER_S = 2e9


class Speed:
    """Units a second over the recent measurements, each weighted by its size."""

    def __init__(self, memory):
        self._memory = memory
        self._units = self._seconds = 0.0

    def add(self, units, nanoseconds):
        self._units += units
        self._seconds += nanoseconds / 1e9
        if self._units > self._memory:
            self._units, self._seconds = self._units / 2, self._seconds / 2

    def value(self):
        """None: no measurement yet."""
        return self._units / self._seconds if self._seconds > 0 else None


class Pause:
    """The pause after attempts that did not pay: longer each time, until one paid."""

    def __init__(self, clock):
        self._clock = clock
        self._seconds, self._until = 0.0, -math.inf

    def lasts(self):
        return self._clock() < self._until

    def begin(self):
        """Nothing happens while the pause lasts: one stall has several losers."""
        if self.lasts():
            return
        self._seconds = min(max(self._seconds * PAUSE_FACTOR, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        self._until = self._clock() + self._seconds  # mutation: fetch-loss

    def paid(self):
        self._seconds = 0.0


@dataclass(frozen=True)
class ProbePlan:
    """deadline_s: of the probe. budget_s: the time that the probe is worth. patience_s: the time
    for further probes while chunks are missing."""

    deadline_s: float
    budget_s: float
    patience_s: float = 0.0


@dataclass(frozen=True)
class Offer:
    """A hit that ends with a state behind `end` chunks. gain_tokens: more than the hit from memory.
    read_bytes: the bytes below memory. load_bytes: to copy into KV pages for the gain."""

    end: int
    gain_tokens: int
    read_bytes: int
    load_bytes: int


@dataclass(frozen=True)
class Plan:
    """A fetch of `chunks` chunks with a deadline. compute_s: the time to compute these chunks, None
    if unknown. shared: some of the chunks are in the backend. offer: of an engine with states,
    whose hit gains `chunks` chunks."""

    chunks: int
    deadline_s: float
    estimate_s: float
    compute_s: float | None
    shared: bool = False
    offer: Offer | None = None

    @property
    def deadline_ms(self):
        return math.ceil(self.deadline_s * 1e3)


class LoadOrRecompute:
    """chunk_bytes, state_bytes: of all shards and groups; a state is one of all state groups."""

    def __init__(self, chunk_bytes, chunk_tokens, clock=time.monotonic, state_bytes=0):
        self.chunk_tokens = chunk_tokens
        self._chunk_bytes, self._state_bytes = chunk_bytes, state_bytes
        self._prefill = Speed(PREFILL_MEMORY_TOKENS)
        self._load = Speed(LOAD_MEMORY_BYTES)
        self._pauses = {shared: Pause(clock) for shared in (False, True)}
        self._usual_probe_s = None
        self._probe_pause, self._await_pause = Pause(clock), Pause(clock)

    def sized(self, chunk_bytes, state_bytes):
        self._chunk_bytes, self._state_bytes = chunk_bytes, state_bytes

    def measured(self, prefill_tokens=0, prefill_ns=0, load_bytes=0, load_ns=0):
        self._prefill.add(prefill_tokens, prefill_ns)
        self._load.add(load_bytes, load_ns)

    def probe(self, lacking_tokens, awaited=False):
        """The ProbePlan for a request without these tokens. None: the request computes the tokens
        without a probe. awaited: another engine has just computed the tokens, and the tokens are
        worth the wait of a fetch."""
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
        plan = ProbePlan(
            deadline, worth, longest if awaited and not self._await_pause.lasts() else 0.0
        )
        usual = self._usual_probe_s
        if self._pauses[True].lasts() or (
            usual is not None and usual > plan.budget_s and self._probe_pause.lasts()
        ):
            return None
        return plan

    def probed(self, plan, elapsed_s, late):
        """A probe took elapsed_s."""
        usual = elapsed_s if self._usual_probe_s is None else self._usual_probe_s
        if late or elapsed_s > plan.budget_s:
            self._usual_probe_s = max(usual, elapsed_s)
            self._probe_pause.begin()
            return
        if elapsed_s < usual / 2:
            self._probe_pause.paid()
        self._usual_probe_s = (usual + elapsed_s) / 2

    def awaited(self, came):
        """The further probes of a request have ended. came: all chunks arrived."""
        if came:
            self._await_pause.paid()
        else:
            self._await_pause.begin()

    def plan(self, below, chunks, lacking_tokens, waiting_chunks=0, shared=False):
        """The Plan for a request without these tokens, with the next `chunks` chunks below memory.
        None: compute the tokens. shared: a probe has found the chunks, some in the backend, and
        `below` is the answer. waiting_chunks: chunks that other fetches of this engine have still
        to bring."""
        if below is None or not below.serving or chunks <= 0 or self._pauses[shared].lasts():
            return None
        one = self._chunk_bytes / below.read_bytes_per_s if below.read_bytes_per_s else 0.0
        first = below.read_latency_ns / 1e9 + waiting_chunks * one
        tokens_per_s = self._prefill.value()
        longest = self.longest(lacking_tokens)
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
        return Plan(chunks, self._deadline(below, estimate, longest), estimate, compute, shared)

    def offer(self, end, hits, there, state_there):
        """The Offer of a hit of `end` chunks. Memory has a hit of `hits` chunks and the KV of
        `there` chunks. state_there: memory has the state."""
        chunks_bytes = max(end - there, 0) * self._chunk_bytes
        load_bytes = (end - hits) * self._chunk_bytes + self._state_bytes
        return Offer(
            end,
            (end - hits) * self.chunk_tokens,
            chunks_bytes + (0 if state_there else self._state_bytes),
            load_bytes,
        )

    def plan_ends(self, below, offers, lacking_tokens, waiting_bytes=0, shared=False):
        """The Plan of the offer with the largest gain among the offers that are worth their time
        and arrive within the deadline. None: compute. An offer is never cut: chunks without the
        state are no hit. The other arguments are those of plan()."""
        longest = self.longest(lacking_tokens)
        if (
            below is None
            or not below.serving
            or self._pauses[shared].lasts()
            or longest < LEAST_DEADLINE_S
        ):
            return None
        rate, tokens_per_s = below.read_bytes_per_s, self._prefill.value()
        for offer in sorted(offers, key=lambda one: one.gain_tokens, reverse=True):
            compute = None if tokens_per_s is None else offer.gain_tokens / tokens_per_s
            read = offer.read_bytes / rate if rate else 0.0
            estimate = below.read_latency_ns / 1e9 + (waiting_bytes / rate if rate else 0.0) + read
            load = offer.load_bytes / (self._load.value() or ASSUMED_LOAD_BYTES_PER_S)
            worth = compute is None or read + load <= WORTH_SHARE * compute  # mutation: ends-worth
            if worth and estimate <= DEADLINE_FILLED * longest:  # mutation: ends-in-time
                chunks = offer.gain_tokens // self.chunk_tokens
                return Plan(
                    chunks,
                    self._deadline(below, estimate, longest),
                    estimate,
                    compute,
                    shared,
                    offer,
                )
        return None

    def longest(self, lacking_tokens):
        """The longest deadline, in seconds, of a fetch for a request without these tokens."""
        tokens_per_s = self._prefill.value()
        return (
            UNKNOWN_DEADLINE_S
            if tokens_per_s is None
            else DEADLINE_SHARE * lacking_tokens / tokens_per_s
        )

    @staticmethod
    def _deadline(below, estimate, longest):
        return (
            min(SLACK * estimate + SLACK_S, longest) if below.read_bytes_per_s else longest
        )  # mutation: fetch-cap

    def ended(self, plan, chunks, elapsed_s, late):
        """A fetch brought `chunks` of the planned chunks. A late fetch with a gain below its wait
        is a loss."""
        gained = None if plan.compute_s is None else plan.compute_s * chunks / plan.chunks
        if not late or (gained is not None and gained >= elapsed_s):
            if chunks:
                self._pauses[plan.shared].paid()
            return
        self._pauses[plan.shared].begin()
