"""SpanExports: sends the spans of requests to an OpenTelemetry collector by OTLP over HTTP.

The scheduler's thread only puts a span into a bounded queue: no network, no lock, no wait. A thread
of its own makes and sends the spans by OpenTelemetry's SDK, which vLLM requires. The SDK reads the
standard OTEL_* variables: headers, certificates, timeout, compression, sampler, resource. A span
without room in the queue is dropped and counted. So is a span that the collector does not take."""

import logging
import os
import threading
import time
from collections import deque
from typing import NamedTuple

from larder.vllm import words
from larder.vllm.fail_safe import logger

MOST_QUEUED = 2048
# Spans of one message, of 0.1 ms each. The thread holds Python's global lock meanwhile, and hands
# the lock to the engine's thread after 5 ms at most (sys.getswitchinterval).
MOST_SENT = 64
EVERY_S = 1.0
TELL_EVERY_S = 60.0
MOST_TOLD = 300  # characters of a line
LAST_S = 2.0  # for the spans that are left when the engine ends
# The SDK logs each failed message. This thread's lines are left out for the one of _tell().
_LOGGERS = ("opentelemetry.exporter.otlp.proto.http.trace_exporter",)


class Span(NamedTuple):
    """A finished span. headers: the request's `traceparent` and `tracestate`, or None. failure: ""
    or what failed."""

    headers: object
    begun_ns: int  # since the epoch
    ended_ns: int
    attributes: dict
    failure: str = ""


class SpanExports:
    """add() and take_counts() are for the scheduler's thread, stop() is for any."""

    def __init__(self, sender, clock=time.monotonic):
        """sender: a Sender."""
        self._sender, self._clock = sender, clock
        self._queue: deque[Span] = deque()
        # By outcome; each figure has one writer. full: no room in the queue. failed: not taken.
        self._counts = {"sent": 0, "failed": 0, "full": 0}
        self._taken = dict(self._counts)
        self._told_at, self._told = float("-inf"), 0
        self._stop, self._late = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="larder-traces", daemon=True)
        self._thread.start()

    def add(self, span):
        if len(self._queue) < MOST_QUEUED:  # mutation: spans-bounded
            self._queue.append(span)
        else:
            self.drop()

    def drop(self):
        """A request has no span."""
        self._counts["full"] += 1

    def take_counts(self):
        """{outcome: spans} since the last call, without zeros."""
        now = dict(self._counts)
        news = {name: count - self._taken[name] for name, count in now.items()}
        self._taken = now
        return {name: count for name, count in news.items() if count}

    def stop(self):
        """Sends the spans that are left, for LAST_S at most. Call once."""
        self._stop.set()
        self._thread.join(LAST_S)
        self._late = True
        self._sender.interrupt()

    def _run(self):
        while not self._stop.wait(EVERY_S):
            self._send_all()
        self._send_all()
        self._sender.close()

    def _send_all(self):
        while self._queue and not self._late:
            spans = [self._queue.popleft() for _ in range(min(MOST_SENT, len(self._queue)))]
            try:
                why_not = self._sender.send(spans)
            except Exception as error:
                why_not = words.of_error(error)
            self._counts["failed" if why_not else "sent"] += len(spans)
            if why_not:
                self._tell(why_not)

    def _tell(self, why_not):
        if self._clock() < self._told_at + TELL_EVERY_S:  # mutation: spans-told-once
            return
        lost = self._counts["failed"] + self._counts["full"]
        logger.warning(
            "Larder: %d spans of requests were not sent to %s: %s",
            lost - self._told,
            self._sender.endpoint,
            why_not,
        )
        self._told_at, self._told = self._clock(), lost


class Sender:
    """OpenTelemetry's SDK and exporter. For one thread, but interrupt() is for any. ImportError:
    vLLM's environment has no OpenTelemetry."""

    def __init__(self, endpoint, attributes):
        """attributes: of the resource, besides those of OTEL_RESOURCE_ATTRIBUTES."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.trace import Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        class Collects(SpanProcessor):
            def on_end(_, span):
                self._ended.append(span)

        self.endpoint = endpoint
        self._ended = []
        self._exporter = OTLPSpanExporter(endpoint=endpoint)
        provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        provider.add_span_processor(Collects())
        self._tracer = provider.get_tracer("larder")
        self._context_of = TraceContextTextMapPropagator().extract
        self._success = SpanExportResult.SUCCESS
        self._error = lambda text: Status(StatusCode.ERROR, text)
        self._lines = _OwnLines()
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._lines)

    def send(self, spans):
        """Why the collector has not taken the spans, or "". Waits for the collector's answer, for
        OTEL_EXPORTER_OTLP_TIMEOUT (10 s) and all repetitions at most."""
        self._ended.clear()
        for one in spans:
            self._make(one)
        if not self._ended:  # the sampler leaves all out
            return ""
        self._lines.begin()
        try:
            taken = self._exporter.export(tuple(self._ended)) is self._success
        finally:
            why_not = self._lines.end()
        return "" if taken else why_not or "the collector does not take them"

    def _make(self, span):
        made = self._tracer.start_span(
            "larder.request",
            context=self._context_of(span.headers or {}),
            attributes=span.attributes,
            start_time=span.begun_ns,
        )
        if span.failure:
            made.set_status(self._error(span.failure))
        made.end(end_time=max(span.begun_ns, span.ended_ns))

    def interrupt(self):
        """Ends the pause of a running send() before the next repetition. Call once."""
        self._exporter.shutdown()

    def close(self):
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._lines)


class _OwnLines(logging.Filter):
    """Leaves the lines of the thread between begin() and end() out of the log. Keeps the first,
    which has the cause; a later line only tells that the time for repetitions is over."""

    def __init__(self):
        super().__init__()
        self._thread, self._first = None, ""

    def begin(self):
        self._thread, self._first = threading.get_ident(), ""

    def end(self):
        self._thread = None
        return self._first

    def filter(self, record):
        if record.thread != self._thread:
            return True
        self._first = self._first or record.getMessage()[:MOST_TOLD]
        return False


def open_exports(setup):
    """SpanExports to the endpoint of the setup, or None: no traces are asked for, or vLLM's
    environment has no OpenTelemetry."""
    if setup is None or not setup.traces_endpoint:
        return None
    attributes = {"larder.model": setup.model}
    if pool := os.environ.get("LARDER_POOL"):
        attributes["larder.pool"] = pool
    try:
        return SpanExports(Sender(setup.traces_endpoint, attributes))
    except Exception as error:
        logger.warning(
            "Larder: no traces are sent to %s: %s: %s",
            setup.traces_endpoint,
            type(error).__name__,
            error,
        )
        return None
