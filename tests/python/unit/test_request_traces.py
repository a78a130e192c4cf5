"""One span a request, from the scheduler's half with traces: decision, tiers, bytes and times, over
fakes."""

import pytest

pytest.importorskip("vllm")

from fakes import FAST_AND_SHARED, NAMED, Client, Request, blocks, chunk_keys, ended, setup  # noqa: E402

from larder.lower_tiers import TierSpeed  # noqa: E402
from larder.vllm import request_traces  # noqa: E402
from larder.vllm.loads_under_way import Load  # noqa: E402
from larder.vllm.messages import LoadFigures, WorkerReport  # noqa: E402
from larder.vllm.request_traces import TracedScheduler  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402

PARENT = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
URL = "http://127.0.0.1:4318/v1/traces"


class Spans:
    """In place of SpanExports."""

    def __init__(self):
        self.all, self.counts, self.dropped = [], {}, 0

    def add(self, span):
        self.all.append(span)

    def drop(self):
        self.dropped += 1

    def take_counts(self):
        counts, self.counts = self.counts, {}
        return counts

    def the_one(self):
        (span,) = self.all
        return span.attributes


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def spans():
    return Spans()


@pytest.fixture
def half(client, spans):
    half = TracedScheduler(spans, setup(min_tokens=20), client, NAMED)
    half.update_connector_output(
        ended(meta=WorkerReport(prefill_tokens=4000, prefill_ns=10_000_000_000))
    )
    return half


def request(name="r", tokens=400, **fields):
    return Request(name, range(tokens), trace_headers=PARENT, **fields)


def admit(half, one, local=0):
    """Look-up, and blocks for it. Returns the tokens to load."""
    external, _ = half.get_num_new_matched_tokens(one, local)
    half.update_state_after_alloc(one, blocks(range(1, 30)), external)
    return external


def loaded(name="r", failed=(), **figures):
    return ended({name}, failed, WorkerReport(loads={name: LoadFigures(**figures)}))


def test_a_hit_of_memory_ends_with_its_load(half, client, spans):
    one = request()
    client.stored.update(chunk_keys(one))
    assert admit(half, one, local=32) == 352 and spans.all == []
    half.update_connector_output(loaded(bytes=12288, wait_ns=1_000_000, copy_ns=2_000_000))
    span = spans.the_one()
    durations = {name: span.pop(name) for name in tuple(span) if name.endswith(".duration")}
    assert span == {
        "larder.request.id": "r",
        "larder.prompt.tokens": 400,
        "larder.engine.tokens": 32,
        "larder.decision": "hit",
        "larder.loaded.tokens": 352,
        "larder.tiers": ("memory",),
        "larder.memory.tokens": 352,
        "larder.lookup.count": 1,
        "larder.load.bytes": 12288,
    }
    assert durations.pop("larder.lookup.duration") > 0
    assert durations == {
        "larder.wait.duration": 0,
        "larder.load.wait.duration": 0.001,
        "larder.load.copy.duration": 0.002,
    }
    made = spans.all[0]
    assert made.headers == PARENT and made.ended_ns >= made.begun_ns > 1e18 and not made.failure
    half.request_finished(one)
    assert len(spans.all) == 1 and half._traces == {}


def test_a_hit_of_disk_and_peers_or_backend_names_the_tokens_of_each(half, client, spans):
    client.tier = FAST_AND_SHARED
    one = request(tokens=700)
    memory, disk, *backend = chunk_keys(one)
    client.stored.add(memory)
    client.on_disk.add(disk)
    client.in_backend.update(backend)
    assert half.get_num_new_matched_tokens(one, 0) == (None, False)
    client.answer_look(client.the_probe())
    assert half.get_num_new_matched_tokens(one, 0) == (None, False)
    client.arrive(client.the_fetch(), elapsed_s=0.03)
    assert admit(half, one) == 640
    half.update_connector_output(loaded(bytes=1))
    span = spans.the_one()
    assert span["larder.tiers"] == ("memory", "disk", "shared")
    tokens = [span[f"larder.{tier}.tokens"] for tier in ("memory", "disk", "shared")]
    assert tokens == [128, 128, 384]
    assert span["larder.lookup.count"] == 3 and span["larder.wait.duration"] > 0
    assert span["larder.fetch.outcome"] == "done" and span["larder.fetch.duration"] == 0.03
    assert span["larder.fetch.bytes"] == 5 * 4096


def test_a_late_fetch_is_computed_and_tells_why(half, client, spans):
    client.tier = FAST_AND_SHARED._replace(shared=False)
    one = request()
    client.on_disk.update(chunk_keys(one))
    half.get_num_new_matched_tokens(one, 0)
    client.arrive(client.the_fetch(), 0, "late", 0.2)
    assert admit(half, one) == 0
    span = spans.the_one()
    assert (span["larder.decision"], span["larder.reason"]) == ("computed", "recompute")
    assert span["larder.fetch.outcome"] == "late" and "larder.tiers" not in span


def test_a_slow_tier_is_recomputed(half, client, spans):
    client.tier = TierSpeed(True, 1_000_000, 1000)
    one = request()
    client.on_disk.update(chunk_keys(one))
    assert admit(half, one) == 0
    assert spans.the_one()["larder.reason"] == "recompute"


@pytest.mark.parametrize(
    "tokens, local, reason", [(400, 0, "absent"), (100, 0, "short"), (400, 384, "engine")]
)
def test_why_a_request_is_computed(half, spans, tokens, local, reason):
    assert admit(half, request(tokens=tokens), local) == 0
    span = spans.the_one()
    assert (span["larder.decision"], span["larder.reason"]) == ("computed", reason)


@pytest.mark.parametrize(
    "fields, reason",
    [
        (dict(kv_transfer_params={"larder": "off"}), "client"),
        (dict(tokens=19), "min_tokens"),
        (dict(skip_reading_prefix_cache=True), "prompt_logprobs"),
    ],
)
def test_why_a_request_is_refused(half, spans, fields, reason):
    assert admit(half, request(**fields)) == 0
    span = spans.the_one()
    assert (span["larder.decision"], span["larder.reason"]) == ("refused", reason)


def test_a_cache_that_is_off_tells_why(half, spans):
    half.turn_off("the reason")
    admit(half, request())
    span = spans.the_one()
    assert (span["larder.decision"], span["larder.reason"]) == ("refused", "off")
    assert span["larder.message"] == "the reason"


def test_an_engine_that_only_stores_and_one_without_a_name_refuse(client, spans):
    only_stores = TracedScheduler(spans, setup(loads=False), client, NAMED)
    admit(only_stores, request())
    unnamed = TracedScheduler(
        spans, setup(), client, type("Later", (), {"poll": lambda *_: None})()
    )
    admit(unnamed, request())
    assert [one.attributes["larder.reason"] for one in spans.all] == ["role", "unnamed"]


def test_a_failed_load_is_an_error_without_tiers(half, client, spans):
    one = request()
    client.stored.update(chunk_keys(one))
    admit(half, one)
    half.update_connector_output(loaded(failed={"r"}, failure="a chunk was evicted meanwhile"))
    span = spans.the_one()
    assert (span["larder.decision"], span["larder.reason"]) == ("failed", "load")
    assert span["larder.message"] == spans.all[0].failure == "a chunk was evicted meanwhile"
    assert "larder.tiers" not in span and "larder.loaded.tokens" not in span
    assert admit(half, one) == 0  # vLLM computes the request now
    half.request_finished(one)
    assert len(spans.all) == 1


def test_ranks_that_report_in_different_steps_are_summed(half, client, spans):
    one = request()
    client.stored.update(chunk_keys(one))
    admit(half, one)
    first = WorkerReport(loads={"r": LoadFigures(10, 5, 7)})
    half.update_connector_output(ended(meta=first))
    both = WorkerReport(loads={"r": LoadFigures(20, 9, 3)}).aggregate(
        WorkerReport(loads={"r": LoadFigures(30, 1, 1), "other": LoadFigures(1)})
    )
    half.update_connector_output(ended({"r"}, meta=both))
    span = spans.the_one()
    assert span["larder.load.bytes"] == 60
    assert span["larder.load.wait.duration"] == 9e-9
    assert span["larder.load.copy.duration"] == 7e-9


@pytest.mark.parametrize("at", ["looked up", "waits", "loads"])
def test_an_aborted_request_ends_its_span(half, client, spans, at):
    one = request()
    if at == "loads":
        client.stored.update(chunk_keys(one))
        admit(half, one)
    elif at == "waits":
        client.tier = FAST_AND_SHARED
        assert half.get_num_new_matched_tokens(one, 0) == (None, False)
    else:
        half.get_num_new_matched_tokens(one, 0)
    half.request_finished(one)
    span = spans.the_one()
    assert span["larder.decision"] == "aborted" and "larder.tiers" not in span
    assert (span["larder.wait.duration"] > 0) == (at == "waits")
    half.update_connector_output(loaded())  # of the aborted load
    assert len(spans.all) == 1


def test_a_preempted_request_has_one_span(half, client, spans):
    one = request()
    admit(half, one)
    client.stored.update(chunk_keys(one))
    assert admit(half, one) == 384
    half.update_connector_output(loaded())
    half.request_finished(one)
    assert len(spans.all) == 1


# covers F-424
def test_a_fault_of_a_trace_ends_the_traces_and_not_the_cache(half, client, spans, monkeypatch):
    lines = []
    monkeypatch.setattr(request_traces.logger, "warning", lambda *line: lines.append(line))
    one = request()
    client.stored.update(chunk_keys(one))
    spans.add = None
    half.get_num_new_matched_tokens(request("first"), 0)
    half.update_state_after_alloc(request("first"), blocks(range(1, 30)), 0)
    assert admit(half, one) == 384 and half.off is None and half._traces == {}
    assert ["no further traces" in line[0] for line in lines] == [True]


def test_requests_over_the_bound_are_counted(half, spans, monkeypatch):
    monkeypatch.setattr("larder.vllm.request_traces.MOST_TRACED", 1)
    for name in ("one", "two"):
        half.get_num_new_matched_tokens(request(name), 0)
    assert len(half._traces) == 1 and spans.dropped == 1


def test_the_counts_go_to_vllms_metrics(half, spans):
    assert half.observed() is None
    spans.counts = {"sent": 3, "full": 1}
    assert half.observed().data == {"spans": [["sent", 3], ["full", 1]]}


def test_a_worker_reports_loads_only_with_traces():
    for url, loads in (("", {}), (URL, {"r": LoadFigures(failure="nothing to load")})):
        worker = LarderConnectorWorker(setup(traces_endpoint=url), Client())
        worker._loads.begin(Load("r"), _fails())
        worker.get_transfer_results()
        report = worker.report()
        assert (report.loads if report else {}) == loads


def _fails():
    raise LookupError("nothing to load")
    yield
