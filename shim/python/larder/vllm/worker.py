"""The worker's half: moves chunks between KV pages and the arena. A load takes one native call for
each request and group, a store one for each step and group.

Every load is reported to vLLM exactly once, failed or not, and never while a thread still writes
the load's pages. Every ended request is reported once no thread reads its pages (stores_under_way).
Owned by the worker's thread; the copies run on the library's threads."""

import logging
import sys
import time

from larder import fingerprint
from larder._native import DEADLINE_EXCEEDED, FAILED_PRECONDITION
from larder.client import LarderError, await_copies
from larder.kv_pages import stream_of
from larder.vllm import one_process, pages, sleep_mode, words
from larder.vllm.attention_kernels import attention_of_worker
from larder.vllm.awaited_adapters import AwaitedAdapters
from larder.vllm.groups import Unsupported
from larder.vllm.fail_safe import FailSafe, guarded, logger
from larder.vllm.hosts import larderd_of
from larder.vllm.loaded_adapters import LoadedAdapters
from larder.vllm.loads_under_way import Load, LoadsUnderWay
from larder.vllm.messages import COMPUTES, RESTS, LoadFigures, Part, WorkerReport
from larder.vllm.places import OTHER_LARDERD, Place, parts_kept, writer_of
from larder.vllm.rank_answers import RankAnswers
from larder.vllm.spaces import close_space, open_space
from larder.vllm.prefill_clock import DeviceClock, HostClock, Timeline
from larder.vllm.stores_under_way import Step, StoresUnderWay

# The wait of a step without work for a load, or for a store whose request has ended. vLLM's
# processes spin between steps, and with few processors they would take the processor from the copy.
# A request that arrives meanwhile waits as long.
IDLE_WAIT_MS = 2
# The wait of an engine that falls asleep for its copies. A load that cannot begin fails after 5 s,
# and a chunk takes milliseconds: a copy that takes longer hangs.
SLEEP_WAIT_S = 10
# The wait for larderd to close memory in which larderd copies. Without an answer the memory comes
# free later, which does no harm.
CLOSE_WAIT_MS = 1000


class LarderConnectorWorker(FailSafe):
    """shard: the shard of this worker's pages. replica: the number of this worker among the workers
    with equal bytes. lora_config: that of vLLM."""

    def __init__(self, setup, client, shard=0, replica=0, lora_config=None):
        super().__init__(setup, client)
        self._loaded = LoadedAdapters(lora_config)
        self._awaited = AwaitedAdapters(self._loaded)
        self._shard = shard
        groups = setup.groups if setup is not None else ()
        self._place = Place(
            shard,
            replica,
            tuple(len(group.layers) for group in groups),
            larderd_of(setup) if setup is not None else "",
        )
        self._writer = replica, setup.shards.replicas if setup is not None else 1
        self._text = ""  # the scheduler's fingerprint; "" until known
        self._attention = setup.attention if setup is not None else None
        self._parts_set = False
        self._misnamed = False  # the scheduler's fingerprint has another attention
        self._spaces = {}  # by the lines behind the fingerprint
        self._loads = LoadsUnderWay(client)
        self._answers = RankAnswers(client)
        self._failed_pages: set[int] = set()
        # for pages on a GPU: a function that gives the address of the computing stream
        self._stream = None
        self._clock = HostClock()
        forgets = setup is not None and any(group.forgets for group in setup.groups)
        self._under_way = StoresUnderWay(client, forgets)
        self._step = None  # a Step with a begun store, until the store is submitted
        self._passed = False  # the forward pass of _step was launched to the end
        self._adapters = ()  # (number, files) of the adapters in _step
        self._away = False  # the pages have no memory (sleep mode)
        self._computes = False
        self._registered = self._shared = False
        self._reported_off = False
        self._news = None  # a WorkerReport that the scheduler has not had yet, or None

    def turn_off(self, why, level=logging.WARNING):
        """Gives the grants of begun stores back to larderd, because no later hook would finish the
        stores."""
        super().turn_off(why, level)
        self._abandon()
        self._answers.close()

    def _abandon(self, refused=False):
        """Gives back the stores that were begun in the open step."""
        if self.client is not None:
            self.client.store_abandon()
        self._nothing_of_step(refused)

    def _nothing_of_step(self, refused=False):
        """No page is read for the open step. refused: see StoresUnderWay.nothing_of."""
        step, self._step = self._step, None
        if step is not None:
            self._under_way.nothing_of(step.number, refused)

    @guarded(lambda: None)
    def register_kv_caches(self, kv_caches, vllm_config=None):
        """Gives the library the address of every page of every layer. vllm_config: knows the
        layers; only the connector's hook has the configuration."""
        # a second engine: vLLM has one connector for all workers of a process (one_process)
        if self._registered:
            self._shared = True
            one_process.share()
            return self.turn_off(one_process.SHARED)
        self._registered = True
        if self.off is not None:
            return
        sleep_mode.on_pages(self)
        try:
            blocks = pages.register(self.client, self.setup, kv_caches)
            if vllm_config is not None:
                self._attention = attention_of_worker(vllm_config, self.setup.token_groups, blocks)
                self._tell_of_layers(self._to_report())
        except Unsupported as reason:
            return self.turn_off(f"KV pages cannot be served: {reason}")
        except LarderError as error:
            return self.turn_off(f"KV pages cannot be served: {words.of_error(error)}")
        self._stream = stream_of(kv_caches.values())
        if self._stream is not None:
            self._clock = DeviceClock(Timeline(self._stream.device))

    def _tell_of_layers(self, report):
        """Adds the parts of a report that the scheduler needs once."""
        if self._attention is not None:
            report.attention = frozenset([self._attention])
        report.places = frozenset([self._place])

    # ---- sleep

    def pages_leave(self):
        """The memory of the pages is about to go: no copy runs until pages_are_back().
        RuntimeError: copies may still run, and the memory must stay."""
        self._abandon()
        self._answers.reset()
        self._under_way.overtake()
        if running := await_copies(self.client, time.monotonic() + SLEEP_WAIT_S):
            raise RuntimeError(
                f"{running} copies of Larder from and to KV pages have not ended in {SLEEP_WAIT_S} "
                "s: this engine cannot fall asleep now"
            )
        self._away = True
        try:
            self.client.pages_leave(CLOSE_WAIT_MS)
        except LarderError as error:
            if error.status == DEADLINE_EXCEEDED:
                logger.warning(
                    "Larder: this engine falls asleep, "
                    "and larderd may keep its KV memory for a while"
                )

    def pages_are_back(self):
        self._away = False
        self.client.pages_are_back()

    # ---- the step

    @guarded(lambda: None)
    def handle_preemptions(self, preempted=(), rewritten=()):
        """Call this first in a step: blocks may be written from here on. preempted, rewritten: of
        StepWork."""
        step = self._step
        if step is not None and (
            step.number in rewritten or not step.requests.isdisjoint(preempted)
        ):
            # the other requests of the step keep their blocks, and may give the chunks again
            self._abandon(refused=True)
        self._under_way.make_way(preempted, rewritten)

    def bind_connector_metadata(self, work):
        """Call this before the forward pass. Starts loads, and asks larderd for room for the chunks
        that this step fills."""
        self._computes = work.computes
        if work.preempted or work.rewritten:
            self.handle_preemptions(work.preempted, work.rewritten)
        if self._step is not None:
            self._end_last_step()
        if work is COMPUTES or work is RESTS:
            return
        self._under_way.keep(work.kept)
        self._name(work)
        self._close(work.closed)
        if work.lookups:
            self._answer(work)
        self._begin_loads(work.loads)
        self._store(work)
        self._begin_clock(work.prefill_tokens)

    def _begin_loads(self, moves=()):
        """These, and the loads that waited for an adapter."""
        if not moves and not self._awaited:
            return
        ready = self._awaited.ready(moves)
        if ready:
            self._order()
        for move in ready:
            self._loads.begin(Load(move.request_id, move.pages), self._orders_of(move))

    @guarded(lambda: None)
    def _end_last_step(self):
        """Submits the stores of the last step, behind all queued work of the engine. The stores
        of a step without a seen end of its pass are dropped: half-written pages would verify for
        ever. REQUIRES: a step is open."""
        if self._passed:
            return self._submit()
        self._nothing_of_step()
        if self.off is None:
            raise RuntimeError("the step before this one was never saved")  # mutation: unsaved-step

    @guarded(lambda: None)
    def _order(self):
        """Orders later copies behind the queued work of the engine, because this work writes or
        reads the pages."""
        if self._stream is None or self.off is not None:
            return
        try:
            self.client.after_stream(self._stream())
        except LarderError as error:
            # a capture is under way: refused for this step alone
            if error.status == FAILED_PRECONDITION:
                return logger.debug(
                    "Larder: nothing is copied in this step: %s", words.of_error(error)
                )
            self.turn_off(
                "copies from and to the GPU have ended: a CUDA error has stopped the copies until "
                "the engine restarts"
            )

    @guarded(lambda: None)
    def _name(self, work):
        """Takes the scheduler's fingerprint. The first part, the shape of the KV, must equal this
        worker's own. The scheduler may have guessed the attention. The scheduler then gets this
        worker's report, and sends another fingerprint."""
        text = work.namespace
        if self.off is not None or not text:
            return
        if not work.places and work.larderd not in ("", self._place.larderd):
            return self.turn_off(OTHER_LARDERD)
        if not text.startswith(self.setup.facts):
            mine = {line.split(": ")[0] for line in self.setup.facts.splitlines()}
            lines = [
                name
                for name in fingerprint.differing_fields(text, self.setup.facts)
                if name in mine
            ]
            raise ValueError(
                f"scheduler and worker derived different fingerprints: {', '.join(lines)}"
            )
        self._misnamed = self._attention is not None and not text.startswith(
            self.setup.facts + self._attention.text()
        )
        if self._misnamed:
            return logger.debug(
                "Larder: the scheduler does not know the attention of the layers yet"
            )
        if work.places and not self._parts_set:
            self.client.set_parts(parts_kept(self.setup, work.places, self._place.larderd))
            self._writer = writer_of(work.places, self._place)
            self._parts_set = True
        self._text = text
        self._spaces = {"": open_space(self.client, self.setup, text)}

    @guarded(lambda: None)
    def _close(self, lines):
        if self._awaited:
            self._awaited.close({line for line, _ in lines})
        self._answers.close({line for line, _ in lines})
        for line, drop in lines:
            space = self._spaces.pop(line, None)
            if space:
                close_space(self.client, space, drop)

    @guarded(lambda: None)
    def _answer(self, work):
        gone = {line for line, _ in work.closed}
        for one in work.lookups:
            if self.off is None and self._text and not self._away and one.line not in gone:
                self._answers.ask(one, self._space_of(one).number)
            else:
                self._answers.answer(one, 0)

    def _orders_of(self, move):
        """The arguments of Client.load, for each group. LookupError: there is no load; the text is
        the reason."""
        if self._misnamed:
            raise LookupError("the scheduler does not know the attention of the layers yet")
        if self.off is not None or self._away or not move.parts:
            raise LookupError(
                self.off or ("the KV pages are away" if self._away else "nothing to load")
            )
        holds = self._loaded.holds(move)
        if not holds:
            raise LookupError(
                "the files of its adapter are not known yet"
                if holds is None
                else "vLLM holds other files of its adapter"
            )
        space = self._space_of(move)
        for part in move.parts:
            group = self.setup.groups[part.group]
            if group.layers:  # mutation: stage-without-layers
                yield (
                    part.hashes,
                    self._stride(part),
                    part.pages,
                    part.group,
                    self._shard,
                    space.of_group(group),
                )

    def _space_of(self, move):
        if move.line not in self._spaces:
            self._spaces[move.line] = open_space(self.client, self.setup, self._text, move.line)
        return self._spaces[move.line]

    def _stride(self, part):
        return len(part.hashes) * self.setup.groups[part.group].blocks * 4 // len(part.pages)

    @guarded(lambda: None)
    def _store(self, work):
        self._passed = False
        if work.number:
            self._step = Step(work.number, frozenset(move.request_id for move in work.stores))
        self._adapters = {move.adapter for move in work.stores if move.adapter is not None}
        begun, may_store = False, self.off is None and not self._away and not self._misnamed
        # A line that the scheduler has closed, of a reloaded adapter, must not be opened once more.
        # This step loads an adapter that is not loaded yet: _end_pass() looks again.
        stores = (
            [move for move in work.stores if self._loaded.holds(move) is not False]
            if may_store
            else ()
        )
        for (space, group), parts in (calls := self._by_call(stores)).items():
            hashes, pages, parents = Part.joined(parts)
            begun |= self.client.store_begin(
                hashes, self._stride(parts[0]), pages, group, self._shard, space, parents or None
            )
        if not begun:
            self._nothing_of_step(refused=bool(calls))  # mutation: refused-own

    def _by_call(self, moves):
        """Parts by (space, group): requests whose chunks fill in one step share a call and
        larderd's answer."""
        calls = {}
        for move in moves:
            space = self._space_of(move)
            for part in move.parts:
                group = self.setup.groups[part.group]
                part = part.of_writer(*self._writer, self._stride(part))
                if part.hashes and group.layers:
                    calls.setdefault((space.of_group(group), part.group), []).append(part)
        return calls

    @guarded(lambda: None)
    def finish_forward(self):
        """The forward pass was launched, its sampling was not. An older vLLM does not call this."""
        self._clock.end()

    @guarded(lambda: None)
    def wait_for_save(self):
        """The forward pass has ended: granted chunks are copied from here on, behind the queued
        work of the engine."""
        if not self._watches_pass:
            return
        self._end_pass()
        # vLLM's first runner saves before it samples. On a GPU such copies would delay the sampled
        # tokens on their way to the host, so the next step submits the stores.
        late = self._stream is not None and not self.setup.v2_runner
        if self._step is not None and self._passed and not late:
            self._submit()

    @property
    def _watches_pass(self):
        """Whether the step stores or its time is measured: most steps do neither. Their hooks must
        cost next to no time, because the engine's caches are cold."""
        return self._step is not None or bool(self._clock)

    @guarded(lambda: None)
    def _end_pass(self):
        """vLLM calls the hooks behind a forward pass in a `finally`, also after a failed pass. A
        speculating step of vLLM's first runner calls get_transfer_results() before wait_for_save().
        A stage other than the last never calls wait_for_save()."""
        failed = sys.exc_info()[0]
        if failed is not None:  # mutation: half-pass
            self._clock.drop()
            if self._step is not None:
                self.turn_off(f"the forward pass ended by {failed.__name__}")
            return
        self._clock.end()
        self._tell_prefill()
        if self._step is None or self._passed:
            return
        self._passed = True
        if not all(self._loaded.computed(*adapter) for adapter in self._adapters):
            logger.warning(
                "Larder: nothing of a step is stored: vLLM holds other files of an adapter than "
                "those that were read"
            )
            self._abandon()

    def _submit(self):
        self._order()
        if self._step is None:  # this half was turned off
            return
        try:
            self._under_way.submit(self._step)
            self._step = None
        except LarderError as error:  # the library has given the begun stores back
            logger.debug("Larder: nothing of a step is stored: %s", words.of_error(error))
            self._nothing_of_step(refused=True)

    # ---- speeds

    @guarded(lambda: None)
    def _begin_clock(self, tokens):
        if tokens and self.off is None:
            self._clock.begin(tokens)

    def _tell_prefill(self):
        """May raise: for guarded callers."""
        if self.off is not None:
            return
        for tokens, nanoseconds in self._clock.take():
            self.client.report_prefill(tokens, nanoseconds)
            # a shorter step does not measure the speed of tokens
            if tokens >= self.setup.chunk_tokens and self._tells_speed():
                news = self._to_report()
                news.prefill_tokens += tokens
                news.prefill_ns += nanoseconds

    def _tells_speed(self):
        """The scheduler needs this engine's speed only if larderd has lower tiers."""
        return self.setup.fetches and self.client.tiers.speed() is not None

    # ---- ends

    def get_transfer_results(self):
        """(ended, failed): request ids of loads that ended since the last call. `ended` includes
        `failed`."""
        if self._watches_pass:
            self._end_pass()
        if self._under_way:
            self._poll_stores()
        if self._awaited:
            self._begin_loads()
        if not self._loads:
            if self._answers and not self._computes:
                self._answers.wait(self._idle_wait_ms())
            if self._awaited and not self._computes:
                self._awaited.wait(self._idle_wait_ms() / 1e3)
            return set(), set()
        self._poll()
        ended = self._loads.take_ended()
        for load in ended:
            if not load.failure and self._tells_speed():
                news = self._to_report()
                news.load_bytes += load.bytes
                news.load_ns += load.copy_ns
        if self.setup is not None and self.setup.traces_endpoint:
            for load in ended:
                self._to_report().loads[load.request_id] = LoadFigures(
                    load.bytes, load.wait_ns, load.copy_ns, load.failure
                )
        return {load.request_id for load in ended}, self._note(
            [load for load in ended if load.failure]
        )

    def _note(self, failures):
        failed = {load.request_id for load in failures}
        if failed and self.setup is not None and self.setup.fails_by_page:
            self._failed_pages.update(*(load.pages for load in failures))
            self._to_report().failed |= failed
        return failed

    def get_block_ids_with_load_errors(self):
        """Pages of failed loads since the last call, for a vLLM that hears of failures by page."""
        pages, self._failed_pages = self._failed_pages, set()
        return pages

    def _idle_wait_ms(self):
        """0 for a GPU, whose copies need no processor, and with data parallelism, where other ranks
        would wait for this one."""
        return (
            0
            if self._stream is not None or self.setup is None or self.setup.data_parallel
            else IDLE_WAIT_MS
        )

    @guarded(lambda: None)
    def _poll_stores(self):
        rests = (
            not self._computes and self._under_way.keeps and not self._loads and not self._awaited
        )
        self._under_way.poll(self._idle_wait_ms() if rests else 0)

    def free_requests(self):
        """Ended requests whose pages no thread reads any more; each once."""
        return self._under_way.take_free()

    @guarded(lambda: None)
    def _poll(self):
        self._loads.poll(0 if self._computes else self._idle_wait_ms())

    def report(self):
        """The report for the scheduler, mostly None: this worker's speed and ended steps, and once
        that this half is off. With several engines in the process, every report says so."""
        if self._under_way.has_ended:
            self._to_report().ended.update(self._under_way.take_ended())
            self._news.refused |= self._under_way.take_refused()
        if self._answers.has_news and (answers := self._take_answers()):
            self._to_report().answers.update(answers)
        if adapters := self._loaded.take_news():
            self._to_report().adapters.update(adapters)
        if self.off is not None and (self._shared or not self._reported_off):
            self._reported_off = True
            self._to_report().disabled = one_process.SHARED if self._shared else self.off
        report, self._news = self._news, None
        return report

    def _to_report(self):
        """The next report: made for its first news."""
        if self._news is None:
            self._news = WorkerReport()
        return self._news

    @guarded(dict)
    def _take_answers(self):
        return self._answers.take()

    def first_report(self):
        """The part of the first report that the scheduler needs before the first request; see
        handshake."""
        report = WorkerReport(disabled=self.off or "")
        if self._registered and self.off is None:
            self._tell_of_layers(report)
        return report
