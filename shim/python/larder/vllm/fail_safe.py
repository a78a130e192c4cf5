"""No exception leaves the connector: the answer of a failing hook, and its one log line."""

import contextlib
import functools
import logging
import os
import sys
import threading
import time
from collections import deque

from vllm.logger import init_logger

from larder.vllm import words

logger = init_logger("vllm.larder")


class FailSafe:
    """One half of the connector. Once `off`, the half logs no more and answers like an empty
    cache."""

    def __init__(self, setup, client):
        self.setup = setup
        self.client = client
        self.off = None  # why the cache is not used

    def turn_off(self, why, level=logging.WARNING):
        if self.off is None:
            self.off = why
            logger.log(level, "Larder is off for this engine: %s", why)


def guarded(default):
    """Decorates a method of FailSafe: instead of raising, the method turns its half off and returns
    default()."""

    def wrap(method):
        @functools.wraps(method)
        def call(self, *args, **kwargs):
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                logger.debug("Larder: %s failed", method.__name__, exc_info=True)
                self.turn_off(words.of_fault(error, method.__name__))
                return default()

        return call

    return wrap


def _log_is_open():
    """Whether vLLM's log has a stream that takes lines. At the interpreter's exit the owner of the
    stream (a notebook, a test runner) may have closed the stream. Logging would then print a
    traceback for each line."""
    closed = []
    node = logger
    while node is not None:
        closed += [
            getattr(getattr(handler, "stream", None), "closed", False) for handler in node.handlers
        ]
        node = node.parent if node.propagate else None
    return not closed or not all(closed)


class LateLines:
    """Lines of the engine's thread about ordinary requests. A line costs the thread 0.2 ms, so a
    pump writes the line, up to half a second later but with the original time and place. Without a
    pump the line is written at once, so every kept line has a thread to write the line."""

    def __init__(self):
        self._lines = deque(maxlen=4096)
        self._pumps = 0
        self._lock = threading.Lock()

    def info(self, text, *args):
        if logger.isEnabledFor(logging.INFO):
            caller = sys._getframe(1)
            line = time.time(), caller.f_code, caller.f_lineno, text, args
            if self._pumps:
                self._lines.append(line)
            else:
                _handle(*line)

    def add_pump(self, count):
        """count: 1 when a pump begins, -1 when it ends. The ending pump then calls write()."""
        with self._lock:
            self._pumps += count

    def write(self):
        while self._lines:
            with contextlib.suppress(IndexError):  # another pump of this process was faster
                _handle(*self._lines.popleft())


def _handle(created, code, number, text, args):
    """Gives a line with its original time and place to the logger."""
    place = code.co_filename, number, text, args, None, code.co_name
    record = logger.makeRecord(logger.name, logging.INFO, *place)
    # makeRecord() takes the present time
    record.created, record.msecs = created, created % 1 * 1000
    logger.handle(record)


late = LateLines()
# a child has no pump, and the unwritten lines belong to the parent
os.register_at_fork(after_in_child=late.__init__)


class LogPump:
    """Carries the native threads' log lines and the late lines to vLLM's logger, twice a second, on
    a thread of its own."""

    _LEVELS = {"error": logger.error, "warning": logger.warning, "debug": logger.debug}
    _LAST_S = 2  # for a line that is being written at the end

    def __init__(self, client):
        self._client = client
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="larder-log", daemon=True)
        self._thread.start()
        late.add_pump(1)

    def _run(self):
        while not self._stop.wait(0.5):
            self._drain()

    def _drain(self):
        if not _log_is_open():
            return
        late.write()
        while (line := self._client.next_log()) is not None:
            level, text = line
            # The caller gets the same as an exception, and reports the error in a user's words.
            write = (
                logger.debug if text.startswith("larder_") else self._LEVELS.get(level, logger.info)
            )
            write("Larder: %s", text)

    def stop(self):
        """Call once, before the client is closed."""
        self._stop.set()
        self._thread.join(self._LAST_S)
        late.add_pump(-1)
        if not self._thread.is_alive():
            self._drain()
