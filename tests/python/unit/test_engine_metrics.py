"""Larder in vLLM's own metrics: first tokens by hit and miss, and their way to the front end."""

import pytest

pytest.importorskip("vllm")

import prometheus_client  # noqa: E402
from fakes import Client, Request, blocks, chunk_keys, ended, measured_half  # noqa: E402

from larder.vllm.connector import LarderConnector  # noqa: E402
from larder.vllm.engine_metrics import SPANS, UNNAMED, Exported, Observed  # noqa: E402
from larder.vllm.first_tokens import FirstTokens  # noqa: E402
from larder.vllm.items import WORDS  # noqa: E402


def request(name, tokens=100, arrival=10.0):
    return Request(name, range(tokens), arrival_time=arrival)


@pytest.fixture
def timed():
    observed = Observed()
    return FirstTokens(observed, clock=lambda: 12.5), observed


def test_a_first_token_is_timed_from_the_arrival_by_what_was_hit(timed):
    first, observed = timed
    waiting = [request("hit"), request("own"), request("miss")]
    for one, (local, external) in zip(waiting, [(60, 32), (50, 0), (49, 0)]):
        first.begin(one, local, external)
    first.look()
    assert observed.is_empty()
    for one in waiting:
        one.num_output_tokens = 1
    first.look()
    first.look()
    assert observed.data == {"hit": [2.5], "own": [2.5], "miss": [2.5]}


def test_a_preempted_request_keeps_its_first_result_and_a_failed_load_is_a_miss(timed):
    first, observed = timed
    preempted, failed = request("preempted"), request("failed")
    first.begin(preempted, 0, 64)
    first.begin(preempted, 96, 0)
    first.begin(failed, 0, 64)
    first.missed("failed")
    preempted.num_output_tokens = failed.num_output_tokens = 1
    first.look()
    assert observed.data == {"hit": [2.5], "miss": [2.5]}


def test_a_request_of_one_step_counts_and_one_without_tokens_does_not(timed):
    first, observed = timed
    whole, aborted = request("whole"), request("aborted")
    first.begin(whole, 0, 0)
    first.begin(aborted, 0, 0)
    whole.num_output_tokens = 1
    first.end("whole")
    first.end("aborted")
    aborted.num_output_tokens = 1
    first.look()
    assert observed.data == {"miss": [2.5]}


def test_each_first_token_is_reported_once():
    client = Client()
    half = measured_half(client)
    assert half.observed() is None
    hit = Request("r", range(500))
    client.stored.update(chunk_keys(hit))
    external, _ = half.get_num_new_matched_tokens(hit, 0)
    half.update_state_after_alloc(hit, blocks(range(1, 20)), external)
    hit.num_output_tokens = 1
    assert list(half.observed().data) == ["hit"]
    assert half.observed() is None


def test_a_request_that_opts_out_counts_on_no_side():
    half = measured_half(Client())
    out = Request("r", range(500), kv_transfer_params={"larder": "off"}, num_output_tokens=1)
    half.update_state_after_alloc(out, blocks(range(1, 20)), 0)
    assert half.observed() is None


def test_a_failed_load_reaches_the_first_token_metrics():
    client = Client()
    half = measured_half(client)
    hit = Request("r", range(500))
    client.stored.update(chunk_keys(hit))
    external, _ = half.get_num_new_matched_tokens(hit, 0)
    half.update_state_after_alloc(hit, blocks(range(1, 20)), external)
    half.update_connector_output(ended(failed={"r"}))
    hit.num_output_tokens = 1
    assert list(half.observed().data) == ["miss"]


UNNAMED_SAID = {"without the cache for their items": 3}


@pytest.fixture
def exported(monkeypatch):
    monkeypatch.setenv("LARDER_POOL", "chat")
    registry = prometheus_client.CollectorRegistry()

    def in_registry(kind):
        return lambda **given: kind(registry=registry, **given)

    kinds = (prometheus_client.Gauge, prometheus_client.Counter, prometheus_client.Histogram)
    types = {kind: in_registry(kind) for kind in kinds}
    config = type("Config", (), {"kv_transfer_config": None})()
    made = LarderConnector.build_prom_metrics(
        config, types, ["model_name", "engine"], {0: ["m", "0"]}
    )
    return made, lambda name, **labels: registry.get_sample_value(
        name, {"model_name": "m", "engine": "0", **labels}
    )


def test_all_series_are_there_at_zero_and_count(exported):
    metrics, value = exported
    assert isinstance(metrics, Exported)
    assert value("larder_engine_first_token_seconds_count", cache="own") == 0
    assert value("larder_engine_info", pool="chat") == 1, "the dashboards join by this label"
    sent = LarderConnector.build_kv_connector_stats({"hit": [0.1, 0.2]}).aggregate(
        Observed({"hit": [0.3], "miss": [9.0]})
    )
    sent.aggregate(Observed({"unnamed": ["late", "other", "late"]}))
    sent.aggregate(Observed({"spans": [["sent", 5], ["full", 2]]}))
    sent.aggregate(Observed({"spans": [["sent", 1]]}))
    metrics.observe(sent.to_dict(), 0)
    assert [
        value("larder_engine_unnamed_requests_total", reason=reason)
        for reason in ("late", "other", "form")
    ] == [2, 1, 0]
    assert [value("larder_engine_spans_total", outcome=name) for name in SPANS] == [6, 0, 2]
    assert value("larder_engine_first_token_seconds_count", cache="hit") == 3
    assert value("larder_engine_first_token_seconds_bucket", cache="miss", le="10.0") == 1
    assert sent.reduce() == {
        "first tokens, hit": 3,
        "mean s, hit": 0.2,
        "first tokens, miss": 1,
        "mean s, miss": 9.0,
        **UNNAMED_SAID,
    }


def test_every_reason_of_the_log_has_a_series():
    assert set(UNNAMED) == set(WORDS)


def test_values_kept_between_reports_are_bounded():
    observed = Observed()
    for _ in range(5000):
        observed.first_token("hit", 1.0)
    assert len(observed.data["hit"]) == 4096


KINDS = (prometheus_client.Gauge, prometheus_client.Counter, prometheus_client.Histogram)


def engine(model, names=("model_name", "engine"), indexes=(0,)):
    """The objects of vLLM in the process with the engine's statistics, in the registry of that
    process."""
    config = type("Config", (), {"kv_transfer_config": None})()
    values = {index: [model, str(index), *names[2:]] for index in indexes}
    return LarderConnector.build_prom_metrics(
        config, {kind: kind for kind in KINDS}, list(names), values
    )


def seen(model, cache="hit", **more):
    labels = {"model_name": model, "engine": "0", "cache": cache, **more}
    return prometheus_client.REGISTRY.get_sample_value(
        "larder_engine_first_token_seconds_count", labels
    )


@pytest.fixture
def registry():
    """The process's registry, which vLLM uses. The registry has others' collectors too, also
    collectors without a name."""

    class Other:
        def collect(self):
            return []

    other, before = Other(), set(prometheus_client.REGISTRY._collector_to_names)
    prometheus_client.REGISTRY.register(other)
    yield
    for collector in set(prometheus_client.REGISTRY._collector_to_names) - before:
        prometheus_client.REGISTRY.unregister(collector)


# covers F-080
def test_engines_one_after_the_other_and_side_by_side_count(registry):
    from vllm.v1.metrics.prometheus import unregister_vllm_metrics

    made = []
    for model in ("first", "second", "second"):
        unregister_vllm_metrics()
        made.append(engine(model))
    for one in made:
        one.observe({"hit": [1.0], "unnamed": ["late"]})
    assert (seen("first"), seen("second")) == (1, 2)


def test_metrics_with_other_labels_are_replaced(registry):
    old = engine("labels")
    new = engine("labels", ("model_name", "engine", "more"))
    for one in (old, new):
        one.observe({"hit": [1.0]})
    assert seen("labels", more="more") == 1


def test_a_foreign_metric_of_the_same_name_is_replaced(registry):
    engine("theirs")
    (there,) = [
        one
        for one in prometheus_client.REGISTRY._collector_to_names
        if getattr(one, "_name", "") == "larder_engine_info"
    ]
    prometheus_client.REGISTRY.unregister(there)
    prometheus_client.Counter(
        "larder_engine_info", "a counter by that name", ["model_name", "engine", "pool"]
    )
    engine("theirs").observe({"hit": [1.0]})
    assert seen("theirs") == 1


def test_an_engine_without_metrics_goes_on(monkeypatch):
    """vLLM asks for the metrics at its start, and reports them at each step."""

    def refuse(**_):
        raise RuntimeError("no metrics here")

    config = type("Config", (), {"kv_transfer_config": None})()
    made = LarderConnector.build_prom_metrics(
        config, dict.fromkeys(KINDS, refuse), ["model_name", "engine"], {0: ["m", "0"]}
    )
    made.observe({"hit": [1.0], "unnamed": ["late"]}, 0)


def test_an_engine_or_a_reason_that_was_not_there_at_the_start_costs_nothing(exported):
    metrics, value = exported
    metrics.observe({"hit": [1.0], "unnamed": ["late"]}, 7)
    metrics.observe({"unnamed": ["a reason of another version"]}, 0)
    assert value("larder_engine_first_token_seconds_count", cache="hit") == 0
