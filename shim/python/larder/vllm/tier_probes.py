"""TierProbes of the scheduler's half: asks larderd whether the backend has the chunks that a
request misses.

Shared memory does not show the chunks that other nodes have put into the backend. A probe is short,
and is left out where even a short probe is long against computing the missing tokens (cost_model).
The library counts its deadline. A request probes once. A request whose prompt another engine has
just computed (kv_transfer_params larder: await) probes again while chunks are missing, for a share
of the computing time. Owned by the scheduler's thread."""

import math
import time
from dataclasses import dataclass

from larder.client import LarderError, Probed
from larder.vllm.fail_safe import late
from larder.vllm.keys import stride_of
from larder.vllm.cost_model import ProbePlan

AGAIN_S = 0.01  # between two probes of one request


@dataclass
class Probe:
    """A probe for `chunks` chunks of a request, from chunk number `first` on."""

    question: tuple  # hashes, their stride, the namespace's number
    first: int
    chunks: int
    plan: ProbePlan
    until: float  # the time of its last probe
    ticket: int | None = None  # None: no question to larderd is under way
    again_at: float = 0.0
    answer: Probed | None = None
    ended: bool = False


class TierProbes:
    def __init__(self, client, worth, clock=time.monotonic):
        self._client = client
        self._worth = worth
        self._clock = clock
        self._probes: dict[str, Probe] = {}  # until the request ends

    def runs(self, request_id):
        """Whether the request waits for its probe."""
        probe = self._probes.get(request_id)
        return probe is not None and not probe.ended and not self._see(request_id, probe, 0)

    def begin(self, request, space, first, hashes, lacking_tokens):
        """Begins a probe if it is worth the time. Returns whether one was begun, for which the
        request then waits."""
        if request.request_id in self._probes:
            return False
        awaited = (request.kv_transfer_params or {}).get("larder") == "await"
        plan = self._worth.probe(lacking_tokens, awaited)
        if plan is None:
            return False
        stride = stride_of(request)
        question = hashes, stride, space.number
        probe = Probe(question, first, len(hashes) // stride, plan, self._clock() + plan.patience_s)
        if not self._ask(probe):
            return False
        self._probes[request.request_id] = probe
        return True

    def found(self, request_id, first):
        """(the chunks that a fetch finds from number `first` on, the answer); None if the backend
        has none of them."""
        probe = self._probes.get(request_id)
        if probe is None or not probe.ended or not probe.answer.shared:
            return None
        if first < probe.first:  # vLLM's own cache has lost earlier chunks, about which the probe did not ask
            return None
        return probe.first + probe.answer.chunks - first, probe.answer

    def forget(self, request_id):
        """The request ended."""
        probe = self._probes.pop(request_id, None)
        if probe is not None and probe.ticket is not None:
            self._client.probe_end(probe.ticket)

    def rest(self, wait_ms):
        """Waits wait_ms at most for a running probe. False: no probe runs."""
        for request_id, probe in self._probes.items():
            if not probe.ended:
                if probe.ticket is None:
                    time.sleep(wait_ms / 1e3)
                self._see(request_id, probe, wait_ms if probe.ticket is not None else 0)
                return True
        return False

    def _ask(self, probe):
        hashes, stride, number = probe.question
        deadline_s = max(probe.plan.deadline_s, probe.until - self._clock())
        try:
            probe.ticket = self._client.probe(hashes, stride, math.ceil(deadline_s * 1e3), number)
        except LarderError:
            return False
        return True

    def _see(self, request_id, probe, wait_ms):
        """Whether the probe has ended; then notes the result."""
        if probe.ticket is None:
            if self._clock() < probe.again_at:
                return False
            if not self._ask(probe):
                return self._end(request_id, probe)
        answer = self._client.probe_poll(probe.ticket, wait_ms)
        if answer is None:
            return False
        self._client.probe_end(probe.ticket)
        probe.ticket, probe.answer = None, answer
        self._worth.probed(probe.plan, answer.elapsed_s, answer.late)
        now = self._clock()
        if answer.chunks < probe.chunks and answer.reason == "done" and now < probe.until:
            probe.again_at = now + AGAIN_S
            return False
        return self._end(request_id, probe)

    def _end(self, request_id, probe):
        probe.ended = True
        answer = probe.answer
        if probe.plan.patience_s:
            self._worth.awaited(answer.chunks == probe.chunks)
        late.info(
            "Looked: %d of %d chunks are there, %d of them in the backend, for request %s in %.1f ms%s",
            answer.chunks,
            probe.chunks,
            answer.shared,
            request_id,
            answer.elapsed_s * 1e3,
            "" if answer.reason == "done" else f" ({answer.reason})",
        )
        return True
