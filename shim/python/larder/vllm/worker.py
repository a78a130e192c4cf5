"""The worker's half: moves chunks between KV pages and the arena, one native call a request to load, one a step to store.

Owned by the worker's thread; the copies run on the library's threads. Every load that vLLM waits for is reported exactly once, well or
failed, and never while a thread still writes its pages; every request that has ended, once no thread reads its pages (stores_under_way)."""

import logging
import sys
import time
from dataclasses import dataclass

from larder import fingerprint
from larder._native import DEADLINE_EXCEEDED, FAILED_PRECONDITION
from larder.client import LarderError
from larder.kv_pages import pages_of, stream_of
from larder.vllm import one_process, sleep_mode, words
from larder.vllm.guard import Guarded, guarded, late, logger
from larder.vllm.loaded_adapters import LoadedAdapters
from larder.vllm.messages import COMPUTES, OPEN_WAIT_MS, RESTS, WorkerReport
from larder.vllm.stores_under_way import Step, StoresUnderWay

# How long a step with nothing to compute waits for a load, or for a store whose request has ended. vLLM's processes spin between steps: on few processors they would take
# them from the copy. A request that comes meanwhile waits as long.
IDLE_WAIT_MS = 2
# How long an engine that falls asleep waits for copies. A load that cannot begin fails after 5 s, a chunk takes milliseconds: what takes longer hangs.
SLEEP_WAIT_S = 10
# Then for larderd to close memory in which it copies itself. Where it does not, that memory comes free later, and nothing goes wrong.
CLOSE_WAIT_MS = 1000


@dataclass
class Load:
    """One request's load: a ticket for each group, ended when all are."""

    request_id: str
    pages: tuple[int, ...] = ()
    tickets: int = 0
    failure: str = ""
    bytes: int = 0
    wait_ns: int = 0
    copy_ns: int = 0


_NOTHING = WorkerReport()


class WorkerHalf(Guarded):
    """`shard`: the one whose pages this worker holds; `stores`: it is the one of several with equal bytes that stores them.
    lora_config: vLLM's, of this engine."""

    def __init__(self, setup, client, shard=0, stores=True, lora_config=None):
        super().__init__(setup, client)
        self._loaded = LoadedAdapters(lora_config)
        self._shard, self._stores = shard, stores
        self._text = ""  # the scheduler's fingerprint, once it is known
        self._spaces = {}  # the client's namespaces, by what is added to the fingerprint
        self._tickets: dict[int, Load] = {}
        self._failed: list[Load] = []  # before anything was started
        self._failed_pages: set[int] = set()
        self._stream = None  # gives the address of the stream that computes, where pages are on a GPU
        windows = setup is not None and any(group.window is not None for group in setup.groups)
        self._under_way = StoresUnderWay(client, windows)
        self._step = None  # a Step in which a store was begun
        self._adapters = ()  # (number, files) of the adapters in that step
        self._away = False  # the memory of the pages
        self._computes = False
        self._prefill_tokens = 0
        self._step_begin = 0
        self._registered = self._shared = False
        self._reported_off = False
        self._measured = WorkerReport()  # not reported yet

    def turn_off(self, why, level=logging.WARNING):
        """Nobody finishes any more what was begun: larderd gets its grants back."""
        super().turn_off(why, level)
        if self.client is not None:
            self.client.store_abandon()
        self._nothing_of_step()

    def _nothing_of_step(self):
        """What was begun in it is given back, and no page is read for it."""
        step, self._step = self._step, None
        if step is not None:
            self._under_way.nothing_of(step.number)

    def register(self, kv_caches):
        """Gives the library the address of every page of every layer."""
        if self._registered:  # vLLM has one connector for all workers of a process, and does not say whose step it is
            self._shared = True
            one_process.share()
            return self.turn_off(one_process.SHARED)
        self._registered = True
        if self.off is not None:
            return
        sleep_mode.on_pages(self)
        try:
            for number, group in enumerate(self.setup.groups):
                pages = [pages_of(name, kv_caches[name], group.page_bytes) for name in group.layers]
                self.client.register_pages(number, pages)
            self._stream = stream_of(kv_caches.values())
        except KeyError as error:
            self.turn_off(f"KV pages cannot be served: vLLM has none for the layer {error}")
        except ValueError as error:
            self.turn_off(f"KV pages cannot be served: {error}")
        except LarderError as error:
            self.turn_off(f"KV pages cannot be served: {words.of_error(error)}")

    # ---- sleep

    def pages_leave(self):
        """Their memory is about to go: nothing is copied until pages_are_back(). RuntimeError: copies may still run, and it must stay."""
        self.client.store_abandon()
        self._nothing_of_step()
        self._under_way.overtake()
        until = time.monotonic() + SLEEP_WAIT_S
        while running := self._copies():
            if time.monotonic() > until:
                raise RuntimeError(
                    f"{running} copies of Larder from and to KV pages have not ended in {SLEEP_WAIT_S} s: this engine cannot fall asleep now"
                )
            time.sleep(0.001)
        self._away = True
        try:
            self.client.pages_leave(CLOSE_WAIT_MS)
        except LarderError as error:
            if error.status == DEADLINE_EXCEEDED:
                logger.warning("Larder: this engine falls asleep, and larderd may keep its KV memory for a while")

    def _copies(self):
        try:
            state = self.client.state()
        except LarderError:  # it was closed, which waits for all copies
            return 0
        return state.loads_running + state.stores_running

    def pages_are_back(self):
        self._away = False
        self.client.pages_are_back()

    # ---- the step

    @guarded(lambda: None)
    def make_way(self, preempted=()):
        """Before anything of a step: blocks may be written from here on."""
        self._under_way.make_way(preempted)

    def bind(self, work):
        """Before the forward pass: loads start, and larderd is asked for room for what this step fills."""
        self._computes, self._prefill_tokens = work.computes, work.prefill_tokens
        self.make_way(work.preempted)
        if (work is COMPUTES or work is RESTS) and self._step is None:
            return
        self._under_way.keep(work.kept)
        self._step_begin = time.perf_counter_ns()
        self._name(work.namespace)
        self._close(work.closed)
        if work.loads:
            self._order()
        for load in work.loads:
            self._load(load)
        self._store(work)

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
    def _name(self, text):
        """The scheduler tells the fingerprint. Its first part must be what this worker finds: the shape of the KV that it holds."""
        if self.off is not None or not text:
            return
        if not text.startswith(self.setup.facts):
            mine = {line.split(": ")[0] for line in self.setup.facts.splitlines()}
            lines = [name for name in fingerprint.differing_fields(text, self.setup.facts) if name in mine]
            raise ValueError(f"scheduler and worker derived different fingerprints: {', '.join(lines)}")
        self._text = text
        self._spaces = {"": self.client.add_namespace(text, OPEN_WAIT_MS)}

    @guarded(lambda: None)
    def _close(self, lines):
        for line, drop in lines:
            number = self._spaces.pop(line, None)
            if number:
                self.client.close_namespace(number, drop)

    def _load(self, move):
        load = Load(move.request_id, move.pages)
        try:
            if self.off is not None or self._away or not move.parts:
                raise LookupError(self.off or ("the KV pages are away" if self._away else "nothing to load"))
            if not self._holds(move):
                raise LookupError("vLLM holds other files of its adapter")
            space = self._space_of(move)
            for part in move.parts:
                ticket = self.client.load(part.hashes, self._stride(part), part.pages, part.group, self._shard, space)
                self._tickets[ticket] = load
                load.tickets += 1
        except Exception as error:
            load.failure = str(error) if type(error) is LookupError else words.of_fault(error, "load")
            if not load.tickets:  # else it has failed when what was started has ended
                logger.warning("Request %s is computed, not loaded: %s", move.request_id, load.failure)
                self._failed.append(load)

    def _space_of(self, move):
        if move.line not in self._spaces:
            self._spaces[move.line] = self.client.add_namespace(self._text + move.line, OPEN_WAIT_MS)
        return self._spaces[move.line]

    def _stride(self, part):
        return len(part.hashes) * self.setup.groups[part.group].blocks * 4 // len(part.pages)

    @guarded(lambda: None)
    def _store(self, work):
        last, self._step = self._step, None
        if work.number:
            self._step = Step(work.number, frozenset(move.request_id for move in work.stores))
        self._adapters = {move.adapter for move in work.stores if move.adapter is not None}
        if last is not None:  # whatever is begun is copied by the next save, and its pages may be others' by now
            self._under_way.nothing_of(last.number)
            if self.off is None:
                raise RuntimeError("the step before this one was never saved")
        begun, may_store = False, self._stores and self.off is None and not self._away
        # A line that the scheduler has closed, of an adapter that was loaded again, must not be opened once more.
        stores = [move for move in work.stores if self._holds(move)] if may_store else ()
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
                calls.setdefault((space, part.group), []).append(part)
        return calls

    @guarded(lambda: None)
    def wait_for_save(self):
        """After the forward pass: what was granted is copied from here on, behind what the engine has queued."""
        if self._step is None and not self._prefill_tokens:
            return
        # vLLM comes here by a `finally`. Pages that a pass left half written would verify for ever.
        failed = sys.exc_info()[0]
        if self._step is not None and failed is not None:
            self.turn_off(f"the forward pass ended by {failed.__name__}")
            return
        if self.off is None and self._prefill_tokens:
            self._measure_prefill(self._prefill_tokens, time.perf_counter_ns() - self._step_begin)
        self._prefill_tokens = 0
        if self._step is not None:
            self._order()
        if self._step is not None and not all(self._loaded.matches(*adapter) for adapter in self._adapters):
            logger.warning("Larder: nothing of a step is stored: vLLM holds other files of an adapter than those that were read")
            self.client.store_abandon()
            self._nothing_of_step()
        if self._step is not None:
            self._submit()

    def _submit(self):
        try:
            self._under_way.submit(self._step)
            self._step = None
        except LarderError as error:  # the library has given back what was begun
            logger.debug("Larder: nothing of a step is stored: %s", words.of_error(error))
            self._nothing_of_step()

    def _measure_prefill(self, tokens, nanoseconds):
        self.client.report_prefill(tokens, nanoseconds)
        if tokens >= self.setup.chunk_tokens and self._tells_speed():  # in a shorter step it is not the tokens that take the time
            self._measured.prefill_tokens += tokens
            self._measured.prefill_ns += nanoseconds

    def _tells_speed(self):
        """The scheduler asks how fast this engine is only where larderd has something to fetch."""
        return self.setup.fetches and self.client.below() is not None

    def transfer_results(self):
        """(ended, failed): request ids of loads that ended since the last call; the failed are among the ended."""
        self._poll_stores()
        if not self._tickets and not self._failed:
            return set(), set()
        completions = self._poll()
        failures, self._failed = self._failed, []
        ended = {load.request_id for load in failures}
        for completion in completions:
            load = self._tickets.pop(completion.ticket, None)
            if load is None:
                continue
            load.tickets -= 1
            load.bytes += completion.bytes
            load.wait_ns = max(load.wait_ns, completion.wait_ns)
            load.copy_ns += completion.copy_ns
            if not completion.ok:
                load.failure = load.failure or words.of_load(completion.reason)
            if load.tickets:
                continue
            ended.add(load.request_id)
            self._tell(load)
            if load.failure:
                failures.append(load)
            elif self._tells_speed():
                self._measured.load_bytes += load.bytes
                self._measured.load_ns += load.copy_ns
        return ended, self._note(failures)

    def _note(self, failures):
        failed = {load.request_id for load in failures}
        if failed and self.setup is not None and self.setup.fails_by_page:
            self._failed_pages.update(*(load.pages for load in failures))
            self._measured.failed |= failed
        return failed

    def failed_pages(self):
        """Those of the loads that transfer_results() has called failed since the last call, where vLLM is told of them by page."""
        pages, self._failed_pages = self._failed_pages, set()
        return pages

    @guarded(lambda: None)
    def _poll_stores(self):
        rests = not self._computes and self._under_way.keeps and not self._tickets and not self._failed
        self._under_way.poll(IDLE_WAIT_MS if rests else 0)

    def free_requests(self):
        """Requests that have ended, and whose pages no thread reads any more; each once."""
        return self._under_way.take_free()

    @guarded(list)
    def _poll(self):
        if not self._tickets:
            return []
        return self.client.poll(0 if self._computes else IDLE_WAIT_MS)

    @staticmethod
    def _tell(load):
        if load.failure:
            logger.warning("Load of request %s failed (%s): it is computed", load.request_id, load.failure)
        else:
            late.info(
                "Loaded %d bytes for request %s: waited %.2f ms, copied and verified in %.2f ms",
                load.bytes,
                load.request_id,
                load.wait_ns / 1e6,
                load.copy_ns / 1e6,
            )

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
        """Whether KV of this move is what vLLM computes: it holds the files of its adapter, or would read them now."""
        return move.adapter is None or self._loaded.matches(*move.adapter)
