"""The worker's half: moves chunks between KV pages and the arena, one native call a request to load, one a step to store.

Owned by the worker's thread; the copies run on the library's threads. Every load that vLLM waits for is reported exactly once, well or
failed, and never while a thread still writes its pages; every request that has ended, once no thread reads its pages (stores_under_way)."""

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
from larder.vllm.hosts import this_host
from larder.vllm.loaded_adapters import LoadedAdapters
from larder.vllm.loads_under_way import Load, LoadsUnderWay
from larder.vllm.messages import COMPUTES, OPEN_WAIT_MS, RESTS, WorkerReport
from larder.vllm.prefill_clock import DeviceClock, HostClock, Timeline
from larder.vllm.stores_under_way import Step, StoresUnderWay

# How long a step with nothing to compute waits for a load, or for a store whose request has ended. vLLM's processes spin between steps: on few processors they would take
# them from the copy. A request that comes meanwhile waits as long.
IDLE_WAIT_MS = 2
# How long an engine that falls asleep waits for copies. A load that cannot begin fails after 5 s, a chunk takes milliseconds: what takes longer hangs.
SLEEP_WAIT_S = 10
# Then for larderd to close memory in which it copies itself. Where it does not, that memory comes free later, and nothing goes wrong.
CLOSE_WAIT_MS = 1000
_OTHER_HOST = "its workers run on several machines, which is not served yet: a hit would need the memory of every machine's larderd"

_NOTHING = WorkerReport()


class LarderConnectorWorker(FailSafe):
    """`shard`: the one whose pages this worker holds; `replica`: which of the workers with equal bytes this one is.
    lora_config: vLLM's, of this engine."""

    def __init__(self, setup, client, shard=0, replica=0, lora_config=None):
        super().__init__(setup, client)
        self._loaded = LoadedAdapters(lora_config)
        self._awaited = AwaitedAdapters(self._loaded)
        self._shard, self._replica = shard, replica
        self._text = ""  # the scheduler's fingerprint, once it is known
        self._attention = setup.attention if setup is not None else None
        self._misnamed = False  # the scheduler has told a fingerprint with another attention
        self._spaces = {}  # the client's namespaces, by what is added to the fingerprint
        self._loads = LoadsUnderWay(client)
        self._failed_pages: set[int] = set()
        self._stream = None  # gives the address of the stream that computes, where pages are on a GPU
        self._clock = HostClock()
        windows = setup is not None and any(group.window is not None for group in setup.groups)
        self._under_way = StoresUnderWay(client, windows)
        self._step = None  # a Step in which a store was begun, until it is submitted
        self._passed = False  # its forward pass was launched to the end
        self._adapters = ()  # (number, files) of the adapters in that step
        self._away = False  # the memory of the pages
        self._computes = False
        self._registered = self._shared = False
        self._reported_off = False
        self._measured = WorkerReport()  # not reported yet

    def turn_off(self, why, level=logging.WARNING):
        """Nobody finishes any more what was begun: larderd gets its grants back."""
        super().turn_off(why, level)
        self._abandon()

    def _abandon(self):
        """What was begun in the open step is given back."""
        if self.client is not None:
            self.client.store_abandon()
        self._nothing_of_step()

    def _nothing_of_step(self):
        """No page is read for the open step."""
        step, self._step = self._step, None
        if step is not None:
            self._under_way.nothing_of(step.number)

    @guarded(lambda: None)
    def register_kv_caches(self, kv_caches, vllm_config=None):
        """Gives the library the address of every page of every layer. vllm_config: knows the layers, which the connector's hook has."""
        if self._registered:  # vLLM has one connector for all workers of a process, and does not say whose step it is
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
                self._attention = attention_of_worker(vllm_config, self.setup.groups, blocks)
                self._measured.attention = frozenset([self._attention])
        except Unsupported as reason:
            return self.turn_off(f"KV pages cannot be served: {reason}")
        except LarderError as error:
            return self.turn_off(f"KV pages cannot be served: {words.of_error(error)}")
        self._stream = stream_of(kv_caches.values())
        if self._stream is not None:
            self._clock = DeviceClock(Timeline(self._stream.device))

    # ---- sleep

    def pages_leave(self):
        """Their memory is about to go: nothing is copied until pages_are_back(). RuntimeError: copies may still run, and it must stay."""
        self._abandon()
        self._under_way.overtake()
        if running := await_copies(self.client, time.monotonic() + SLEEP_WAIT_S):
            raise RuntimeError(
                f"{running} copies of Larder from and to KV pages have not ended in {SLEEP_WAIT_S} s: this engine cannot fall asleep now"
            )
        self._away = True
        try:
            self.client.pages_leave(CLOSE_WAIT_MS)
        except LarderError as error:
            if error.status == DEADLINE_EXCEEDED:
                logger.warning("Larder: this engine falls asleep, and larderd may keep its KV memory for a while")

    def pages_are_back(self):
        self._away = False
        self.client.pages_are_back()

    # ---- the step

    @guarded(lambda: None)
    def handle_preemptions(self, preempted=(), rewritten=()):
        """Before anything of a step: blocks may be written from here on. preempted, rewritten: of StepWork."""
        step = self._step
        if step is not None and (step.number in rewritten or not step.requests.isdisjoint(preempted)):
            self._abandon()
        self._under_way.make_way(preempted, rewritten)

    def bind_connector_metadata(self, work):
        """Before the forward pass: loads start, and larderd is asked for room for what this step fills."""
        self._computes = work.computes
        self.handle_preemptions(work.preempted, work.rewritten)
        self._end_last_step()
        if work is COMPUTES or work is RESTS:
            return
        self._under_way.keep(work.kept)
        self._name(work)
        self._close(work.closed)
        self._begin_loads(work.loads)
        self._store(work)
        self._begin_clock(work.prefill_tokens)

    def _begin_loads(self, moves=()):
        """These, and those that waited for their adapter."""
        if not moves and not self._awaited:
            return
        ready = self._awaited.ready(moves)
        if ready:
            self._order()
        for move in ready:
            self._loads.begin(Load(move.request_id, move.pages), self._orders_of(move))

    @guarded(lambda: None)
    def _end_last_step(self):
        """Its copies come behind all that the engine has queued by now. A step that was not seen to pass is not stored: pages that a pass
        left half written would verify for ever."""
        if self._step is None:
            return
        if self._passed:
            return self._submit()
        self._nothing_of_step()
        if self.off is None:
            raise RuntimeError("the step before this one was never saved")  # mutation: unsaved-step

    @guarded(lambda: None)
    def _order(self):
        """What copies from here on comes behind what the engine has queued: pages are written by that, or are still read by it."""
        if self._stream is None or self.off is not None:
            return
        try:
            self.client.after_stream(self._stream())
        except LarderError as error:
            if error.status == FAILED_PRECONDITION:  # it is being captured: the library refuses what is asked in this step, and nothing else
                return logger.debug("Larder: nothing is copied in this step: %s", words.of_error(error))
            self.turn_off("copies from and to the GPU have ended: a CUDA error has stopped them until the engine restarts")

    @guarded(lambda: None)
    def _name(self, work):
        """The scheduler tells the fingerprint. Its first part must be what this worker finds: the shape of the KV that it holds. The scheduler
        may have guessed the attention: it gets this worker's report of it, and tells another fingerprint."""
        text = work.namespace
        if self.off is not None or not text:
            return
        if work.host not in ("", this_host()):
            return self.turn_off(_OTHER_HOST)
        if not text.startswith(self.setup.facts):
            mine = {line.split(": ")[0] for line in self.setup.facts.splitlines()}
            lines = [name for name in fingerprint.differing_fields(text, self.setup.facts) if name in mine]
            raise ValueError(f"scheduler and worker derived different fingerprints: {', '.join(lines)}")
        self._misnamed = self._attention is not None and not text.startswith(self.setup.facts + self._attention.text())
        if self._misnamed:
            return logger.debug("Larder: the scheduler does not know the attention of the layers yet")
        self._text = text
        self._spaces = {"": self.client.add_namespace(text, OPEN_WAIT_MS)}

    @guarded(lambda: None)
    def _close(self, lines):
        if self._awaited:
            self._awaited.close({line for line, _ in lines})
        for line, drop in lines:
            number = self._spaces.pop(line, None)
            if number:
                self.client.close_namespace(number, drop)

    def _orders_of(self, move):
        """What is asked of the library for a load, a group each. LookupError: nothing; the text says why."""
        if self._misnamed:
            raise LookupError("the scheduler does not know the attention of the layers yet")
        if self.off is not None or self._away or not move.parts:
            raise LookupError(self.off or ("the KV pages are away" if self._away else "nothing to load"))
        holds = self._holds(move)
        if not holds:
            raise LookupError("the files of its adapter are not known yet" if holds is None else "vLLM holds other files of its adapter")
        space = self._space_of(move)
        for part in move.parts:
            yield part.hashes, self._stride(part), part.pages, part.group, self._shard, space

    def _space_of(self, move):
        if move.line not in self._spaces:
            self._spaces[move.line] = self.client.add_namespace(self._text + move.line, OPEN_WAIT_MS)
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
        # A line that the scheduler has closed, of an adapter that was loaded again, must not be opened once more. An adapter that is not
        # loaded yet is loaded by this step: _end_pass() looks again.
        stores = [move for move in work.stores if self._holds(move) is not False] if may_store else ()
        for (space, group), parts in self._by_call(stores).items():
            hashes, pages = (b"".join(one) for one in zip(*((part.hashes, part.pages) for part in parts)))
            begun |= self.client.store_begin(hashes, self._stride(parts[0]), pages, group, self._shard, space)
        if not begun:
            self._nothing_of_step()

    def _by_call(self, moves):
        """Parts by (space, group): requests whose chunks fill in one step share a call, and larderd's answer."""
        calls = {}
        for move in moves:
            space = self._space_of(move)
            for part in move.parts:
                part = part.of_writer(self._replica, self.setup.shards.replicas, self._stride(part))
                if part.hashes:
                    calls.setdefault((space, part.group), []).append(part)
        return calls

    @guarded(lambda: None)
    def finish_forward(self):
        """The forward pass was launched, and its sampling was not. An older vLLM does not tell."""
        self._clock.end()

    @guarded(lambda: None)
    def wait_for_save(self):
        """After the forward pass: what was granted is copied from here on, behind what the engine has queued."""
        self._end_pass()
        if self._step is not None and self._passed and not self._stores_late():
            self._submit()

    def _stores_late(self):
        """vLLM's first runner saves before it samples. On a GPU copies then would stand before the sampled tokens on their way to the
        host: the next step submits them."""
        return self._stream is not None and not self.setup.v2_runner

    def _end_pass(self):
        """vLLM's hooks behind a forward pass come here by a `finally`."""
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
            logger.warning("Larder: nothing of a step is stored: vLLM holds other files of an adapter than those that were read")
            self._abandon()

    def _submit(self):
        self._order()
        if self._step is None:  # it went off
            return
        try:
            self._under_way.submit(self._step)
            self._step = None
        except LarderError as error:  # the library has given back what was begun
            logger.debug("Larder: nothing of a step is stored: %s", words.of_error(error))
            self._nothing_of_step()

    # ---- speeds

    @guarded(lambda: None)
    def _begin_clock(self, tokens):
        if tokens and self.off is None:
            self._clock.begin(tokens)

    @guarded(lambda: None)
    def _tell_prefill(self):
        if self.off is not None:
            return
        for tokens, nanoseconds in self._clock.take():
            self.client.report_prefill(tokens, nanoseconds)
            if tokens >= self.setup.chunk_tokens and self._tells_speed():  # in a shorter step it is not the tokens that take the time
                self._measured.prefill_tokens += tokens
                self._measured.prefill_ns += nanoseconds

    def _tells_speed(self):
        """The scheduler asks how fast this engine is only where larderd has something to fetch."""
        return self.setup.fetches and self.client.lower_tiers() is not None

    # ---- ends

    def get_transfer_results(self):
        """(ended, failed): request ids of loads that ended since the last call; the failed are among the ended."""
        self._end_step()
        self._poll_stores()
        self._begin_loads()
        if self._awaited and not self._loads and not self._computes:
            self._awaited.wait(self._idle_wait_ms() / 1e3)
        if not self._loads:
            return set(), set()
        ended = self._loads.take_ended(self._poll())
        for load in ended:
            if not load.failure and self._tells_speed():
                self._measured.load_bytes += load.bytes
                self._measured.load_ns += load.copy_ns
        return {load.request_id for load in ended}, self._note([load for load in ended if load.failure])

    @guarded(lambda: None)
    def _end_step(self):
        """A step of vLLM's first runner that speculates comes here before wait_for_save(), and on a stage that is not the last without."""
        self._end_pass()

    def _note(self, failures):
        failed = {load.request_id for load in failures}
        if failed and self.setup is not None and self.setup.fails_by_page:
            self._failed_pages.update(*(load.pages for load in failures))
            self._measured.failed |= failed
        return failed

    def get_block_ids_with_load_errors(self):
        """Those of the loads that get_transfer_results() has called failed since the last call, where vLLM is told of them by page."""
        pages, self._failed_pages = self._failed_pages, set()
        return pages

    def _idle_wait_ms(self):
        """A GPU engine's copies need no processor. Other data-parallel ranks compute while this one waits, and would wait for it."""
        return 0 if self._stream is not None or self.setup is None or self.setup.data_parallel else IDLE_WAIT_MS

    @guarded(lambda: None)
    def _poll_stores(self):
        rests = not self._computes and self._under_way.keeps and not self._loads and not self._awaited
        self._under_way.poll(self._idle_wait_ms() if rests else 0)

    def free_requests(self):
        """Requests that have ended, and whose pages no thread reads any more; each once."""
        return self._under_way.take_free()

    @guarded(list)
    def _poll(self):
        return self._loads.poll(0 if self._computes else self._idle_wait_ms())

    def report(self):
        """For the scheduler: how fast this worker was, and once that it is off; to schedulers of several engines each time. Mostly
        nothing."""
        self._measured.ended.update(self._under_way.take_ended())
        self._measured.adapters.update(self._loaded.take_news())
        if self.off is not None and (self._shared or not self._reported_off):
            self._reported_off = True
            self._measured.disabled = one_process.SHARED if self._shared else self.off
        elif self._measured == _NOTHING:
            return None
        report, self._measured = self._measured, WorkerReport()
        return report

    def _holds(self, move):
        """Whether KV of this move is what vLLM computes: it holds the files of its adapter, or would read them now. None: not known yet."""
        return move.adapter is None or self._loaded.matches(*move.adapter)
