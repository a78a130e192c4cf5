"""The times of requests' first tokens, by hit and miss. Owned by the scheduler's thread."""

import time
from dataclasses import dataclass
from typing import Any


@dataclass
class Waiting:
    request: Any  # vLLM's
    cache: str  # hit, own or miss


class FirstTokens:
    def __init__(self, observed, clock=time.time):
        """clock: the clock of vLLM's arrival times."""
        self._observed, self._clock = observed, clock
        self._waiting: dict[str, Waiting] = {}

    def begin(self, request, local_tokens, external_tokens):
        """vLLM has blocks for the request. A preempted request comes again; the first call
        counts."""
        cache = (
            "hit"
            if external_tokens
            else "own"
            if local_tokens * 2 >= request.num_prompt_tokens
            else "miss"
        )
        self._waiting.setdefault(request.request_id, Waiting(request, cache))

    def missed(self, request_id):
        """The request's load failed, and the tokens of the hit are computed."""
        if request_id in self._waiting:
            self._waiting[request_id].cache = "miss"

    def look(self):
        """Call this after a step."""
        if not self._waiting:
            return
        for request_id in [
            name for name, waiting in self._waiting.items() if waiting.request.num_output_tokens
        ]:
            self.end(request_id)

    def end(self, request_id):
        """The request has a first token, or ends without a token."""
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None and waiting.request.num_output_tokens:
            self._observed.first_token(
                waiting.cache, max(self._clock() - waiting.request.arrival_time, 0.0)
            )
