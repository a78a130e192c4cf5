"""Larder under this engine, as in vLLM's connector, except for loads by layers. One client looks up
and holds, another client moves; each has its own session.

The order of calls is the connector's (larder.vllm.scheduler, larder.vllm.worker):
- look up without a side effect;
- hold, then load behind the work queued on the stream;
- reserve room before the forward pass; copy behind that pass, while the next pass runs.

A load writes only blocks that the engine's own prefix cache did not have. Owned by the engine's
thread."""

import time
from array import array

from larder import Client, LarderError
from larder._native import DECIDED_ABSENT, DECIDED_LOAD, NO_PAGE
from larder.kv_pages import pages_of, stream_of

from .loading import LOAD_DEADLINE_S, Loading

STORE_WAIT_MS = 500  # as in the connector
STORE_DEADLINE_S = 60
POLL_MS = 2
FETCH_DEADLINE_MS = 30_000
HASH_BYTES = 32


class LarderLink:
    def __init__(self, socket, fingerprint, model, kv, chunk_tokens):
        self.chunk_tokens = chunk_tokens
        self.chunk_blocks = chunk_tokens // kv.block_size
        self.block_size = kv.block_size
        self._scheduler = Client(socket, "paged_engine scheduler")
        self._worker = Client(socket, "paged_engine worker")
        for client in self._clients:
            client.set_namespace(
                fingerprint,
                model,
                chunk_tokens,
                [(kv.page_bytes, len(kv.layers), self.chunk_blocks)],
            )
        pages = [
            pages_of(f"layer.{number}", tensor, kv.page_bytes)
            for number, tensor in enumerate(kv.layers)
        ]
        self._worker.register_pages(0, pages)
        self._stream = stream_of(kv.layers)
        self.store_wait_ms = STORE_WAIT_MS
        self._stores = set()  # tickets of the current request
        self.by_layer = True  # False: wait for the whole load before the pass, as in vLLM
        self.last_load = None  # the completion of the last load
        self.last_layers_early = 0  # layers used before the load ended
        self.last_fetch = None  # the result of the last request's fetch; None: no fetch
        self.on_loading = lambda: None  # called when a load runs, before any wait for it

    @property
    def _clients(self):
        return self._scheduler, self._worker

    def close(self):
        for client in self._clients:
            client.close()

    def wait_attached(self, timeout_ms=10_000):
        return all(client.wait_attached(timeout_ms) for client in self._clients)

    def log_lines(self):
        """The log lines of the library since the last call."""
        return [" ".join(line) for client in self._clients for line in iter(client.next_log, None)]

    @property
    def loads_running(self):
        return self._worker.state().loads_running

    # ---- loading

    def hit_tokens(self, request):
        """The number of leading tokens that need no computation: from the engine's own cache, or by
        a load."""
        if request.load_failed:
            return request.local_tokens
        begin, self.last_fetch = time.perf_counter_ns(), None
        first, last = (
            request.local_tokens // self.chunk_tokens,
            request.prompt_tokens // self.chunk_tokens,
        )
        hashes = request.chunk_hashes(self.chunk_blocks, first, last)
        chunks = first + self._scheduler.lookup(hashes, HASH_BYTES) if hashes else first
        if chunks < last:
            chunks = first + self._bring_up(hashes, chunks - first)
        hit = max(chunks * self.chunk_tokens, request.local_tokens)
        self._report(request, hit, time.perf_counter_ns() - begin, hashes)
        return hit

    def _report(self, request, hit, nanoseconds, hashes):
        decision = DECIDED_LOAD if hit > request.local_tokens else DECIDED_ABSENT
        asked = request.prompt_tokens - request.local_tokens
        self._scheduler.report_request(
            asked, hit - request.local_tokens, nanoseconds, decision, hashes, HASH_BYTES
        )

    def _bring_up(self, hashes, there):
        """Fetches from the lower tiers. Returns the number of chunks then in memory; `there` if the
        lower tiers have no more."""
        client, reachable = self._scheduler, self._reachable(hashes)
        if reachable <= there:
            return there
        ticket = client.tiers.fetch(hashes[: reachable * HASH_BYTES], HASH_BYTES, FETCH_DEADLINE_MS)
        try:
            while (fetched := client.tiers.fetch_poll(ticket, POLL_MS)) is None:
                pass  # ends by its deadline
            self.last_fetch = fetched
            return client.lookup(hashes, HASH_BYTES)
        finally:
            client.tiers.fetch_end(ticket)

    def reachable_tokens(self, request):
        """The number of tokens of the prompt in memory or a lower tier, as told by larderd."""
        return (
            self._reachable(
                request.chunk_hashes(
                    self.chunk_blocks, 0, request.prompt_tokens // self.chunk_tokens
                )
            )
            * self.chunk_tokens
        )

    def _reachable(self, hashes):
        below = self._scheduler.tiers.speed()
        if below is not None and below.shared:
            return self._look(hashes)
        return (
            self._scheduler.tiers.reachable(hashes, HASH_BYTES)
            if below is not None and below.serving
            else 0
        )

    def _look(self, hashes):
        ticket = self._scheduler.tiers.probe(hashes, HASH_BYTES, FETCH_DEADLINE_MS)
        while (found := self._scheduler.tiers.probe_poll(ticket, POLL_MS)) is None:
            pass  # ends by its deadline
        self._scheduler.tiers.probe_end(ticket)
        return found.chunks

    def load(self, request, tokens):
        """Begins a load of the tokens from the request's own up to `tokens` into its blocks.
        Returns a Loading; None: the load cannot begin."""
        first, last = request.local_tokens // self.chunk_tokens, tokens // self.chunk_tokens
        hashes = request.chunk_hashes(self.chunk_blocks, first, last)
        hold, _ = self._scheduler.hold(hashes, HASH_BYTES)
        try:
            pages = array("I", request.table[first * self.chunk_blocks : last * self.chunk_blocks])
            for i in range(request.local_tokens // self.block_size - first * self.chunk_blocks):
                pages[i] = NO_PAGE
            self._order()
            ticket = self._worker.load(hashes, HASH_BYTES, pages.tobytes(), by_layer=self.by_layer)
        except LarderError:
            self._let_go(hold)
            return None
        self.on_loading()
        loading = Loading(
            ticket,
            tokens,
            self._worker,
            self._completion_of,
            lambda done: self._ended(loading, hold, done),
        )
        return loading

    def _ended(self, loading, hold, completion):
        self._let_go(hold)
        self.last_load, self.last_layers_early = completion, loading.layers_early

    def _let_go(self, hold):
        if hold:
            self._scheduler.release(hold)

    def _completion_of(self, ticket):
        deadline = time.monotonic() + LOAD_DEADLINE_S
        while time.monotonic() < deadline:
            for completion in self._worker.poll(POLL_MS):
                if completion.ticket == ticket:
                    return completion
        raise RuntimeError(
            f"a load was not reported within {LOAD_DEADLINE_S} s: {self.log_lines()}"
        )

    def _order(self):
        if self._stream is not None:
            self._worker.after_stream(self._stream())

    # ---- storing

    def begin_store(self, request, computed_after):
        """Called before a step that ends at `computed_after` tokens. Reserves room for the chunks
        that are full then. False: there are none."""
        full = computed_after // self.chunk_tokens
        first = request.stored_chunks
        hashes = request.chunk_hashes(self.chunk_blocks, first, full)
        present = self._scheduler.lookup(hashes, HASH_BYTES) if hashes else 0
        request.stored_chunks = full
        if first + present >= full:
            return False
        pages = array(
            "I", request.table[(first + present) * self.chunk_blocks : full * self.chunk_blocks]
        )
        return self._worker.store_begin(hashes[present * HASH_BYTES :], HASH_BYTES, pages.tobytes())

    def submit_store(self):
        """Called after the step. The copies run from now on."""
        self._order()
        self._stores.add(self._worker.store_submit(self.store_wait_ms))

    def abandon_store(self, request, stored_chunks):
        """Called for a void step. stored_chunks: the request's number before the step."""
        self._worker.store_abandon()
        request.stored_chunks = stored_chunks

    def end_stores(self):
        """Waits until all copies of stores have ended. Returns the number of chunks stored since
        the last call."""
        deadline, stored = time.monotonic() + STORE_DEADLINE_S, 0
        while self._stores:
            for ticket, result in self._worker.store_poll(POLL_MS):
                self._stores.discard(ticket)
                stored += result.stored
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"a store has not ended within {STORE_DEADLINE_S} s: {self.log_lines()}"
                )
        return stored
