"""Looks of the scheduler's half: of a request that misses chunks, larderd is asked whether the backend has them.

What others have put there no region shows. A look takes little, and is left out where even that is much against computing what the
request lacks (worth); it has a deadline, which the library counts. A request looks once; but one that says that another engine has just
computed its prompt (kv_transfer_params larder: await) looks again while something is missing, for a share of that time. Owned by the
scheduler's thread."""

import math
import time
from dataclasses import dataclass

from larder.client import LarderError, Looked
from larder.vllm.guard import late
from larder.vllm.keys import stride_of
from larder.vllm.worth import LookPlan

AGAIN_S = 0.01  # between two looks of one request


@dataclass
class Look:
    """For `chunks` of a request, the first of which is its chunk number `first`."""

    question: tuple  # hashes, their stride, the namespace's number
    first: int
    chunks: int
    plan: LookPlan
    until: float  # by then it looks for the last time
    ticket: int | None = None  # None: no larderd is asked just now
    again_at: float = 0.0
    answer: Looked | None = None
    ended: bool = False


class Looks:
    def __init__(self, client, worth, clock=time.monotonic):
        self._client = client
        self._worth = worth
        self._clock = clock
        self._looks: dict[str, Look] = {}  # until the request ends

    def runs(self, request_id):
        """Whether the request waits for its look."""
        look = self._looks.get(request_id)
        return look is not None and not look.ended and not self._see(request_id, look, 0)

    def begin(self, request, space, first, hashes, lacking_tokens):
        """Whether a look was begun, which the request waits for. It begins one."""
        if request.request_id in self._looks:
            return False
        awaited = (request.kv_transfer_params or {}).get("larder") == "await"
        plan = self._worth.look(lacking_tokens, awaited)
        if plan is None:
            return False
        stride = stride_of(request)
        question = hashes, stride, space.number
        look = Look(question, first, len(hashes) // stride, plan, self._clock() + plan.patience_s)
        if not self._ask(look):
            return False
        self._looks[request.request_id] = look
        return True

    def found(self, request_id, first):
        """(how many chunks from number `first` on a fetch finds, the answer), where some of them are in the backend, else None."""
        look = self._looks.get(request_id)
        if look is None or not look.ended or not look.answer.shared:
            return None
        if first < look.first:  # vLLM's own cache has lost what came before: nobody has asked about that
            return None
        return look.first + look.answer.chunks - first, look.answer

    def forget(self, request_id):
        """The request ended."""
        look = self._looks.pop(request_id, None)
        if look is not None and look.ticket is not None:
            self._client.look_end(look.ticket)

    def rest(self, wait_ms):
        """Waits so long at most for one that runs. False: none does."""
        for request_id, look in self._looks.items():
            if not look.ended:
                if look.ticket is None:
                    time.sleep(wait_ms / 1e3)
                self._see(request_id, look, wait_ms if look.ticket is not None else 0)
                return True
        return False

    def _ask(self, look):
        hashes, stride, number = look.question
        deadline_s = max(look.plan.deadline_s, look.until - self._clock())
        try:
            look.ticket = self._client.look(hashes, stride, math.ceil(deadline_s * 1e3), number)
        except LarderError:
            return False
        return True

    def _see(self, request_id, look, wait_ms):
        """Whether it has ended, and what comes of that."""
        if look.ticket is None:
            if self._clock() < look.again_at:
                return False
            if not self._ask(look):
                return self._end(request_id, look)
        answer = self._client.look_poll(look.ticket, wait_ms)
        if answer is None:
            return False
        self._client.look_end(look.ticket)
        look.ticket, look.answer = None, answer
        self._worth.looked(look.plan, answer.elapsed_s, answer.late)
        now = self._clock()
        if answer.chunks < look.chunks and answer.reason == "done" and now < look.until:
            look.again_at = now + AGAIN_S
            return False
        return self._end(request_id, look)

    def _end(self, request_id, look):
        look.ended = True
        answer = look.answer
        if look.plan.patience_s:
            self._worth.awaited(answer.chunks == look.chunks)
        late.info(
            "Looked: %d of %d chunks are there, %d of them in the backend, for request %s in %.1f ms%s",
            answer.chunks,
            look.chunks,
            answer.shared,
            request_id,
            answer.elapsed_s * 1e3,
            "" if answer.reason == "done" else f" ({answer.reason})",
        )
        return True
