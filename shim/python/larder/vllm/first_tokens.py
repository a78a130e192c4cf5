"""When requests have their first token, and whether they had hit. Owned by the scheduler's thread."""

import time
from dataclasses import dataclass
from typing import Any


@dataclass
class Waiting:
    request: Any  # vLLM's
    cache: str  # hit, own or miss


class FirstTokens:
    def __init__(self, observed, clock=time.time):
        """clock: the one by which vLLM says when a request arrived."""
        self._observed, self._clock = observed, clock
        self._waiting: dict[str, Waiting] = {}

    def begin(self, request, local_tokens, external_tokens):
        """vLLM has blocks for the request. Again for one that was preempted: its first answer counts."""
        cache = "hit" if external_tokens else "own" if local_tokens * 2 >= request.num_prompt_tokens else "miss"
        self._waiting.setdefault(request.request_id, Waiting(request, cache))

    def missed(self, request_id):
        """Its load failed: what it was to hit is computed."""
        if request_id in self._waiting:
            self._waiting[request_id].cache = "miss"

    def look(self):
        """After a step."""
        if not self._waiting:
            return
        for request_id in [name for name, waiting in self._waiting.items() if waiting.request.num_output_tokens]:
            self.end(request_id)

    def end(self, request_id):
        """It has its first token, or ends without one."""
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None and waiting.request.num_output_tokens:
            self._observed.first_token(waiting.cache, max(self._clock() - waiting.request.arrival_time, 0.0))
