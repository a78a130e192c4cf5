"""A worker's loads between the step that began them and their end.

Owned by the worker's thread; the copies run on the library's threads. Every load is told exactly
once, well or failed, and never while a thread still writes its pages."""

import time
from dataclasses import dataclass

from larder.vllm import words
from larder.vllm.fail_safe import late, logger


@dataclass
class Load:
    """One request's load: a ticket for each group, ended when all are."""

    request_id: str
    pages: tuple[int, ...] = ()
    tickets: int = 0
    failure: str = ""
    bytes: int = 0
    wait_ns: int = 0
    copy_ns: int = 0


class LoadsUnderWay:
    def __init__(self, client):
        self._client = client
        self._tickets: dict[int, Load] = {}
        # not taken yet; a load may fail before anything was started, or be without a part of this
        # worker's
        self._ended: list[Load] = []

    def __bool__(self):
        return bool(self._tickets or self._ended)

    def begin(self, load, orders):
        """orders: arguments of Client.load, one for each group. An exception of theirs, or of
        Client.load, is the load's failure."""
        try:
            for order in orders:
                self._tickets[self._client.load(*order)] = load
                load.tickets += 1
        except Exception as error:
            foreseen = type(error) is LookupError
            load.failure = str(error) if foreseen else words.of_fault(error, "load")
            if not load.tickets:  # else the load has failed once all started copies have ended
                text = "Request %s is computed, not loaded: %s"
                logger.warning(text, load.request_id, load.failure)
        if not load.tickets:
            self._ended.append(load)

    def poll(self, wait_ms):
        """Waits for the end of a load, at most so long. The groups of a load end one after the
        other: the end of the first one is no reason for a step of the engine."""
        until = time.monotonic() + wait_ms / 1e3
        while self._tickets and (completions := self._client.poll(wait_ms)):
            self._note(completions)
            wait_ms = int(1e3 * (until - time.monotonic()))
            if self._ended or wait_ms < 1:
                return

    def _note(self, completions):
        for completion in completions:
            load = self._tickets.pop(completion.ticket, None)
            if load is None:
                continue
            load.tickets -= 1
            load.bytes += completion.bytes
            load.wait_ns = max(load.wait_ns, completion.wait_ns)
            load.copy_ns += completion.copy_ns
            if not completion.ok:
                load.failure = load.failure or words.of_load(completion.reason)
            if not load.tickets:
                self._ended.append(load)
                _tell(load)

    def take_ended(self):
        """Loads that have ended since the last call; each once."""
        ended, self._ended = self._ended, []
        return ended


def _tell(load):
    if load.failure:
        text = "Load of request %s failed (%s): the engine computes the prompt"
        logger.warning(text, load.request_id, load.failure)
    else:
        late.info(
            "Loaded %d bytes for request %s: waited %.2f ms, copied and verified in %.2f ms",
            load.bytes,
            load.request_id,
            load.wait_ns / 1e6,
            load.copy_ns / 1e6,
        )
