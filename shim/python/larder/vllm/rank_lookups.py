"""Look-ups by an engine's ranks in their own larderds. The scheduler's half sees the memory of its own
larderd alone; where ranks use others, a hit is what all of them have.

A request with a hit here is asked about in the next step, and each worker answers in that step's
report, or when a fetch from its lower tiers has ended. vLLM hears "not yet" meanwhile. An answer may be wrong by the time of the load: the load fails
then, and the request is computed. Owned by the scheduler's thread."""

import time
from dataclasses import dataclass

from larder.vllm.messages import RankLookup

MOST = 128  # requests asked about at one time; a further one misses
WAIT_S = 1.0  # for the answers, besides a fetch, and how long an answer counts


@dataclass
class Asked:
    number: int
    key: tuple  # (number of the namespace, first chunk)
    until: float
    workers: int = 0  # that have answered
    chunks: int = 0  # that all of these have


class RankLookups:
    def __init__(self, workers, clock=time.monotonic):
        """workers: of the engine."""
        self._workers, self._clock = workers, clock
        self._number = 0
        self._asked: dict[str, Asked] = {}  # by request
        self._to_send: list[RankLookup] = []

    def reach(self, request_id, space, first, hashes, stride, fetch_s):
        """The chunks of a hit that all ranks have, of the chunks with these hashes, which begin with chunk
        `first`. None: not known yet. fetch_s: how long the ranks may fetch what they lack; 0: they do
        not."""
        asked = self._asked.get(request_id)
        if asked is not None and (asked.key != (space.number, first) or self._is_old(asked)):
            asked = None
        if asked is None:
            if len(self._asked) - (request_id in self._asked) >= MOST:
                return first
            self._number += 1
            chunks, until = len(hashes) // stride, self._clock() + fetch_s + WAIT_S
            asked = self._asked[request_id] = Asked(self._number, (space.number, first), until, chunks=chunks)
            self._to_send.append(RankLookup(self._number, hashes, stride, space.line, int(fetch_s * 1e3)))
        if asked.workers < self._workers:
            return None if self._clock() < asked.until else first  # mutation: rank-silent
        return first + asked.chunks

    def _is_old(self, asked):
        return asked.workers >= self._workers and self._clock() >= asked.until

    def take(self):
        """What the workers are asked in this step."""
        sent, self._to_send = self._to_send, []
        return tuple(sent)

    def answered(self, answers):
        """answers: of WorkerReport."""
        for asked in self._asked.values():
            workers, chunks = answers.get(asked.number, (0, asked.chunks))
            asked.workers += workers
            asked.chunks = min(asked.chunks, chunks)  # mutation: rank-least
            if workers and asked.workers >= self._workers:
                asked.until = self._clock() + WAIT_S

    def forget(self, request_id):
        """The request has its blocks, or ended."""
        self._asked.pop(request_id, None)
