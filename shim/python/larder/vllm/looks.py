"""Looks of the scheduler's half: of a request that misses chunks, larderd is asked once whether the backend has them.

What others have put there no region shows. A look takes little, and is left out where even that is much against computing what the
request lacks (worth); it has a deadline, which the library counts. Owned by the scheduler's thread."""

from dataclasses import dataclass

from larder.client import LarderError, Looked
from larder.vllm.guard import late
from larder.vllm.keys import stride_of
from larder.vllm.worth import LookPlan


@dataclass
class Look:
    """For `chunks` of a request, the first of which is its chunk number `first`."""

    ticket: int
    first: int
    chunks: int
    plan: LookPlan
    answer: Looked | None = None


class Looks:
    def __init__(self, client, worth):
        self._client = client
        self._worth = worth
        self._looks: dict[str, Look] = {}  # until the request ends

    def runs(self, request_id):
        """Whether the request waits for its look."""
        look = self._looks.get(request_id)
        return look is not None and look.answer is None and not self._see(request_id, look, 0)

    def begin(self, request, space, first, hashes, lacking_tokens):
        """Whether a look was begun, which the request waits for. It looks once."""
        plan = None if request.request_id in self._looks else self._worth.look(lacking_tokens)
        if plan is None:
            return False
        stride = stride_of(request)
        try:
            ticket = self._client.look(hashes, stride, plan.deadline_ms, space.number)
        except LarderError:
            return False
        self._looks[request.request_id] = Look(ticket, first, len(hashes) // stride, plan)
        return True

    def found(self, request_id, first):
        """(how many chunks from number `first` on a fetch finds, the answer), where some of them are in the backend, else None."""
        look = self._looks.get(request_id)
        if look is None or look.answer is None or not look.answer.shared:
            return None
        if first < look.first:  # vLLM's own cache has lost what came before: nobody has asked about that
            return None
        return look.first + look.answer.chunks - first, look.answer

    def forget(self, request_id):
        """The request ended."""
        look = self._looks.pop(request_id, None)
        if look is not None and look.answer is None:
            self._client.look_end(look.ticket)

    def rest(self, wait_ms):
        """Waits so long at most for one that runs. False: none does."""
        for request_id, look in self._looks.items():
            if look.answer is None:
                self._see(request_id, look, wait_ms)
                return True
        return False

    def _see(self, request_id, look, wait_ms):
        """Whether it has ended, and what comes of that."""
        answer = self._client.look_poll(look.ticket, wait_ms)
        if answer is None:
            return False
        self._client.look_end(look.ticket)
        look.answer = answer
        self._worth.looked(look.plan, answer.elapsed_s, answer.late)
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
