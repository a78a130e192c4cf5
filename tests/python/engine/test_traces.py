"""Spans of a served engine in a real OpenTelemetry collector: parent, tiers and bytes. Also an
engine whose collector is away, stopped or back. `make test-traces`."""

import os
import re
import signal
import time
import types
from pathlib import Path

import pytest
from engines import PATIENCE_S, SLACK_S, Engine, committed_chunks, prompt, start_larderd, wait_for
from harness.process import Process
from harness.redis import RedisServer
from harness.vllm_server import free_port

from larder import completions
from larder.server import Server

pytestmark = pytest.mark.traces
CHUNK, TOKENS = 128, 2000
WHOLE = TOKENS // CHUNK * CHUNK  # 15 chunks of 256 KiB
CHUNK_BYTES = 256 << 10
MEMORY, OTHERS = "24MiB", 7  # as in test_lower_tiers: one prompt and the others do not fit
LOST = "spans of requests were not sent"
CONFIG = """
receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}
exporters:
  debug: {{verbosity: detailed, use_internal_logger: false, output_paths: [stdout]}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [debug]}}
"""


class Collector(Process):
    def __init__(self, folder, port, number=0):
        config = folder / "collector.yaml"
        config.write_text(CONFIG.format(port=port))
        super().__init__(
            "the collector",
            [os.environ["LARDER_COLLECTOR"], f"--config=file:{config}"],
            dict(os.environ),
            folder / f"collector-{number}.log",
        )
        self.wait_until(lambda: "Everything is ready" in self.log.read_text(), 30)

    def spans(self):
        """{"name", "trace", "parent", ATTRIBUTE: text} of each received span."""
        found = []
        for text in self.log.read_text().split("\nSpan #")[1:]:
            text = text.split("ResourceSpans #")[0]  # of the next message
            span = dict(re.findall(r"^     -> ([\w.]+): \w+\((.*)\)$", text, re.M))
            for key, label in (("name", "Name"), ("trace", "Trace ID"), ("parent", "Parent ID")):
                span[key] = re.search(rf"^    {label} *: *(.*)$", text, re.M)[1].strip()
            found.append(span)
        return found

    def the_span(self, trace, name="larder.request"):
        """The only one of the name in the trace, once it is there."""
        wait_for(lambda: self._of(trace, name), PATIENCE_S, f"a span {name} of {trace}")
        (span,) = self._of(trace, name)
        return span

    def _of(self, trace, name):
        return [one for one in self.spans() if (one["trace"], one["name"]) == (trace, name)]


@pytest.fixture(scope="module")
def world(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    (folder / "disk").mkdir()
    world = types.SimpleNamespace(folder=folder, port=free_port(), number=0)
    world.collector = Collector(folder, world.port)
    url = f"http://127.0.0.1:{world.port}"
    larderd = start_larderd(
        folder,
        MEMORY,
        extra=f"disk:\n  path: {folder}/disk\n  size: 1GiB\n  write: through\n",
    )
    redis = RedisServer(folder / "redis")
    world.backend = f"backend:\n  url: {redis.url}\n  prefix: test\n"
    with Engine(
        model,
        folder / "larder.sock",
        folder,
        "--otlp-traces-endpoint",
        f"{url}/v1/traces",
        extra={"traces_endpoint": url},
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_TIMEOUT="2",
        OTEL_SERVICE_NAME="chat",
    ) as engine:
        engine.wait_ready()
        world.engine, engine.larderd = engine, larderd
        engine.store(prompt("speed", TOKENS))
        yield world
    engine.larderd.stop()
    redis.stop()
    world.collector.stop()


def ask(world, text, number):
    """Asks as a client with a trace of its own. Returns (trace, parent, seconds)."""
    trace, parent = f"{number:032x}", f"{number:016x}"
    server = Server(world.engine.url)
    server._headers["traceparent"] = f"00-{trace}-{parent}-01"
    begin = time.monotonic()
    completions.stream_completion(server, "tiny", text, 4, timeout_s=60)
    return trace, parent, time.monotonic() - begin


def outcomes(world):
    with Server(world.engine.url).request("GET", "/metrics") as response:
        text = response.read().decode()
    found = re.findall(r'^larder_engine_spans_total\{.*outcome="(\w+)".*\} (\S+)$', text, re.M)
    return {outcome: float(value) for outcome, value in found}


def test_a_computed_request_and_a_hit_are_below_the_clients_span_beside_vllms(world):
    text = prompt("memory", TOKENS)
    trace, parent, _ = ask(world, text, 0x101)
    span = world.collector.the_span(trace)
    assert (span["larder.decision"], span["larder.reason"]) == ("computed", "absent")
    world.engine.store(text)
    world.engine.reset()
    trace, parent, _ = ask(world, text, 0x102)
    span = world.collector.the_span(trace)
    assert span["parent"] == parent
    assert world.collector.the_span(trace, "llm_request")["parent"] == parent
    assert span["larder.decision"] == "hit" and span["larder.tiers"] == '["memory"]'
    assert int(span["larder.loaded.tokens"]) == int(span["larder.memory.tokens"]) == WHOLE
    assert int(span["larder.load.bytes"]) == WHOLE // CHUNK * CHUNK_BYTES
    for name in ("lookup", "load.copy"):
        assert 0 < float(span[f"larder.{name}.duration"]) < SLACK_S


def test_a_hit_of_the_disk_names_the_disk(world):
    text = prompt("disk", TOKENS)
    world.engine.store(text)
    number = 0x200

    def is_of_disk():
        """The disk may still write, or be too slow for once on a busy machine."""
        nonlocal number
        for other in range(OTHERS):
            world.engine.store(prompt(f"other {number} {other}", TOKENS))
        committed_chunks(world.engine.larderd)
        world.engine.reset()
        number += 1
        trace, _, _ = ask(world, text, number)
        span = world.collector.the_span(trace)
        return span if "disk" in span.get("larder.tiers", "") else None

    wait_for(is_of_disk, PATIENCE_S, "a hit of the disk")
    span = world.collector.the_span(f"{number:032x}")
    tokens = [int(span.get(f"larder.{tier}.tokens", 0)) for tier in ("memory", "disk", "shared")]
    assert sum(tokens) == int(span["larder.loaded.tokens"]) and tokens[1] > 0 == tokens[2]
    assert span["larder.fetch.outcome"] == "done" and int(span["larder.fetch.bytes"]) > 0
    assert float(span["larder.wait.duration"]) > 0


def test_a_hit_of_the_backend_is_shared(world):
    """A second larderd with an empty memory finds the chunks of the first one in the backend."""
    text, engine = prompt("backend", TOKENS), world.engine

    def next_larderd():
        engine.larderd.stop()
        engine.larderd = start_larderd(world.folder, extra=world.backend)
        attached = lambda: len(engine.larderd.status()["sessions"]["attached"]) == 2  # noqa: E731
        wait_for(attached, PATIENCE_S, "attaching")

    number = 0x280

    def is_of_backend():
        """The probe may be late for once on a busy machine."""
        nonlocal number
        next_larderd()
        engine.store(text)
        written = lambda: engine.larderd.status()["backend"]["chunks"] >= WHOLE // CHUNK  # noqa: E731
        wait_for(written, PATIENCE_S, "writing to the backend")
        next_larderd()
        engine.reset()
        number += 1
        span = world.collector.the_span(ask(world, text, number)[0])
        return "shared" in span.get("larder.tiers", "")

    wait_for(is_of_backend, 2 * PATIENCE_S, "a hit of the backend")
    span = world.collector.the_span(f"{number:032x}")
    assert span["larder.tiers"] == '["shared"]'
    assert int(span["larder.shared.tokens"]) == int(span["larder.loaded.tokens"]) > 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
# covers F-420, F-422
def test_an_engine_without_a_collector_is_as_fast_and_counts(world, how):
    text = prompt(f"away {how}", 300)
    before = outcomes(world)
    usual = max(ask(world, text, 0x300 + i)[2] for i in range(5))
    os.kill(world.collector.child.pid, how)
    slow = [ask(world, text, 0x400 + i)[2] for i in range(5)]
    assert min(slow) < usual + 0.5, "a wait for the collector is 2 s"

    def counted():
        ask(world, text, 0x500)  # vLLM takes the figures in a step
        return outcomes(world)["failed"] > before["failed"]

    wait_for(counted, PATIENCE_S, "a count of lost spans")
    assert len(world.engine.logged(LOST)) == 1, "one line a minute"
    if how == signal.SIGSTOP:
        os.kill(world.collector.child.pid, signal.SIGCONT)
    else:
        world.collector.stop()
        world.number += 1
        world.collector = Collector(world.folder, world.port, world.number)
    numbers = iter(range(0x600 + how * 0x1000, 0xFFFFFF))

    def sent_again():
        trace = ask(world, text, next(numbers))[0]
        return any(one["trace"] == trace for one in world.collector.spans())

    wait_for(sent_again, PATIENCE_S, "spans after the collector's return")


def test_no_span_has_a_prompt_or_an_answer(world):
    allowed = Path(__file__).parents[3] / "docs" / "reference" / "traces.md"
    known = set(re.findall(r"^\| `(larder\.[\w.]+)`", allowed.read_text(), re.M))
    seen = {
        name
        for span in world.collector.spans()
        if span["name"] == "larder.request"
        for name in span
        if name not in ("name", "trace", "parent")
    }
    assert seen and seen <= known, seen - known
