"""Client: one engine process attached to one larderd, as Python sees it.

Thread-safe, like the library. Only wait_attached(), store_finish() and calls with a wait_ms wait
for larderd; until larderd answers, all look-ups are misses. Hashes are bytes with one hash every
`stride` bytes (the first 16 bytes of each are the key); pages are bytes of uint32."""

import ctypes
import os
import threading
import time
from collections import deque, namedtuple

from larder import _native as native
from larder.hashing import hash_tokens
from larder.lower_tiers import LowerTiers

Completion = namedtuple("Completion", "ticket ok reason bytes wait_ns copy_ns")
Stored = namedtuple("Stored", "stored present refused bytes copy_ns")
Acted = namedtuple("Acted", "found absent refused")
State = namedtuple("State", "attached usable attachments epoch loads_running stores_running")

_POLL = 64
_LOG_LINES = 64


class LarderError(Exception):
    """A call was refused. `status` is the library's number for the error (larder.h), `why` the
    library's text, or empty."""

    def __init__(self, what, status, why=""):
        super().__init__(
            f"{what}: {native.library().larder_status_text(status).decode()}{why and f': {why}'}"
        )
        self.status = status
        self.why = why


def version():
    """Version of the loaded library and of its protocol."""
    return native.library().larder_version().decode()


def await_copies(client, until):
    """Waits until no load and no store of the client runs, or until the time `until` of
    time.monotonic(). Returns the number of loads and stores that still run."""
    while (running := client.copies()) and time.monotonic() <= until:
        time.sleep(0.001)
    return running


def namespace_id(fingerprint):
    """The 32 hex digits that name the namespace of this fingerprint text."""
    out = ctypes.create_string_buffer(33)
    _check(
        "namespace_id", native.library().larder_namespace_id(fingerprint.encode(), out, len(out))
    )
    return out.value.decode()


def _check(what, status):
    if status != native.OK:
        raise LarderError(what, status)


class Client:
    def __init__(self, socket=None, engine="python", copy_threads=0):
        self._lib = native.library()
        self._client = ctypes.c_void_p()
        options = native.Options(
            copy_threads=copy_threads,
            socket=os.fsencode(socket) if socket else None,
            engine=engine.encode(),
        )
        _check("larder_open", self._lib.larder_open(options, self._client))
        self._completions = (native.Completion * _POLL)()
        self._stores = (native.StoreCompletion * _POLL)()
        self._line = ctypes.create_string_buffer(4096)
        self._log_lock = threading.Lock()
        self.tiers = LowerTiers(self._client, self._check)
        # lines from the library, taken by _check() for next_log()
        self._unread = deque(maxlen=_LOG_LINES)

    def close(self):
        """Waits until no thread of the client writes into registered pages. REQUIRES: no other call
        is under way."""
        client = ctypes.c_void_p(self._client.value)
        self._client.value = None  # of `tiers` too
        self._lib.larder_close(client)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- setting up

    def set_namespace(
        self,
        fingerprint,
        model,
        chunk_tokens,
        groups,
        shard_count=1,
        layout_of_shard=None,
        state_groups=0,
        tail_groups=0,
        tail_tokens=0,
    ):
        """groups: (piece_bytes, layers, blocks_per_chunk) for each KV group, of every shard or of
        layout_of_shard alone. Groups of tokens come first, then state_groups of recurrent states,
        and tail_groups of tails last. tail_tokens: of a piece of a tail."""
        array = (native.Group * len(groups))(*groups)
        namespace = native.Namespace(
            shard_count=shard_count,
            fingerprint=fingerprint.encode(),
            # A folder's name need not be UTF-8; larderd shows its other bytes as \xff.
            model=model.encode(errors="surrogateescape"),
            groups=array,
            group_count=len(groups),
            chunk_tokens=chunk_tokens,
            layout_of_shard=0 if layout_of_shard is None else layout_of_shard + 1,
            state_group_count=state_groups,
            tail_group_count=tail_groups,
            tail_tokens=tail_tokens,
        )
        self._check("larder_set_namespace", self._lib.larder_set_namespace(self._client, namespace))

    def set_parts(self, kept):
        """kept: a byte for each shard and group, group by group inside a shard: 0 where larderd has
        no chunks of them. Call once, before add_namespace()."""
        self._check("larder_set_parts", self._lib.larder_set_parts(self._client, kept, len(kept)))

    def add_namespace(self, fingerprint, wait_ms=0, states=False, tails=False):
        """Adds a namespace and returns its number, for `ns` below; the same text has the same
        number. The number is a miss until larderd has opened the namespace. This call waits at most
        wait_ms for larderd. states, tails: the namespace has chunks of these groups only, else of
        the groups of tokens only."""
        number = ctypes.c_uint32()
        kind = "state_" if states else "tail_" if tails else ""
        name = f"larder_add_{kind}namespace"
        self._check(
            name, getattr(self._lib, name)(self._client, fingerprint.encode(), None, number)
        )
        if wait_ms:
            self._lib.larder_wait_namespace(self._client, number, wait_ms)
        return number.value

    def close_namespace(self, number, drop=False):
        """Gives back a namespace of add_namespace(): its number is a miss from now on. With
        drop=True the last session to close the namespace drops its chunks from larderd's memory.
        Never waits. False: the number is unknown or closed."""
        return (
            self._lib.larder_close_namespace(self._client, number, native.CLOSE_DROP if drop else 0)
            == native.OK
        )

    def register_pages(self, group, layers):
        """layers: (address, stride_bytes, page_bytes, page_count) for each layer of the group, in
        the order of the fingerprint."""
        array = (native.Pages * len(layers))(*layers)
        self._check(
            "larder_register_pages",
            self._lib.larder_register_pages(self._client, group, array, len(layers)),
        )

    def after_stream(self, stream):
        """For pages on a CUDA device: later loads, store_finish() and store_submit() copy behind
        the work queued on this stream (an address) by now. FAILED_PRECONDITION: the stream is being
        captured into a graph, and copies are refused until the next successful call; or a CUDA
        error has ended copies for good."""
        _check("larder_after_stream", self._lib.larder_after_stream(self._client, stream))

    def pages_leave(self, wait_ms):
        """Call this before the memory of the registered pages goes. REQUIRES: no load or store
        runs, and none begins before pages_are_back(). LarderError: a larderd that copies may keep
        the memory open for a while."""
        _check("larder_pages_leave", self._lib.larder_pages_leave(self._client, wait_ms))

    def pages_are_back(self):
        """The pages have memory again, at the same addresses."""
        self._lib.larder_pages_are_back(self._client)

    def wait_attached(self, timeout_ms):
        """False: larderd did not answer in time."""
        return self._lib.larder_wait_attached(self._client, timeout_ms) == native.OK

    def state(self):
        state = native.State()
        _check("larder_get_state", self._lib.larder_get_state(self._client, state))
        return State(*(getattr(state, name) for name in State._fields))

    def copies(self):
        """The number of running loads and stores; 0 for a closed client, since close() waits for
        them."""
        try:
            state = self.state()
        except LarderError:
            return 0
        return state.loads_running + state.stores_running

    def next_log(self):
        """The oldest unread line of the native threads and of refused calls as (level, text), or
        None."""
        with self._log_lock:
            return self._unread.popleft() if self._unread else self._take_log()

    def _take_log(self):
        if not self._lib.larder_next_log(self._client, self._line, len(self._line)):
            return None
        level, _, text = self._line.value.decode(errors="replace").partition(" ")
        return level, text

    def _check(self, what, status):
        """Raises LarderError with the reason from the log; the log line stays for next_log()."""
        if status == native.OK:
            return
        why = ""
        with self._log_lock:
            while (line := self._take_log()) is not None:
                self._unread.append(line)
            for level, text in self._unread:
                if level == "error" and text.startswith(f"{what}: "):
                    why = text.removeprefix(f"{what}: ")
        raise LarderError(what, status, why)

    # ---- looking up

    def lookup(self, hashes, stride, ns=0):
        """The number of chunks in memory, from the first chunk on."""
        return self._lib.larder_lookup(self._client, native.hashes(hashes, stride, ns))

    def last(self, hashes, stride, ns=0):
        """The last chunk in memory, counted from 1; 0: no chunk is in memory."""
        return self._lib.larder_last(self._client, native.hashes(hashes, stride, ns))

    def hold(self, hashes, stride, ns=0):
        """Keeps the chunks' slots until release(). Returns (hold, chunks held)."""
        hold, held = ctypes.c_uint64(), ctypes.c_size_t()
        status = self._lib.larder_hold(self._client, native.hashes(hashes, stride, ns), hold, held)
        return (hold.value, held.value) if status == native.OK else (0, 0)

    def release(self, hold):
        self._lib.larder_release(self._client, hold)

    def report_request(
        self,
        tokens_asked,
        tokens_hit,
        lookup_ns,
        decision=0,
        hashes=b"",
        stride=16,
        ns=0,
        salted=False,
    ):
        """Reports one looked-up request. hashes: of all chunks of the request. decision:
        native.DECIDED_*. salted: the request carried a salt, and can hit only chunks of requests
        with the same salt."""
        asked = ctypes.pointer(native.hashes(hashes, stride, ns)) if hashes else None
        request = native.Request(
            decision=decision,
            tokens_asked=tokens_asked,
            tokens_hit=tokens_hit,
            lookup_ns=lookup_ns,
            hashes=asked,
            salted=salted,
        )
        self._lib.larder_report_request(self._client, request)

    def report_prefill(self, tokens, compute_ns):
        self._lib.larder_report_prefill(self._client, tokens, compute_ns)

    # ---- moving

    def load(self, hashes, stride, pages, group=0, shard=0, ns=0, by_layer=False):
        """Starts a load and returns its ticket. The load ends in one completion of poll().
        LarderError: the load failed at once. by_layer: the layers come one after the other, for
        wait_layer()."""
        ticket = ctypes.c_uint64()
        transfer = native.transfer(hashes, stride, pages, group, shard, ns)
        function = "larder_load_by_layer" if by_layer else "larder_load"
        self._check(function, getattr(self._lib, function)(self._client, transfer, ticket))
        return ticket.value

    def wait_layer(self, ticket, layer, wait_ms):
        """Whether a layer of a load by layers is on its pages and verified; waits wait_ms at most.
        LarderError: the load has failed, and all layers of the load are void."""
        status = self._lib.larder_wait_layer(self._client, ticket, layer, wait_ms)
        if status == native.DEADLINE_EXCEEDED:
            return False
        self._check("larder_wait_layer", status)
        return True

    def poll(self, wait_ms=0):
        """The loads that ended since the last call. If there is none and a load runs, waits for
        one, wait_ms at most."""
        count = self._lib.larder_poll(self._client, self._completions, _POLL, wait_ms)
        text = self._lib.larder_status_text
        return [
            Completion(
                c.ticket,
                c.status == native.OK,
                text(c.status).decode(),
                c.bytes,
                c.wait_ns,
                c.copy_ns,
            )
            for c in self._completions[:count]
        ]

    def store_begin(self, hashes, stride, pages, group=0, shard=0, ns=0, parents=None):
        """Asks for grants. False: refused at once, and no chunk is stored. parents: for each chunk
        the hash of the chunk before it in its prompt (zeros: none), or None."""
        transfer = native.transfer(hashes, stride, pages, group, shard, ns, parents)
        return self._lib.larder_store_begin(self._client, transfer) == native.OK

    def store_finish(self, wait_ms):
        """Copies the granted chunks from the pages. After the return no page is read."""
        result = native.StoreResult()
        _check("larder_store_finish", self._lib.larder_store_finish(self._client, wait_ms, result))
        return Stored(*(getattr(result, name) for name in Stored._fields))

    def store_submit(self, wait_ms):
        """The same on threads of the library, without a wait. Pages are read until store_poll() has
        returned the ticket, or the ticket was overtaken. LarderError: too many stores wait for
        store_poll(), and the begun stores are given back."""
        ticket = ctypes.c_uint64()
        self._check(
            "larder_store_submit", self._lib.larder_store_submit(self._client, wait_ms, ticket)
        )
        return ticket.value

    def store_poll(self, wait_ms=0):
        """[(ticket, Stored)] of submitted stores that ended since the last call. If there is none
        and a store runs, waits for one, wait_ms at most."""
        count = self._lib.larder_store_poll(self._client, self._stores, _POLL, wait_ms)
        return [
            (c.ticket, Stored(*(getattr(c, name) for name in Stored._fields)))
            for c in self._stores[:count]
        ]

    def store_overtake(self, ticket):
        """Call this before the pages of a submitted store are written: chunks that are not read by
        now are given back. Never waits."""
        self._lib.larder_store_overtake(self._client, ticket)

    def store_abandon(self):
        """Gives back the stores begun since the last store_finish() or store_submit(). Reads no
        page."""
        self._lib.larder_store_abandon(self._client)

    def drop_namespace(self):
        return self._lib.larder_drop_namespace(self._client) == native.OK

    # ---- chunks by hand. Hashes as above, or a list of hashes as hash_tokens() gives. Each hash
    # means the chunks of all shards and groups. A call waits up to wait_ms for larderd's counts,
    # not at all with 0. LarderError: larderd is away, old or late.

    def prefetch(
        self, hashes=None, stride=16, wait_ms=1000, ns=0, *, states=None, tokens=None, **hashing
    ):
        """Promotes chunks into memory ahead of their use; chunks in memory count as just used.

        Instead of hashes, the caller can give `tokens` and the arguments of hash_tokens(). These
        are block_size, the engine's chunk_tokens, and the lookahead of an engine with a drafter.
        states: the number of the namespace with the states of these chunks. The last reachable
        state comes too, and counts as found."""
        if (hashes is None) == (tokens is None):
            raise TypeError("prefetch() takes hashes or tokens")
        hashes = hashes if tokens is None else hash_tokens(tokens, **hashing)
        done = self._act("larder_prefetch", hashes, stride, wait_ms, ns)
        if states is None:
            return done
        state = self._act("larder_prefetch", hashes, stride, wait_ms, states)
        return Acted(done.found + state.found, done.absent, done.refused + state.refused)

    def pin(self, hashes, stride=16, wait_ms=1000, ns=0, seconds=0):
        """Keeps chunks in memory until the chunks are unpinned, evicted, found bad or dropped with
        the namespace. seconds: at most so long (up to 86,400), until demote(), and up to
        larderd's memory.keep_percent."""
        if seconds:
            return self._act("larder_keep", hashes, stride, wait_ms, ns, seconds)
        return self._act("larder_pin", hashes, stride, wait_ms, ns)

    def unpin(self, hashes, stride=16, wait_ms=1000, ns=0):
        return self._act("larder_unpin", hashes, stride, wait_ms, ns)

    def evict(self, hashes, stride=16, wait_ms=1000, ns=0):
        """Takes chunks out of memory at once, pinned or not."""
        return self._act("larder_evict", hashes, stride, wait_ms, ns)

    def demote(self, hashes, stride=16, wait_ms=1000, ns=0):
        """Makes chunks the next to leave memory; a later use makes them ordinary chunks again. Give
        the hashes of a prompt in its order."""
        return self._act("larder_demote", hashes, stride, wait_ms, ns)

    def _act(self, name, hashes, stride, wait_ms, ns, *seconds):
        if not isinstance(hashes, bytes):
            for one in hashes:
                if not isinstance(one, bytes) or len(one) < 16:
                    raise TypeError(
                        f"{one!r} is no hash: at least 16 bytes, as from hash_tokens() "
                        "(bytes.fromhex() of digits)"
                    )
            hashes, stride = b"".join(one[:16] for one in hashes), 16
        result = native.ActResult()
        self._check(
            name,
            getattr(self._lib, name)(
                self._client, native.hashes(hashes, stride, ns), *seconds, wait_ms, result
            ),
        )
        return Acted(result.found, result.absent, result.refused)
