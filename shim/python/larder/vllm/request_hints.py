"""The hints of a client for one request, kv_transfer_params["larder"], and the answer to them.

A hint is a word ("off", "await") or an object. A request with an object or with wrong hints gets an
answer in the kv_transfer_params of the response: the loaded tokens by tier, and the fault. A
request with wrong hints runs as without hints. Owned by the scheduler's thread."""

import json
import re
import reprlib
import time
from dataclasses import dataclass

from larder.vllm.fail_safe import logger

NAME = "larder"  # the key, in requests and in answers
OFF, AWAIT = "off", "await"
# Of an answer. A client may hand the kv_transfer_params of an answer to the next engine unchanged.
SERVED, FAULT = "served", "fault"
# The keys of an object, and the allowed values. KEEP has a time.
ALLOWED = {"priority": ("normal", "low"), "release": (True, False)}
KEEP = "keep"
UNITS = {"s": 1, "m": 60, "h": 3600}  # of a time, in seconds
MOST_KEEP_S = 24 * 3600
TELL_EVERY_S = 60.0


def word_of(request):
    """The hint of the request if it is a word, else an object or None."""
    params = request.kv_transfer_params  # vLLM's vllm_xargs lets a client put any value there
    return params.get(NAME) if isinstance(params, dict) else None


@dataclass(slots=True)
class Hints:
    """Of a request with an answer. served: the tokens that Larder loaded, by tier. low: the chunks
    that the request stored leave memory first, once the request has ended. release: all of its
    chunks do. keep_s: all of its chunks stay so long; 0: as others do."""

    served: dict
    fault: str = ""
    low: bool = False
    release: bool = False
    keep_s: int = 0

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
        if key == KEEP:
            if not seconds_of(one):
                return f'{NAME}.{KEEP} is {_shown(one)}, not a time of "1s" to "24h", such as "10m"'
            continue
        if key not in ALLOWED:
            known = f"{', '.join(ALLOWED)} and {KEEP}"
            return f"{NAME} has the unknown key {_shown(key)}: known are {known}"
        # a number is no boolean
        if not any(type(one) is type(good) and one == good for good in ALLOWED[key]):
            return (
                f"{NAME}.{key} is {_shown(one)}, not {' or '.join(map(json.dumps, ALLOWED[key]))}"
            )
    if KEEP in value and (value.get("release") or value.get("priority") == "low"):
        return f"{NAME}.{KEEP} stands beside release or low priority, which let chunks leave first"
    return ""


def seconds_of(time_):
    """The seconds of "90s", "10m" or "24h"; 0: no such time, or longer than MOST_KEEP_S."""
    match = isinstance(time_, str) and re.fullmatch(r"([0-9]{1,5})([smh])", time_)
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    return seconds if seconds <= MOST_KEEP_S else 0


def hints_of(value, served):
    """The Hints of an object, or of a value that is no hint."""
    if fault := fault_of(value):
        return Hints(served, fault)
    return Hints(
        served,
        "",
        value.get("priority") == "low",
        value.get("release", False),
        seconds_of(value.get(KEEP)),
    )


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
