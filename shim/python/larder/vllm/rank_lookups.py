"""Look-ups by an engine's ranks in their own larderds. The scheduler's half sees the memory of its
own larderd alone. If ranks use other larderds, a hit is the smallest answer of all ranks.

The next step asks about a request with a hit here. Each worker answers in the report of that
step, or at the end of a fetch from its lower tiers. vLLM hears "not yet" meanwhile. An answer may
be wrong by the time of the load: the load then fails, and the request is computed. Owned by the
scheduler's thread."""

import math
import time
from dataclasses import dataclass

from larder.vllm.messages import RankLookup

MOST_OPEN = 128  # look-ups without all answers at one time; further requests wait
# For all answers, besides the time of a fetch. A silent worker holds up the steps too: this
# deadline is the last resort.
ANSWER_WAIT_S = 10.0
COUNTS_S = 1.0  # the age at which an answer is too old for a load


@dataclass
class Asked:
    number: int
    key: tuple  # (number of the namespace, first chunk)
    deadline: float  # of the answers
    workers: int = 0  # that have answered
    chunks: int = 0  # that all of these have
    counts_until: float = math.inf  # with all answers: the end of their use


class RankLookups:
    def __init__(self, workers, clock=time.monotonic):
        """workers: of the engine."""
        self._workers, self._clock = workers, clock
        self._number = 0
        self._asked: dict[str, Asked] = {}  # by request; each until forget()
        self._to_send: list[RankLookup] = []

    def reach(self, request_id, space, first, hashes, stride, fetch_s):
        """The number of chunks that all ranks have, of a hit with these hashes that begins with
        chunk `first`. None: not known yet. fetch_s: the time that ranks may take to fetch missing
        chunks; 0: they fetch none."""
        asked = self._asked.get(request_id)
        if asked is not None and (asked.key != (space.number, first) or self._is_old(asked)):
            asked = None
        if asked is None:
            if sum(map(self._is_open, self._asked.values())) >= MOST_OPEN:
                return None
            self._number += 1
            chunks, deadline = len(hashes) // stride, self._clock() + fetch_s + ANSWER_WAIT_S
            asked = self._asked[request_id] = Asked(
                self._number, (space.number, first), deadline, chunks=chunks
            )
            self._to_send.append(
                RankLookup(self._number, hashes, stride, space.line, int(fetch_s * 1e3))
            )
        if asked.workers < self._workers:
            return None if self._clock() < asked.deadline else first  # mutation: rank-silent
        # This larderd may have evicted chunks since the question.
        return first + min(asked.chunks, len(hashes) // stride)

    def _is_open(self, asked):
        return asked.workers < self._workers and self._clock() < asked.deadline

    def _is_old(self, asked):
        return self._clock() >= asked.counts_until

    def take(self):
        """The look-ups for the workers in this step."""
        sent, self._to_send = self._to_send, []
        return tuple(sent)

    def answered(self, answers):
        """answers: of WorkerReport."""
        for asked in self._asked.values():
            workers, chunks = answers.get(asked.number, (0, asked.chunks))
            asked.workers += workers
            asked.chunks = min(asked.chunks, chunks)  # mutation: rank-least
            if workers and asked.workers >= self._workers:
                asked.counts_until = self._clock() + COUNTS_S

    def forget(self, request_id):
        """The request has its blocks, or ended."""
        self._asked.pop(request_id, None)
