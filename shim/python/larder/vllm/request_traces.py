"""TracedScheduler: the scheduler's half that also tells what the cache did for each request, in one
span a request. The connector takes this class in place of LarderConnectorScheduler only if traces
are asked for, so an engine without traces runs none of this code.

A span begins with the first look-up. The span ends when vLLM has blocks for a request without a
load, with the end of the load, or with the end of the request. Later look-ups of the request, after
a preemption, are in no span. docs/reference/traces.md lists the attributes. Owned by the
scheduler's thread."""

import time
from dataclasses import dataclass

from larder import _native as native
from larder.vllm import words
from larder.vllm.fail_safe import logger
from larder.vllm.messages import LoadFigures
from larder.vllm.scheduler import LarderConnectorScheduler
from larder.vllm.span_exports import Span

# Requests without an ended span at one time; further requests have no span, and count as dropped.
MOST_TRACED = 16384


@dataclass(slots=True)
class RequestTrace:
    """A request up to the end of its span."""

    begun_ns: int  # since the epoch
    headers: object
    attributes: dict | None  # None: the span has ended
    lookups: int = 0
    lookup_ns: int = 0
    waits_since: int | None = None  # of time.perf_counter_ns()
    wait_ns: int = 0
    by_tier: dict | None = None  # attributes of the hit that is loaded; None: no load
    load: LoadFigures | None = None  # None: no worker has told

    @property
    def ended(self):
        return self.attributes is None


@dataclass(slots=True)
class Served:
    """The decision about a request. by_tier: of RequestTrace."""

    decision: str
    reason: str = ""
    fetch: dict | None = None  # attributes
    by_tier: dict | None = None


class TracedScheduler(LarderConnectorScheduler):
    def __init__(self, spans, *args):
        """spans: SpanExports. The other arguments are those of LarderConnectorScheduler."""
        super().__init__(*args)
        self._spans = spans
        self._traces: dict[str, RequestTrace] = {}  # until request_finished()
        self._traces_fail = False

    # ---- vLLM's hooks

    def get_num_new_matched_tokens(self, request, local_tokens):
        begin = time.perf_counter_ns()
        answer = super().get_num_new_matched_tokens(request, local_tokens)
        self._note(self._looked_up, request, local_tokens, answer[0] is None, begin)
        return answer

    def update_state_after_alloc(self, request, blocks, external_tokens):
        served = self._note(self._served, request, external_tokens)
        super().update_state_after_alloc(request, blocks, external_tokens)
        if served is not None:
            self._note(self._admitted, request, served)

    def update_connector_output(self, output):
        super().update_connector_output(output)
        self._note(self._loaded, output)

    def request_finished(self, request, tables=()):
        self._note(self._finished, request)
        return super().request_finished(request, tables)

    def observed(self):
        for outcome, spans in self._spans.take_counts().items():
            self._observed.spans(outcome, spans)
        return super().observed()

    # ---- notes

    def _note(self, note, *args):
        """No exception of a note reaches vLLM, or turns the cache off."""
        if self._traces_fail:
            return None
        try:
            return note(*args)
        except Exception as error:
            self._traces_fail = True
            self._traces.clear()
            logger.warning(
                "Larder: this engine sends no further traces: %s", words.of_fault(error, "a trace")
            )

    def _looked_up(self, request, local_tokens, waits, begin):
        trace = self._traces.get(request.request_id)
        if trace is None:
            if len(self._traces) >= MOST_TRACED:
                return self._spans.drop()
            trace = self._traces[request.request_id] = self._begin(request)
        if trace.ended:
            return
        now = time.perf_counter_ns()
        trace.lookups += 1
        trace.lookup_ns += now - begin
        if trace.waits_since is not None and not waits:
            trace.wait_ns += begin - trace.waits_since
            trace.waits_since = None
        elif trace.waits_since is None and waits:
            trace.waits_since = now
        trace.attributes["larder.engine.tokens"] = local_tokens

    @staticmethod
    def _begin(request):
        return RequestTrace(
            time.time_ns(),
            getattr(request, "trace_headers", None),
            {
                "larder.request.id": request.request_id,
                "larder.prompt.tokens": request.num_tokens,
            },
        )

    def _served(self, request, external_tokens):
        trace = self._traces.get(request.request_id)
        if trace is None or trace.ended or trace.by_tier is not None:
            return None
        lookup = self._lookups.get(request.request_id)
        if lookup is None:
            return Served("refused", self._refusal(request))
        fetch = self._fetches.fetch_of(request.request_id)
        of_fetch = None if fetch is None else _of_fetch(fetch)
        if external_tokens:
            tokens = self._fetches.tokens_by_tier(request.request_id, external_tokens)
            by_tier = _by_tier(external_tokens, tokens)
            return Served("hit", fetch=of_fetch, by_tier=by_tier)
        return Served("computed", self._why_computed(request, lookup), of_fetch)

    def _why_computed(self, request, lookup):
        chunk = self.setup.chunk_tokens
        if request.num_tokens < chunk:
            return "short"
        if lookup.local_tokens and lookup.hit_chunks * chunk <= lookup.local_tokens:
            if lookup.local_tokens // chunk == (request.num_tokens - 1) // chunk:
                return "engine"
        decision = self._fetches.decision(request.request_id, False)
        return "recompute" if decision == native.DECIDED_RECOMPUTE else "absent"

    def _refusal(self, request):
        """Why a request without a look-up had none; in the order of the look-up's conditions."""
        if self.off is not None:
            return "off"
        if not self._text:
            return "unnamed"
        if not self.setup.loads:
            return "role"
        if getattr(request, "skip_reading_prefix_cache", False):
            return "prompt_logprobs"
        if request.num_prompt_tokens < self.setup.min_tokens:
            return "min_tokens"
        if not self._wanted(request):
            return "client"
        if self._items.places(request) is None:
            return "items"
        return "namespace"

    def _admitted(self, request, served):
        trace = self._traces[request.request_id]
        trace.attributes.update(served.fetch or {})
        trace.by_tier = served.by_tier
        if trace.by_tier is not None:  # the span ends with the load
            return
        text = self.off or "" if served.reason == "off" else ""
        self._end(trace, served.decision, served.reason, text)

    def _loaded(self, output):
        report = getattr(output, "kv_connector_worker_meta", None)
        for request_id, load in (report.loads if report is not None else {}).items():
            trace = self._traces.get(request_id)
            if trace is not None and trace.by_tier is not None:
                # The ranks of an engine may report in different steps.
                trace.load = load if trace.load is None else trace.load + load
        ended = output.finished_recving
        if not ended:
            return
        failed = set(getattr(output, "failed_recving", None) or ())
        if report is not None:
            failed |= report.failed
        for request_id in ended:
            trace = self._traces.get(request_id)
            if trace is None or trace.by_tier is None or trace.ended:
                continue
            if request_id in failed:
                self._end(trace, "failed", "load", _failure_of(trace))
            else:
                trace.attributes.update(trace.by_tier)
                self._end(trace, "hit")

    def _finished(self, request):
        trace = self._traces.pop(request.request_id, None)
        if trace is not None and not trace.ended:
            self._end(trace, "aborted")

    def _end(self, trace, decision, reason="", text=""):
        attributes, trace.attributes = trace.attributes, None
        attributes["larder.decision"] = decision
        if reason:
            attributes["larder.reason"] = reason
        if text:
            attributes["larder.message"] = text
        attributes["larder.lookup.count"] = trace.lookups
        attributes["larder.lookup.duration"] = trace.lookup_ns / 1e9
        if trace.waits_since is not None:  # vLLM has not asked again
            trace.wait_ns += time.perf_counter_ns() - trace.waits_since
        attributes["larder.wait.duration"] = trace.wait_ns / 1e9
        if trace.load is not None:
            attributes["larder.load.bytes"] = trace.load.bytes
            attributes["larder.load.wait.duration"] = trace.load.wait_ns / 1e9
            attributes["larder.load.copy.duration"] = trace.load.copy_ns / 1e9
        self._spans.add(
            Span(
                trace.headers,
                trace.begun_ns,
                time.time_ns(),
                attributes,
                text if decision == "failed" else "",
            )
        )


def _failure_of(trace):
    return trace.load is not None and trace.load.failure or "the load failed"


def _of_fetch(fetch):
    return {
        "larder.fetch.outcome": fetch.reason,
        "larder.fetch.bytes": fetch.bytes,
        "larder.fetch.duration": fetch.elapsed_s,
    }


def _by_tier(loaded_tokens, tokens):
    """tokens: of Fetches.tokens_by_tier()."""
    by_tier = {tier: count for tier, count in tokens.items() if count}
    return {
        "larder.loaded.tokens": loaded_tokens,
        "larder.tiers": tuple(by_tier),
        **{f"larder.{tier}.tokens": count for tier, count in by_tier.items()},
    }
