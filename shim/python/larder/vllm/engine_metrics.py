"""Larder in vLLM's own /metrics: time to first token by hit and miss, the engine's pool, requests
with multi-modal items that run without the cache, requests with wrong hints, and the spans of
traces.

The scheduler's process observes (Observed), vLLM carries the observations to its front end, and
Exported counts the observations there."""

import os
from dataclasses import dataclass, field

import prometheus_client
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

from larder.vllm.fail_safe import logger

# Labels. hit: chunks were loaded from Larder. own: no chunk was, and the engine's own prefix cache
# had half of the prompt or more.
CACHES = ("hit", "own", "miss")
# Why a request with multi-modal items runs without the cache: items.WORDS.
UNNAMED = ("form", "hidden", "late", "mixed", "other")
# Ends of a request's span: span_exports.
SPANS = ("sent", "failed", "full")
BUCKETS_S = (
    0.005,
    0.01,
    0.02,
    0.04,
    0.08,
    0.15,
    0.25,
    0.5,
    0.75,
    1,
    1.5,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
    160,
)
# Observations kept between two reports; vLLM reports once a step.
MOST_OBSERVED = 4096


@dataclass
class Observed(KVConnectorStats):
    """Observations since the last report. vLLM sends `data`: {"hit": [seconds, ...], ...,
    "unnamed": [reason, ...], "spans": [[outcome, count], ...], "wrong_hints": [1, ...]}, without
    empty lists."""

    data: dict = field(default_factory=dict)

    def first_token(self, cache, seconds):
        self._keep(cache, seconds)

    def unnamed(self, reason):
        self._keep("unnamed", reason)

    def spans(self, outcome, count):
        self._keep("spans", [outcome, count])

    def wrong_hints(self):
        self._keep("wrong_hints", 1)

    def _keep(self, name, value):
        kept = self.data.setdefault(name, [])
        if len(kept) < MOST_OBSERVED:
            kept.append(value)

    def reset(self):
        self.data = {}

    def is_empty(self):
        return not self.data

    def aggregate(self, other):
        for cache in CACHES:
            for seconds in other.data.get(cache, ()):
                self.first_token(cache, seconds)
        for reason in other.data.get("unnamed", ()):
            self.unnamed(reason)
        for outcome, count in other.data.get("spans", ()):
            self.spans(outcome, count)
        for _ in other.data.get("wrong_hints", ()):
            self.wrong_hints()
        return self

    def reduce(self):
        """The numbers for vLLM's log line."""
        said = {}
        for cache in CACHES:
            if kept := self.data.get(cache):
                said[f"first tokens, {cache}"] = len(kept)
                said[f"mean s, {cache}"] = round(sum(kept) / len(kept), 3)
        if unnamed := self.data.get("unnamed"):
            said["without the cache for their items"] = len(unnamed)
        if wrong := self.data.get("wrong_hints"):
            said["with wrong hints"] = len(wrong)
        return said


class Exported(KVConnectorPromMetrics):
    """The series in the registry of this process. Engines of one process share the series and
    differ by labels. Never raises: an exception would end vLLM at the start or in the next step."""

    def __init__(self, vllm_config, metric_types, labelnames, per_engine_labelvalues):
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._seconds, self._unnamed, self._spans, self._wrong_hints = {}, {}, {}, {}
        try:
            self._make(labelnames, per_engine_labelvalues)
        except Exception as error:
            logger.warning(
                "Larder: vLLM's /metrics has no series of Larder: %s: %s",
                type(error).__name__,
                error,
            )

    def _make(self, labelnames, per_engine_labelvalues):
        seconds = only_one(
            self._histogram_cls,
            name="larder_engine_first_token_seconds",
            documentation=(
                "From a request's arrival to its first token in the scheduler, "
                "by whether Larder's cache was hit"
            ),
            buckets=BUCKETS_S,
            labelnames=[*labelnames, "cache"],
        )
        unnamed = only_one(
            self._counter_cls,
            name="larder_engine_unnamed_requests_total",
            documentation=(
                "Requests with multi-modal items that ran without Larder's cache, by the reason"
            ),
            labelnames=[*labelnames, "reason"],
        )
        spans = only_one(
            self._counter_cls,
            name="larder_engine_spans_total",
            documentation=(
                "Spans of requests for traces: sent to the collector, failed (the collector did "
                "not take them), or without room in the queue (full)"
            ),
            labelnames=[*labelnames, "outcome"],
        )
        wrong_hints = only_one(
            self._counter_cls,
            name="larder_engine_wrong_hints_total",
            documentation=(
                "Requests that ran without their hints (kv_transfer_params.larder), because a key "
                "or a value is wrong"
            ),
            labelnames=labelnames,
        )
        # In placement Node larderd runs in another pod. This series joins engines and pools in the
        # dashboards.
        info = only_one(
            self._gauge_cls,
            name="larder_engine_info",
            documentation=(
                "1, and the pool that the engine was given ($LARDER_POOL; empty without one)"
            ),
            multiprocess_mode="mostrecent",
            labelnames=[*labelnames, "pool"],
        )
        for values in per_engine_labelvalues.values():
            info.labels(*values, os.environ.get("LARDER_POOL", "")).set(1)
        # All series start at zero: a rate needs a value before the first event.
        engines = per_engine_labelvalues.items()
        self._seconds = {
            (e, c): seconds.labels(*values, c) for e, values in engines for c in CACHES
        }
        self._unnamed = {
            (e, r): unnamed.labels(*values, r) for e, values in engines for r in UNNAMED
        }
        self._spans = {(e, o): spans.labels(*values, o) for e, values in engines for o in SPANS}
        self._wrong_hints = {e: wrong_hints.labels(*values) for e, values in engines}

    def observe(self, transfer_stats_data, engine_idx=0):
        for cache in CACHES:
            series = self._seconds.get((engine_idx, cache))
            for seconds in transfer_stats_data.get(cache, ()) if series is not None else ():
                series.observe(seconds)
        for reason in transfer_stats_data.get("unnamed", ()):
            series = self._unnamed.get((engine_idx, reason))
            if series is not None:
                series.inc()
        for outcome, count in transfer_stats_data.get("spans", ()):
            series = self._spans.get((engine_idx, outcome))
            if series is not None:
                series.inc(count)
        series = self._wrong_hints.get(engine_idx)
        if series is not None:
            series.inc(len(transfer_stats_data.get("wrong_hints", ())))


def only_one(kind, *, name, labelnames, **given):
    """A collector of prometheus_client, or the one that an earlier engine of this process has made
    under the name. A collector with other labels, made by another vLLM or another Larder, is
    removed."""
    try:
        return kind(name=name, labelnames=labelnames, **given)
    except ValueError:  # duplicated
        there = _registered(name)
        if there is None:
            raise
    if type(there) is kind and tuple(there._labelnames) == tuple(labelnames):
        return there
    prometheus_client.REGISTRY.unregister(there)
    return kind(name=name, labelnames=labelnames, **given)


def _registered(name):
    """The registered collector, or None. prometheus_client has no call for this; vLLM unregisters
    its own collectors by the same table."""
    name = name.removesuffix("_total")  # a Counter keeps its name without _total
    return next(
        (
            one
            for one in tuple(prometheus_client.REGISTRY._collector_to_names)
            if getattr(one, "_name", "") == name
        ),
        None,
    )
