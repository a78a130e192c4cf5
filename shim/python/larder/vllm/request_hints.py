"""The hints of a client for one request, kv_transfer_params["larder"], and the answer to them.

A hint is a word ("off", "await") or an object. A request with an object or with wrong hints gets an
answer in the kv_transfer_params of the response: the loaded tokens by tier, and the fault. A
request with wrong hints runs as without hints. Owned by the scheduler's thread."""

import json
import reprlib
import time
from dataclasses import dataclass

from larder.vllm.fail_safe import logger

NAME = "larder"  # the key, in requests and in answers
OFF, AWAIT = "off", "await"
# Of an answer. A client may hand the kv_transfer_params of an answer to the next engine unchanged.
SERVED, FAULT = "served", "fault"
# The keys of an object, and the allowed values.
ALLOWED = {"priority": ("normal", "low"), "release": (True, False)}
TELL_EVERY_S = 60.0


def word_of(request):
    """The hint of the request if it is a word, else an object or None."""
    params = request.kv_transfer_params
    return params.get(NAME) if params else None


@dataclass(slots=True)
class Hints:
    """Of a request with an answer. served: the tokens that Larder loaded, by tier. low: the chunks
    that the request stored leave memory first, once the request has ended. release: all of its
    chunks do."""

    served: dict
    fault: str = ""
    low: bool = False
    release: bool = False

    def answer(self):
        answer = {SERVED: {"cached_tokens": sum(self.served.values()), **self.served}}
        if self.fault:
            answer[FAULT] = self.fault
        return {NAME: answer}


def fault_of(value):
    """Why the value of kv_transfer_params["larder"] is no hint, or ""."""
    if not isinstance(value, dict):
        if value in (OFF, AWAIT):
            return ""
        return f"{NAME} is {_shown(value)}, not {OFF!r}, {AWAIT!r} or an object"
    for key, one in value.items():
        if key in (SERVED, FAULT):
            continue
        if key not in ALLOWED:
            return f"{NAME} has the unknown key {_shown(key)}: known are {' and '.join(ALLOWED)}"
        # a number is no boolean
        if not any(type(one) is type(good) and one == good for good in ALLOWED[key]):
            return (
                f"{NAME}.{key} is {_shown(one)}, not {' or '.join(map(json.dumps, ALLOWED[key]))}"
            )
    return ""


def hints_of(value, served):
    """The Hints of an object, or of a value that is no hint."""
    if fault := fault_of(value):
        return Hints(served, fault)
    return Hints(served, "", value.get("priority") == "low", value.get("release", False))


def _shown(value):
    """A client's value in few characters and one line. reprlib would sort all keys of an object."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return reprlib.repr(value)


class RequestHints:
    def __init__(self, observed, clock=time.monotonic):
        """observed: Observed."""
        self._observed = observed
        self._clock = clock
        self._of: dict[str, Hints] = {}  # of requests with an answer and blocks, until they end
        self._told_at, self._left_out = float("-inf"), 0

    def admitted(self, request, served):
        """vLLM has blocks for the request. served: the tokens to load, by tier. A later call, after
        a preemption, has no effect. REQUIRES: the request has kv_transfer_params."""
        value = word_of(request)
        if value is None or value in (OFF, AWAIT) or request.request_id in self._of:
            return
        hints = self._of[request.request_id] = hints_of(value, served)
        if hints.fault:
            self._tell(request, hints.fault)

    def of(self, request_id):
        """The Hints of a request with an answer and blocks, or None."""
        return self._of.get(request_id)

    def load_failed(self, request_id):
        if request_id in self._of:
            hints = self._of[request_id]
            hints.served = dict.fromkeys(hints.served, 0)

    def take_answer(self, request_id):
        """The answer to a request that has ended, or None."""
        hints = self._of.pop(request_id, None)
        return hints and hints.answer()

    def _tell(self, request, fault):
        """The log has one line a minute at most: clients choose the hints."""
        self._observed.wrong_hints()
        if self._clock() < self._told_at + TELL_EVERY_S:  # mutation: hints-told-once
            self._left_out += 1
            return
        logger.warning(
            "Larder: request %s runs without its hints: kv_transfer_params.%s%s",
            request.request_id,
            fault,
            f" (left out: {self._left_out} more such lines)" if self._left_out else "",
        )
        self._told_at, self._left_out = self._clock(), 0
