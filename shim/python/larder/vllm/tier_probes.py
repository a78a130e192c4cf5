"""TierProbes of the scheduler's half: asks larderd whether the backend has the missing chunks of a
request.

Shared memory does not show the chunks that other nodes have put into the backend. A probe is short,
and is left out if even a short probe is long against computing the missing tokens (cost_model). The
library counts the deadline. A request probes once. A request whose prompt another engine has just
computed has kv_transfer_params larder: await. Such a request probes again while chunks are missing,
for a share of the computing time. Owned by the scheduler's thread."""

import math
import time
from dataclasses import dataclass

from larder.client import LarderError
from larder.lower_tiers import Probed, TierSpeed
from larder.vllm.fail_safe import late
from larder.vllm.keys import stride_of
from larder.vllm.request_hints import AWAIT, word_of
from larder.vllm.cost_model import ProbePlan
from larder.vllm.spaces import Space
from larder.vllm.state_reach import ProbedStates

AGAIN_S = 0.01  # between two probes of one request
# The keys about which one probe asks the backend: kMaxKeysPerProbe of shim/protocol/limits.h.
MOST_KEYS = 1024


@dataclass
class Probe:
    """A probe for `chunks` chunks of a request, from chunk number `first` on. With states there are
    two questions, of the chunks and of the states behind the chunks, and two answers."""

    hashes: bytes
    stride: int
    space: Space
    first: int
    chunks: int
    plan: ProbePlan
    until: float  # the time of the last probe
    needs_last: bool  # the last state
    tickets: tuple = ()  # empty: no question to larderd is under way
    again_at: float = 0.0
    answers: tuple[Probed, ...] = ()
    ended: bool = False

    @property
    def whole(self):
        """Whether the answers found all chunks and, with states, the last state if there is to be
        one."""
        tokens, *states = self.answers
        found = tokens.chunks == self.chunks
        return found and (
            not self.needs_last or all(answer.chunks == self.chunks for answer in states)
        )


@dataclass(frozen=True)
class FoundStates:
    """reach: the chunks of attention that a fetch finds, from the prompt's first on. shared_chunks:
    of these, neither in memory nor on the disk."""

    reach: int
    shared_chunks: int
    probed: ProbedStates
    speed: TierSpeed


class TierProbes:
    def __init__(self, client, worth, chunk_keys=1, clock=time.monotonic):
        """chunk_keys: of a chunk of tokens, one for each shard and group."""
        self._client = client
        self._worth = worth
        self._chunk_keys = chunk_keys
        self._clock = clock
        self._probes: dict[str, Probe] = {}  # until the request ends

    def runs(self, request_id):
        """Whether the request waits for its probe."""
        probe = self._probes.get(request_id)
        return probe is not None and not probe.ended and not self._see(request_id, probe, 0)

    def begin(self, request, space, first, hashes, lacking_tokens):
        """Begins a probe if the probe is worth the time. Returns whether a probe was begun; the
        request then waits for the answer."""
        if request.request_id in self._probes:
            return False
        plan = self._worth.probe(lacking_tokens, awaited=word_of(request) == AWAIT)
        if plan is None:
            return False
        stride, until = stride_of(request), self._clock() + plan.patience_s
        # Behind a prompt of whole chunks the other engine kept the state. A hit here ends a chunk
        # earlier.
        needs_last = request.num_tokens % self._worth.chunk_tokens != 0  # mutation: await-whole
        probe = Probe(hashes, stride, space, first, len(hashes) // stride, plan, until, needs_last)
        if not self._ask(probe):
            return False
        self._probes[request.request_id] = probe
        return True

    def found(self, request_id, first):
        """(the chunks that a fetch finds from number `first` on, the answer); None if the backend
        has no such chunk."""
        probe = self._answered(request_id, first)
        return (
            None
            if probe is None
            else (probe.first + probe.answers[0].chunks - first, probe.answers[0])
        )

    def found_states(self, request_id, first):
        """FoundStates; None if the backend has neither chunks nor states."""
        probe = self._answered(request_id, first)
        if probe is None:
            return None
        tokens, states = probe.answers
        # A figure of 0: the answer has everything in memory, or the backend is not to be relied on.
        reads = [answer for answer in probe.answers if answer.shared or answer.read_bytes_per_s]
        speed = TierSpeed(
            all(answer.read_bytes_per_s > 0 for answer in reads),
            max(answer.read_latency_ns for answer in reads),
            min(answer.read_bytes_per_s for answer in reads),
        )
        return FoundStates(
            probe.first + tokens.chunks,
            tokens.shared,
            ProbedStates(probe.first, states.there),
            speed,
        )

    def _answered(self, request_id, first):
        """The request's probe, if the backend has a part of the chunks in question."""
        probe = self._probes.get(request_id)
        if probe is None or not probe.ended or not any(answer.shared for answer in probe.answers):
            return None
        # vLLM's own cache has lost earlier chunks, and the probe did not ask for these
        if first < probe.first:
            return None
        return probe

    def forget(self, request_id):
        """The request ended."""
        probe = self._probes.pop(request_id, None)
        if probe is not None:
            self._end_tickets(probe)

    def rest(self, wait_ms):
        """Waits wait_ms at most for a running probe. False: no probe runs."""
        for request_id, probe in self._probes.items():
            if not probe.ended:
                if not probe.tickets:
                    time.sleep(wait_ms / 1e3)
                self._see(request_id, probe, wait_ms if probe.tickets else 0)
                return True
        return False

    def _ask(self, probe):
        deadline_ms = math.ceil(max(probe.plan.deadline_s, probe.until - self._clock()) * 1e3)
        asks = [(self._client.tiers.probe, probe.space.number)]
        if probe.space.states is not None:  # in the same moment, so that both take one round trip
            # an older larderd refuses this one
            asks.insert(0, (self._client.tiers.probe_each, probe.space.states))
        for ask, number in asks:
            try:
                hashes = probe.hashes if number == probe.space.number else self._within_reach(probe)
                probe.tickets = ask(hashes, probe.stride, deadline_ms, number), *probe.tickets
            except LarderError:
                self._end_tickets(probe)
                return False
        return True

    def _within_reach(self, probe):
        """The hashes of the chunks that the question about tokens can find. larderd asks the
        backend about the first of the chunks, and about the last of the states."""
        here = self._client.tiers.reachable(probe.hashes, probe.stride, probe.space.number)
        most = here + MOST_KEYS // self._chunk_keys
        return probe.hashes[: most * probe.stride]  # mutation: probe-both-meet

    def _end_tickets(self, probe):
        for ticket in probe.tickets:
            self._client.tiers.probe_end(ticket)
        probe.tickets = ()

    def _see(self, request_id, probe, wait_ms):
        """Whether the probe has ended; then notes the result."""
        if not probe.tickets:
            if self._clock() < probe.again_at:
                return False
            if not self._ask(probe):
                return self._end(request_id, probe)
        answers = []
        for ticket in probe.tickets:
            answers.append(self._client.tiers.probe_poll(ticket, wait_ms))
            if answers[-1] is None:
                return False
        self._end_tickets(probe)
        probe.answers = tuple(answers)
        self._worth.probed(
            probe.plan,
            max(answer.elapsed_s for answer in answers),
            any(answer.late for answer in answers),
        )
        now = self._clock()
        if (
            not probe.whole
            and all(answer.reason == "done" for answer in answers)
            and now < probe.until
        ):
            probe.again_at = now + AGAIN_S
            return False
        return self._end(request_id, probe)

    def _end(self, request_id, probe):
        probe.ended = True
        answer = probe.answers[0]
        if probe.plan.patience_s:
            self._worth.awaited(probe.whole)
        late.info(
            "Looked: %d of %d chunks are there, %d of them in the backend%s, "
            "for request %s in %.1f ms%s",
            answer.chunks,
            probe.chunks,
            answer.shared,
            "".join(f", and {states.there.bit_count()} states" for states in probe.answers[1:]),
            request_id,
            answer.elapsed_s * 1e3,
            "" if answer.reason == "done" else f" ({answer.reason})",
        )
        return True
