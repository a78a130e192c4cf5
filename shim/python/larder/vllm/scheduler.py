"""The scheduler's half: the chunks that a request hits, and the fetches before (fetches). Also the
loads and stores of a step (load_plan, store_plan), and the holds between.

A look-up reads shared memory only, without a message and without a side effect, because vLLM
repeats the look-up every step. Owned by the scheduler's thread."""

import time

from larder import fingerprint
from larder.client import namespace_id
from larder.vllm import weight_changes, words
from larder.vllm.adapters import Adapters, NotYet
from larder.vllm.engine_metrics import Observed
from larder.vllm.fetches import IDLE_WAIT_MS, Fetches
from larder.vllm.first_tokens import FirstTokens
from larder.vllm.groups import Unsupported
from larder.vllm.fail_safe import FailSafe, guarded, late, logger
from larder.vllm.hinted_chunks import HintedChunks
from larder.vllm.hosts import larderd_of
from larder.vllm.items import Items
from larder.vllm.keys import chunk_hashes, stride_of
from larder.vllm.kv_origins import KvOrigins
from larder.vllm.load_plan import LoadPlan, Lookup
from larder.vllm.local_cache import LocalCache
from larder.vllm.messages import COMPUTES, RESTS, Move, StepWork
from larder.vllm.neighbours import Neighbours
from larder.vllm.places import Places
from larder.vllm.rank_lookups import RankLookups
from larder.vllm.request_hints import OFF, RequestHints, word_of
from larder.vllm.request_spaces import RequestSpaces
from larder.vllm.shared_loads import SharedLoads
from larder.vllm.spaces import Spaces
from larder.vllm.state_fetches import StateFetches
from larder.vllm.states import States
from larder.vllm.store_plan import StorePlan, Tracked
from larder.vllm.stored_blocks import StoredBlocks
from larder.vllm.tails import Tails
from larder.vllm.cost_model import LoadOrRecompute


class LarderConnectorScheduler(FailSafe):
    def __init__(self, setup, client, naming=None, vllm_config=None, events=None):
        """naming: a Naming. Requests run without the cache until the Naming knows the engine's
        fingerprint. events: TierEvents, if the engine publishes KV events."""
        super().__init__(setup, client)
        self._naming = naming
        self._text = ""  # the engine's fingerprint; "" until known
        self._model_config = getattr(vllm_config, "model_config", None)
        lora = getattr(vllm_config, "lora_config", None)
        self._adapters = Adapters(lora)
        self._spaces = Spaces(client, setup)
        self._names = RequestSpaces(self._spaces, self._adapters)
        self._local = LocalCache()
        self._tracked: dict[str, Tracked] = {}
        self._events = events
        self._observed = Observed()
        self._hints = RequestHints(self._observed)
        tower = getattr(lora, "enable_tower_connector_lora", False)
        self._items = Items(
            setup, self._observed, encoder_adapter=self._names.adapter_of if tower else None
        )
        note = events.note if events else None
        self._origins = KvOrigins(setup, self._items)
        self._stores = StorePlan(setup, client, self._tracked, self._items, self._origins, note)
        self._states = States(setup, client, self._tracked, self._items, self._origins)
        self._tails = Tails(setup, client, self._tracked, self._items, self._origins)
        self._neighbours = Neighbours(getattr(vllm_config, "max_concurrent_batches", 1))
        self._stored = StoredBlocks(setup)
        self._hinted = HintedChunks(setup, client, self._items)
        self._worth, chunk_keys = None, 1
        self._places = Places(setup, larderd_of(setup) if setup else "")
        self._ranks = RankLookups(setup.shards.workers if setup else 0)
        if setup:
            self._worth = LoadOrRecompute(0, setup.chunk_tokens)
            self._size()
            chunk_keys = setup.shards.count * len(setup.token_groups)
        self._first_tokens = FirstTokens(self._observed)
        self._shared = SharedLoads(setup)
        self._fetches = (StateFetches if self._states else Fetches)(
            client, self._worth, self._shared, chunk_keys
        )
        self._loads = LoadPlan(setup, client, self._items, self._tails)
        self._lookups: dict[str, Lookup] = {}
        self._local_tokens: dict[str, int] = {}  # of vLLM's own hit, until the request has blocks
        # requests with a failed load, which are never looked up again
        self._failed: set[str] = set()
        self._announced = False

    @guarded(lambda: None)
    def begin(self, wait_s=0):
        """Call this before the first request. Waits `wait_s` at most for the engine's
        fingerprint."""
        try:
            weight_changes.watch(self, self._model_config)
        except Unsupported as reason:
            return self.turn_off(str(reason))
        if weight_changes.came_from_peers():
            self._leave()
        self._is_named(wait_s)

    # ---- hits

    @guarded(lambda: (0, False))
    def get_num_new_matched_tokens(self, request, local_tokens):
        self._lookups.pop(request.request_id, None)
        # vLLM repeats this call every step while the request waits, so the newest number counts.
        self._local_tokens[request.request_id] = local_tokens
        if request.lora_request is not None:
            self._local.seen(request.lora_request)
        wanted = self._may_load(request)
        may_load = self.off is None and self._items.asked(request, local_tokens, wanted)
        try:
            space = self._names.of(request) if may_load is not False else None
        except NotYet:
            return None, False
        # No namespace yet, or none for this adapter: the request runs without the cache.
        if space is None:
            return 0, False
        if (
            may_load is None
            or self._fetches.runs(request.request_id)
            or self._shared.waits(request.request_id, local_tokens)
        ):
            return None, False
        begin = time.perf_counter_ns()
        chunk = self.setup.chunk_tokens
        first, last = local_tokens // chunk, self._states.chunks_to_hit(request, chunk)
        hashes = chunk_hashes(self.setup, request, first, last, self._items.places(request))
        stride = stride_of(request) if hashes else 0
        hits = first + self.client.lookup(hashes, stride, space.number) if hashes else first
        attention, hits = hits, self._states.reach(space, first, hashes, stride, hits)
        if (
            hashes
            and hits < last
            and self.setup.fetches
            and self._fetches.begin(request, space, first, hashes, attention - first, local_tokens)
        ):
            return None, False
        # Some groups cannot serve a hit of the whole prompt, see Setup.needs_more().
        if hits * chunk == request.num_tokens and self.setup.needs_more(request.num_tokens):
            hits -= 1
        if request.mm_features:
            hits = max(self._items.hit_of(request, hits), first)
        if hits > first and self._places.several:
            fetch_s = self._worth.longest((hits - first) * chunk) if self.setup.fetches else 0
            # On several nodes each node has a larderd of its own, and the hit is the least of all.
            hits = self._ranks.reach(
                request.request_id, space, first, hashes[: (hits - first) * stride], stride, fetch_s
            )
            if hits is None:
                return None, False
        if hits > first and self._shared.join(
            request, space, hashes[: (hits - first) * stride], stride, hits, local_tokens
        ):
            return None, False
        self._states.ask_boundary(request, first, attention)
        end = self._tails.reach(request, space, hits, local_tokens)
        # vLLM counts its own hit in blocks, which need not be whole chunks.
        external = max(end - local_tokens, 0)
        self._lookups[request.request_id] = Lookup(
            space, local_tokens, hits, end, time.perf_counter_ns() - begin
        )
        return external, external > 0

    def update_state_after_alloc(self, request, blocks, external_tokens):
        """vLLM has blocks for the request. If external_tokens is not 0, vLLM now waits for a
        load."""
        lookup = self._lookups.pop(request.request_id, None)
        self._ranks.forget(request.request_id)
        self._hand_out(request, blocks, external_tokens)
        # The Move exists in any case: a load without a report would leak the blocks of the
        # request.
        # Empty: the worker reports the load as failed.
        load = Move(
            request.request_id,
            pages=self._pages_at_stake(blocks, lookup) if external_tokens else (),
        )
        try:
            if request.kv_transfer_params:
                self._hints.admitted(
                    request, self._fetches.tokens_by_tier(request.request_id, external_tokens)
                )
            wanted = self._is_named() and self._wanted(request)
            uses = self.off is None and self._items.admitted(
                request, blocks, external_tokens, wanted
            )
            space = self._names.of(request) if uses else None
            if space is not None:
                self._track(request, space, lookup)
                self._first_tokens.begin(
                    request, lookup.local_tokens if lookup else 0, external_tokens
                )
                if lookup is not None:
                    self._report(request, lookup, external_tokens)
                    self._tails.admitted(request.request_id, lookup.local_tokens + external_tokens)
                if external_tokens:
                    self._tracked[request.request_id].loaded_tokens = (
                        lookup.local_tokens + external_tokens
                    )
                    load = self._fill(load, request, blocks, lookup)
                    if self._events is not None:
                        self._note_hit(request, lookup)
            self._fetches.end(request.request_id)  # mutation: fetch-ended
        except NotYet:  # the request has blocks, and runs without the cache
            pass
        except Exception as error:
            # No exception reaches vLLM, and the load below is still reported.
            self.turn_off(words.of_fault(error, "update_state_after_alloc"))
        if external_tokens:
            self._loads.add(load)
        if not load.parts:  # other requests may wait for the load that this request was to make
            self._shared.end(request.request_id)

    @guarded(lambda: None)
    def _hand_out(self, request, blocks, external_tokens):
        """Blocks of vLLM's own hit are not written, nor are blocks of an ended load."""
        own = self._local_tokens.pop(request.request_id, None)
        for keeper in (self._stored, self._states):
            keeper.allocated(blocks, max(own or 0, request.num_computed_tokens))
        # else a load has ended, or a streaming session goes on: there was no look-up
        if own is not None:
            self._origins.admitted(request, own, external_tokens, blocks)
            if request.request_id in self._tracked:
                self._tracked[request.request_id].admitted_anew()

    def _fill(self, load, request, blocks, lookup):
        load, hashes = self._loads.fill(
            load, request, blocks, lookup, self._names.adapter_of(request)
        )
        self._shared.begin(request.request_id, lookup.space, hashes, stride_of(request))
        return load

    def _track(self, request, space, lookup):
        if request.request_id in self._tracked:
            return
        adapter, hits = self._names.adapter_of(request), lookup is None or lookup.local_tokens > 0
        stale = hits and self._local.may_be_old(request, adapter and adapter[1])
        self._tracked[request.request_id] = Tracked(request, space, adapter, stale=stale)

    def _note_hit(self, request, lookup):
        first, places = lookup.local_tokens // self.setup.chunk_tokens, self._items.places(request)
        keys = chunk_hashes(self.setup, request, first, lookup.hit_chunks, places)
        self._events.note(request, lookup.space, first, keys)

    def _may_load(self, request):
        return (
            self._is_named()
            and self.setup.loads
            and request.request_id not in self._failed
            and not getattr(request, "skip_reading_prefix_cache", False)
            and self._wanted(request)
        )

    def _wanted(self, request):
        """Whether this request uses the cache at all."""
        if request.num_prompt_tokens < self.setup.min_tokens:
            return False
        # A client's own choice for one request, for example for measuring.
        return word_of(request) != OFF

    def _is_named(self, wait_s=0):
        """Whether the engine's namespace is known and open. Opens a known namespace."""
        if self.off is None and not self._text:
            try:
                text = self._naming.poll(wait_s)
                if text is not None and self._places.all() is None:
                    self._naming.warn_of_silent_workers()
                elif text is not None:
                    self._open(text)
            except Unsupported as reason:
                self.turn_off(str(reason))
        return self.off is None and self._text != ""

    def _size(self):
        tokens, states = self.setup.numbers
        self._worth.sized(self._places.bytes_of(tokens), self._places.bytes_of(states))

    def _open(self, text):
        if self._places.tell_larderd(self.client):
            self._size()
            # With several larderd the own index says nothing about the chunks of the other nodes.
            self._stores.index_tells = not self._places.several
        self._spaces.named(text)
        self._text = text
        setup = self.setup
        logger.info(
            "Larder: model %s, chunks of %d tokens (%d bytes in %d shards), namespace %s of:\n%s",
            setup.model,
            setup.chunk_tokens,
            self._places.bytes_of(setup.numbers[0]),
            setup.shards.count,
            namespace_id(text),
            fingerprint.for_log(text),
        )
        if setup.tails_refused:
            logger.info("Larder: hits end at whole chunks: %s", setup.tails_refused)

    def _report(self, request, lookup, external_tokens):
        chunk = self.setup.chunk_tokens
        first, places = lookup.local_tokens // chunk, self._items.places(request)
        hashes = chunk_hashes(self.setup, request, first, request.num_tokens // chunk, places)
        self.client.report_request(
            request.num_tokens - lookup.local_tokens,
            external_tokens,
            lookup.nanoseconds,
            self._fetches.decision(request.request_id, external_tokens > 0),
            hashes,
            stride_of(request) if hashes else 16,
            lookup.space.number,
            salted=bool(request.cache_salt),
        )
        late.info(
            "Reqid: %s, Total tokens %d, Larder hit tokens: %d, need to load: %d",
            request.request_id,
            request.num_tokens,
            lookup.end,
            external_tokens,
        )

    @guarded(lambda: ())
    def take_events(self):
        return self._events.take() if self._events is not None and self.off is None else ()

    @guarded(tuple)
    def _pages_at_stake(self, blocks, lookup):
        return self._loads.pages_at_stake(blocks, lookup)

    # ---- the step

    def build_connector_meta(self, scheduler_output):
        loads = self._loads.take()
        namespace, stores, prefill_tokens = "", [], 0
        if self.off is None:
            namespace, stores, prefill_tokens = self._plan(scheduler_output)
        # A step without tokens has time: vLLM calls again at once, and a wait here gives larderd
        # the processor.
        computes = bool(scheduler_output.num_scheduled_tokens)
        if not computes:
            self._rest()
        # a step may begin the load of a request that a reset preempts
        if scheduler_output.preempted_req_ids:
            for request_id in set(scheduler_output.preempted_req_ids) - {
                move.request_id for move in loads
            }:
                self._shared.end(request_id)
        if stores and not self._hold(stores):
            stores = []
        rewritten = self._rewritten(scheduler_output)
        if rewritten is None:
            rewritten = self._stored.all_of_windows()
        number, preempted, kept = self._stored.step(
            scheduler_output.preempted_req_ids or (), stores
        )
        if number:
            self._stores.begun(number)
        closed = self._spaces.take_closed()
        lookups = self._ranks.take()
        if (
            loads
            or namespace
            or stores
            or prefill_tokens
            or preempted
            or kept
            or closed
            or rewritten
            or lookups
        ):
            more = (larderd_of(self.setup), self._places.all()) if namespace else ("", ())
            return StepWork(
                namespace,
                loads,
                stores,
                prefill_tokens,
                computes,
                number,
                preempted,
                kept,
                closed,
                rewritten,
                *more,
                lookups,
            )
        return COMPUTES if computes else RESTS

    @guarded(lambda: False)
    def _hold(self, stores):
        self._stored.hold(stores)
        return True

    @guarded(lambda: None)
    def _rewritten(self, scheduler_output):
        return self._stored.rewritten(scheduler_output)

    @guarded(lambda: None)
    def _rest(self):
        if self.off is not None or self.setup.data_parallel:  # other ranks would wait for this one
            return
        if not self._items.rest(IDLE_WAIT_MS) and not self._adapters.rest():
            self._fetches.rest()

    @guarded(lambda: ("", [], 0))
    def _plan(self, scheduler_output):
        """(namespace, stores, prefill_tokens) of StepWork."""
        scheduled = scheduler_output.num_scheduled_tokens
        self._neighbours.step(scheduler_output, self._tracked)
        self._origins.step(scheduler_output)
        stores = []
        if scheduled and self.setup.stores and self._stored.may_store():
            stores = self._stores.of_step(scheduler_output) + self._states.stores(scheduler_output)
        self._tails.superseded(stores)
        stores += self._tails.take(self._spaces)
        namespace = "" if self._announced else self._text
        self._announced = self._text != ""
        total, prefill = scheduler_output.total_num_scheduled_tokens, 0
        # More tokens than requests: some request prefills. Decoding requests have one token each.
        if total > len(scheduled):
            prefill = sum(count for count in scheduled.values() if count > 1)
        # A mixed step would measure decoding as well, and make computing look slow.
        return namespace, stores, prefill if prefill >= 0.9 * total else 0

    # ---- ends

    @guarded(lambda: None)
    def update_connector_output(self, output):
        if free := getattr(output, "finished_sending", None):
            self._stored.free(free)
            self._hinted.send(free)
        if (
            getattr(output, "invalid_block_ids", None)
            and self.setup is not None
            and not self.setup.fails_by_page
        ):
            if self._neighbours.failed(self._tracked):
                self._local.blocks_are_bad()
        report = getattr(output, "kv_connector_worker_meta", None)
        if report is not None:
            self.hear(report)
        for request_id in output.finished_recving or ():
            self._loads.release(request_id)
            self._shared.end(request_id)
        for request_id in getattr(output, "failed_recving", None) or (
            report.failed if report is not None else ()
        ):
            if request_id in self._tracked:  # otherwise the request was aborted meanwhile
                self._failed.add(request_id)  # mutation: failed-once
                self._first_tokens.missed(request_id)
                self._hints.load_failed(request_id)
                old = self._tracked[request_id]
                # The computed chunks are stored again, but not across a reset: their namespace
                # belongs to the old weights.
                self._tracked[request_id] = Tracked(
                    old.request, old.space, old.adapter, stale=old.stale
                )

    @guarded(lambda: None)
    def hear(self, report):
        """report: the sum of the workers' WorkerReports."""
        self._stores.refused(report.refused)
        self._stores.ended(self._stored.ended(report.ended))
        if report.disabled:
            self.turn_off(report.disabled)
        if report.places and self.off is None:
            try:
                self._places.hear(report.places)
            except Unsupported as reason:
                return self.turn_off(str(reason))
        # Only a worker knows the attention backend that vLLM has chosen for each layer.
        if report.attention and self.off is None and self._naming.correct(report.attention):
            self._name_anew()
        if report.answers:
            self._ranks.answered(report.answers)
        if report.adapters:
            if self._adapters.loaded(report.adapters):
                self._items.adapters_differ()
            self._local.loaded(report.adapters)
        if self._worth is not None:
            self._worth.measured(
                report.prefill_tokens, report.prefill_ns, report.load_bytes, report.load_ns
            )

    def _name_anew(self):
        """Takes the attention of the layers from the workers; this half may have had to guess.
        Under the wrong fingerprint no worker stores or loads."""
        if self._text:
            self._text, self._announced = "", False
            self._fetches.reset()
            self._shared.reset()
            self._tails.reset()
            self._lookups.clear()
            self._spaces.unnamed()
        if self._is_named():
            self._stores.begin_anew(self._names)

    @guarded(lambda: None)
    def observed(self):
        """The numbers for vLLM's metrics since the last call; None: no news."""
        self._first_tokens.look()
        if self._observed.is_empty():
            return None
        observed = Observed(self._observed.data)
        self._observed.reset()
        return observed

    def request_finished(self, request, tables=()):
        """Whether vLLM has to keep the request's blocks: copies may read the blocks, even after the
        cache was turned off. tables: the blocks with computed tokens, of each KV group; from an
        older vLLM, which has one group, a plain list."""
        tail = self._end_tail(request, tables)
        self._forget(request)
        keeps = self._stored.keeps(request.request_id, next_step=tail)
        if self._hinted.waits and not keeps:
            self._tell_hints(request.request_id)
        return keeps

    def take_answer(self, request_id):
        """The kv_transfer_params of the response to a request that has ended, or None."""
        return self._hints.take_answer(request_id)

    @property
    def waits_for_blocks(self):
        return self._stored.waits

    @property
    def holds_blocks(self):
        return self._stored.holds

    @guarded(lambda: None)
    def bind_gpu_block_pool(self, pool):
        """pool: vLLM's BlockPool of KV blocks."""
        self._stored.bind_gpu_block_pool(pool)
        self._states.bind_gpu_block_pool(pool)

    @guarded(lambda: None)
    def _tell_hints(self, request_id):
        self._hinted.send((request_id,))

    @guarded(lambda: False)
    def _end_tail(self, request, tables):
        """Whether the next step stores the tail of the request. A client that releases the request,
        or that has no use for its chunks, gets none."""
        hints = self._hints.of(request.request_id)
        if hints is not None and (hints.release or hints.low):
            return False
        if self.off is not None or not self.setup.stores or not self._stored.may_store():
            return False
        if not tables or isinstance(tables[0], int):
            tables = (tables,)
        return self._tails.ended(request, tables)

    @guarded(lambda: None)
    def _forget(self, request):
        # before the other tables forget the request
        if (hints := self._hints.of(request.request_id)) is not None:
            self._hinted.note(request, self._tracked.get(request.request_id), hints)
        self._loads.release(request.request_id)
        self._shared.forget(request.request_id)
        self._spaces.forget(request.request_id)
        self._first_tokens.end(request.request_id)
        self._fetches.forget(request.request_id)
        self._ranks.forget(request.request_id)
        self._items.forget(request.request_id)
        self._stores.forget(request.request_id)
        self._tails.forget(request.request_id)
        self._origins.forget(request.request_id)
        self._tracked.pop(request.request_id, None)
        self._lookups.pop(request.request_id, None)
        self._local_tokens.pop(request.request_id, None)
        self._failed.discard(request.request_id)

    @guarded(lambda: False)
    def reset_cache(self):
        """A client told vLLM to forget its cache."""
        self._leave()
        return True

    @guarded(lambda: None)
    def weights_change(self, call):
        """A call that may change weights is about to be made (weight_changes)."""
        if self.off is None:
            weight_changes.tell(call)
        self._leave()

    @guarded(lambda: None)
    def prefix_cache_emptied(self):
        """vLLM has emptied its own prefix cache (weight_changes)."""
        self._local.emptied()

    def _leave(self):
        """The weights may change now. KV that was computed before is no longer stored. KV that is
        computed from now on goes to a new private namespace."""
        for tracked in self._tracked.values():
            tracked.stale = True
        self._local.weights_change()
        if self.client is not None:
            self._fetches.reset()
            self._shared.reset()
            self._tails.reset()
            self._items.reset()
            self._origins.reset()
            self._spaces.leave()
