"""The scheduler's half: which chunks a request hits, which of its chunks are full, and the holds between.

Owned by the scheduler's thread. A lookup reads shared memory only: no message, no side effect, since vLLM repeats it every step."""

import time
from array import array
from dataclasses import dataclass

from larder import _native as native
from larder.vllm.guard import Guarded, guarded, logger
from larder.vllm.messages import Move, StepWork

# A chunk that larderd's late answer left out is given to the worker again, while its request lives.
STORE_RETRIES = 2
RETRY_AFTER_S = 0.05


@dataclass
class Tracked:
    """A request that vLLM has allocated blocks for."""

    request: object
    stored_chunks: int = 0  # chunks before it were seen in the index
    asked_chunks: int = 0  # chunks before it were given to the worker, or seen
    asked_at: float = 0.0
    retries: int = 0  # how often those between the two may be given again
    stale: bool = False  # its pages are older than the last reset: nothing of them is stored


@dataclass
class Lookup:
    """The last answer to get_num_new_matched_tokens for a request."""

    local_tokens: int
    hit_chunks: int
    nanoseconds: int


class SchedulerHalf(Guarded):
    def __init__(self, setup, client):
        super().__init__(setup, client)
        self._tracked: dict[str, Tracked] = {}
        self._lookups: dict[str, Lookup] = {}
        self._holds: dict[str, int] = {}
        self._failed: set[str] = set()  # failed a load once: never looked up again
        self._loads: list[Move] = []
        self._announced = False
        self._lora_told = False

    # ---- hits

    @guarded(lambda: (0, False))
    def matched_tokens(self, request, local_tokens):
        if not self._may_load(request):
            return 0, False
        begin = time.perf_counter_ns()
        chunk = self.setup.chunk_tokens
        first = local_tokens // chunk
        hashes = self._hashes(request, first, request.num_tokens // chunk)
        hits = first + self.client.lookup(hashes, _stride(request)) if hashes else first
        external = max(hits * chunk - local_tokens, 0)
        self._lookups[request.request_id] = Lookup(local_tokens, hits, time.perf_counter_ns() - begin)
        return external, external > 0

    def allocated(self, request, blocks, external_tokens):
        """vLLM has blocks for the request; where external_tokens is not 0 it now waits for a load."""
        load = Move(request.request_id, b"", b"")  # empty: the worker reports it as failed
        try:
            lookup = self._lookups.pop(request.request_id, None)
            if self.off is None and self._wanted(request):
                self._tracked.setdefault(request.request_id, Tracked(request))
                if lookup is not None:
                    self._report(request, lookup, external_tokens)
                if external_tokens:
                    load = self._load_of(request, blocks, lookup)
        except Exception as error:
            self.turn_off(f"unexpected {type(error).__name__} in update_state_after_alloc: {error}")
        if external_tokens:
            self._loads.append(load)

    def _may_load(self, request):
        return (
            self.off is None
            and self.setup.loads
            and request.request_id not in self._failed
            and not getattr(request, "skip_reading_prefix_cache", False)
            and self._wanted(request)
        )

    def _wanted(self, request):
        """Whether this request uses the cache at all."""
        if request.num_prompt_tokens < self.setup.min_tokens:
            return False
        if (request.kv_transfer_params or {}).get("larder") == "off":
            return False
        if request.lora_request is not None:
            if not self._lora_told:
                self._lora_told = True
                logger.warning("Larder: requests with a LoRA adapter are not served yet and run without the cache")
            return False
        return True

    def _report(self, request, lookup, external_tokens):
        self.client.report_request(request.num_tokens - lookup.local_tokens, external_tokens, lookup.nanoseconds)
        logger.info(
            "Reqid: %s, Total tokens %d, Larder hit tokens: %d, need to load: %d",
            request.request_id,
            request.num_tokens,
            lookup.hit_chunks * self.setup.chunk_tokens,
            external_tokens,
        )

    def _load_of(self, request, blocks, lookup):
        setup = self.setup
        first = lookup.local_tokens // setup.chunk_tokens
        hashes = self._hashes(request, first, lookup.hit_chunks)
        pages = array("I", blocks.get_block_ids()[0])
        pages = pages[first * setup.blocks_per_chunk : lookup.hit_chunks * setup.blocks_per_chunk]
        # Blocks that vLLM hit by itself are shared with running requests: a load must not write them.
        for block in range(lookup.local_tokens // setup.block_size - first * setup.blocks_per_chunk):
            pages[block] = native.NO_PAGE
        hold, _ = self.client.hold(hashes, _stride(request))
        if hold:
            self._holds[request.request_id] = hold
        return Move(request.request_id, hashes, pages.tobytes())

    # ---- the step

    def step_work(self, scheduler_output):
        work = StepWork(loads=self._loads)
        self._loads = []
        if self.off is None:
            self._plan(scheduler_output, work)
        return work

    @guarded(lambda: None)
    def _plan(self, scheduler_output, work):
        scheduled = scheduler_output.num_scheduled_tokens
        work.computes = bool(scheduled)
        if not self._announced:
            work.namespace = self.setup.fingerprint
            self._announced = True
        if not scheduled:
            return
        prefill = sum(count for count in scheduled.values() if count > 1)
        if prefill >= 0.9 * scheduler_output.total_num_scheduled_tokens:
            work.prefill_tokens = prefill
        if self.setup.stores:
            for request_id, computed in self._computed(scheduler_output):
                self._plan_store(request_id, computed + scheduled[request_id], scheduler_output, work)

    @staticmethod
    def _computed(scheduler_output):
        cached = scheduler_output.scheduled_cached_reqs
        yield from ((new.req_id, new.num_computed_tokens) for new in scheduler_output.scheduled_new_reqs)
        yield from zip(cached.req_ids, cached.num_computed_tokens)

    def _plan_store(self, request_id, computed_after, scheduler_output, work):
        tracked = self._tracked.get(request_id)
        if tracked is None or tracked.stale:
            return
        # Hashes cover accepted tokens only: speculative ones, which may be rejected, stay out.
        request = tracked.request
        full = min(computed_after // self.setup.chunk_tokens, len(request.block_hashes) // self.setup.hashes_per_chunk)
        if full > tracked.asked_chunks:
            tracked.retries = STORE_RETRIES
        elif full > tracked.stored_chunks and tracked.retries and time.monotonic() >= tracked.asked_at + RETRY_AFTER_S:
            tracked.retries -= 1
        else:
            return
        hashes = self._hashes(request, tracked.stored_chunks, full)
        stride = _stride(request)
        present = self.client.lookup(hashes, stride)
        tracked.stored_chunks += present
        tracked.asked_chunks, tracked.asked_at = full, time.monotonic()
        first = tracked.stored_chunks
        if first == full:
            return
        table = array("I", scheduler_output.kv_connector_block_state.get_block_ids(request_id)[0])
        pages = table[first * self.setup.blocks_per_chunk : full * self.setup.blocks_per_chunk]
        work.stores.append(Move(request_id, hashes[present * stride :], pages.tobytes()))
        chunk = self.setup.chunk_tokens
        logger.info("Storing %d out of %d tokens for request %s", (full - first) * chunk, full * chunk, request_id)

    # ---- ends

    @guarded(lambda: None)
    def worker_output(self, output):
        report = getattr(output, "kv_connector_worker_meta", None)
        if report is not None:
            self.turn_off(report.disabled)
        for request_id in output.finished_recving or ():
            self._release(request_id)
        for request_id in output.failed_recving or ():
            if request_id in self._tracked:  # else it was aborted meanwhile: nobody asks for it again
                self._failed.add(request_id)
                self._tracked[request_id] = Tracked(self._tracked[request_id].request)  # what could not be loaded is stored anew

    @guarded(lambda: None)
    def finished(self, request):
        self._release(request.request_id)
        self._tracked.pop(request.request_id, None)
        self._lookups.pop(request.request_id, None)
        self._failed.discard(request.request_id)

    @guarded(lambda: False)
    def reset(self):
        for tracked in self._tracked.values():
            tracked.stale = True
        return self.client is None or self.client.drop_namespace()

    def _release(self, request_id):
        hold = self._holds.pop(request_id, None)
        if hold:
            self.client.release(hold)

    # ---- keys

    def _hashes(self, request, first, last):
        """Block hashes at the ends of chunks first..last-1, as far as the request has them."""
        step = self.setup.hashes_per_chunk
        return b"".join(request.block_hashes[(first + 1) * step - 1 : last * step : step])


def _stride(request):
    return len(request.block_hashes[0])
