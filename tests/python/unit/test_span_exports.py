"""SpanExports over real HTTP: a receiver that answers, is away, is slow, or refuses."""

import http.server
import logging
import threading
import time

import pytest

pytest.importorskip("vllm")

from fakes import setup  # noqa: E402
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: E402
    ExportTraceServiceRequest,
)

from larder.vllm import span_exports  # noqa: E402
from larder.vllm.span_exports import MOST_QUEUED, Sender, Span, SpanExports, open_exports  # noqa: E402

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
WAIT_S = 20


class Receiver:
    """An OTLP/HTTP receiver that answers with `status`, after `delay_s`."""

    def __init__(self):
        self.status, self.delay_s, self.messages = 200, 0.0, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(outer.delay_s)
                message = ExportTraceServiceRequest.FromString(body)
                outer.messages.append((self.path, dict(self.headers), message))
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/traces"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self):
        return [
            span
            for _, _, message in tuple(self.messages)
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def exports_to(monkeypatch):
    """Makes SpanExports with a short wait between two messages."""
    monkeypatch.setattr(span_exports, "EVERY_S", 0.02)
    made = []

    def make(url, **more):
        made.append(SpanExports(Sender(url, {"larder.model": "m"}), **more))
        return made[-1]

    yield make
    for one in made:
        if not one._stop.is_set():
            one.stop()


@pytest.fixture
def lines():
    """The warnings of Larder and of OpenTelemetry's exporter."""
    found = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())
    loggers = [logging.getLogger(name) for name in ("vllm.larder", *span_exports._LOGGERS)]
    for logger in loggers:
        logger.addHandler(handler)
    yield lambda: tuple(found)
    for logger in loggers:
        logger.removeHandler(handler)


def span(headers=None, failure="", **attributes):
    begun = 1_700_000_000_000_000_000
    return Span(headers, begun, begun + 5_000_000, attributes, failure)


def headers(flags="01"):
    return {"traceparent": f"00-{TRACE}-{PARENT}-{flags}"}


def wait_for(condition):
    until = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_receiver_gets_the_span_below_its_parent(receiver, exports_to):
    exports = exports_to(receiver.url)
    exports.add(span(headers(), **{"larder.tiers": ("memory", "disk"), "larder.load.bytes": 7}))
    exports.add(span(headers(), failure="evicted"))
    wait_for(lambda: len(receiver.spans()) == 2)
    first, second = receiver.spans()
    assert first.trace_id.hex() == TRACE and first.parent_span_id.hex() == PARENT
    assert first.name == "larder.request"
    assert first.end_time_unix_nano - first.start_time_unix_nano == 5_000_000
    values = {one.key: one.value for one in first.attributes}
    assert [one.string_value for one in values["larder.tiers"].array_value.values] == [
        "memory",
        "disk",
    ]
    assert values["larder.load.bytes"].int_value == 7
    assert (second.status.code, second.status.message) == (2, "evicted")
    resource = receiver.messages[0][2].resource_spans[0].resource
    assert {"larder.model": "m"}.items() <= {
        one.key: one.value.string_value for one in resource.attributes
    }.items()
    wait_for(lambda: exports._counts["sent"] == 2)
    assert exports.take_counts() == {"sent": 2} and exports.take_counts() == {}


def test_the_parent_decides_about_its_sample_and_a_request_without_one_begins_a_trace(
    receiver, exports_to
):
    exports = exports_to(receiver.url)
    exports.add(span(headers("00")))
    exports.add(span({"traceparent": "no such thing"}))
    exports.add(span())
    wait_for(lambda: len(receiver.spans()) == 2)
    assert {one.parent_span_id for one in receiver.spans()} == {b""}
    assert TRACE not in {one.trace_id.hex() for one in receiver.spans()}


def test_the_standard_variables_count(receiver, exports_to, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "chat")
    exports_to(receiver.url).add(span())
    wait_for(receiver.spans)
    _, sent, message = receiver.messages[0]
    assert sent["x-key"] == "secret"
    assert "chat" in str(message.resource_spans[0].resource)


# covers F-421
def test_a_receiver_that_refuses_is_told_once_a_minute_and_counted(receiver, exports_to, lines):
    now = [0.0]
    receiver.status = 400
    exports = exports_to(receiver.url, clock=lambda: now[0])
    for told in (1, 1, 2):
        before = exports._counts["failed"]
        exports.add(span())
        wait_for(lambda: exports._counts["failed"] == before + 1)
        assert len(lines()) == told, lines()
        now[0] += 40
    assert "1 spans of requests were not sent to" in lines()[0] and "400" in lines()[0]
    assert "2 spans of requests were not sent to" in lines()[1]
    receiver.status = 200
    exports.add(span())
    wait_for(lambda: exports._counts["sent"] == 1)
    assert exports.take_counts() == {"sent": 1, "failed": 3}


# covers F-420
def test_without_a_receiver_add_never_waits_and_stop_ends_in_time(
    receiver, exports_to, lines, monkeypatch
):
    monkeypatch.setattr(span_exports, "LAST_S", 0.5)
    receiver.server.shutdown()
    receiver.server.server_close()
    exports = exports_to(receiver.url)
    slowest = 0.0
    for _ in range(3):
        begin = time.perf_counter()
        exports.add(span())
        slowest = max(slowest, time.perf_counter() - begin)
        time.sleep(0.05)
    assert slowest < 0.05
    begin = time.monotonic()
    exports.stop()
    assert time.monotonic() - begin < 5
    wait_for(lambda: not exports._thread.is_alive())
    assert exports._counts["failed"] >= 1
    assert len(lines()) == 1 and "Larder: 1 spans" in lines()[0], lines()


# covers F-422, F-423
def test_a_slow_receiver_costs_spans_and_no_time(receiver, exports_to, monkeypatch):
    monkeypatch.setattr(span_exports, "LAST_S", 0.1)
    receiver.delay_s = 3
    exports = exports_to(receiver.url)
    exports.add(span())
    wait_for(lambda: not exports._queue)  # the thread waits for the receiver now
    begin = time.perf_counter()
    for _ in range(MOST_QUEUED + 5):
        exports.add(span())
    assert time.perf_counter() - begin < 1
    assert len(exports._queue) == MOST_QUEUED and exports.take_counts() == {"full": 5}


def test_nothing_is_sent_unless_asked_for(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert open_exports(setup()) is None and open_exports(None) is None


def test_a_vllm_without_opentelemetry_says_so(monkeypatch, lines):
    monkeypatch.setitem(
        __import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None
    )
    assert open_exports(setup(traces_endpoint="http://127.0.0.1:1/v1/traces")) is None
    assert "no traces are sent to http://127.0.0.1:1/v1/traces" in lines()[0]
