"""Small stand-ins for the objects that vLLM and the library give to the connector's halves."""

import hashlib
from array import array
from types import SimpleNamespace

from larder import _native as native
from larder.client import LarderError
from larder.lower_tiers import Fetched, Probed, TierSpeed
from larder.vllm.groups import Group, Shards
from larder.vllm.messages import WorkerReport
from larder.vllm.scheduler import LarderConnectorScheduler
from larder.vllm.setup import Setup

# The fingerprint's facts of an engine with known weights.
NAMED = SimpleNamespace(poll=lambda wait_s=0: "engine: test\nweights: w\n")
LATER = (None, False)  # the answer to vLLM during an operation: ask again


def group(table=0, block_size=32, chunk_tokens=128, window=None, layers=("layer.0",)):
    span = chunk_tokens // block_size
    kept = span if window is None else min(span, -(-(window - 1) // block_size))
    return Group(table, None, layers, 4096, block_size, span, kept, window)


def setup(block_size=32, chunk_tokens=128, groups=None, **changes):
    values = dict(
        chunk_tokens=chunk_tokens,
        hashes_per_chunk=chunk_tokens // block_size,
        groups=groups or (group(0, block_size, chunk_tokens),),
        shards=Shards(),
        facts="engine: test\n",
        weights_id=None,
        model="m",
        socket=None,
        min_tokens=0,
        copy_threads=1,
        stores=True,
        loads=True,
        fetches=True,
    )
    return Setup(**{**values, **changes})


def measured_half(client):
    """The scheduler's half of an engine that computes 400 tokens a second."""
    half = LarderConnectorScheduler(setup(), client, NAMED)
    half.update_connector_output(
        ended(meta=WorkerReport(prefill_tokens=4000, prefill_ns=10_000_000_000))
    )
    return half


def chunk_keys(request):
    return request.block_hashes[3::4]


class Client:
    """A cache in a set; notes every call that has an effect."""

    def __init__(self):
        self.stored = set()
        self.holds = {}
        self.demoted = []  # (keys, wait_ms)
        self.kept = []  # (keys, seconds, wait_ms)
        self.calls = []
        self.reported = []  # decision, hashes, ns of each request
        self.salted = []  # whether each was
        self.namespaces = []  # each that was opened
        self.open = {}  # text: number
        self.parts = []  # of set_parts
        self.closed = []  # (number, drop)
        self.fail = None  # name of a method that raises
        self.tier = None  # a TierSpeed, where there is one
        self.tiers = self  # the calls of LowerTiers stand in this class
        self.on_disk = set()
        self.fetches = {}  # ticket: (keys, deadline_ms)
        self.answers = {}  # ticket: Fetched
        self.in_backend = set()
        self.probes = {}  # ticket: (keys, deadline_ms)
        self.probed = {}  # ticket: Looked

    def lookup(self, hashes, stride, ns=0):
        self._maybe_fail("lookup")
        found = 0
        for key in split(hashes, stride):
            if (key if ns == 0 else (ns, key)) not in self.stored:
                break
            found += 1
        return found

    def last(self, hashes, stride, ns=0):
        keys = split(hashes, stride)
        return next((i for i in range(len(keys), 0, -1) if self.lookup(keys[i - 1], stride, ns)), 0)

    def set_parts(self, kept):
        assert not self.namespaces
        self.parts.append(kept)

    def add_namespace(self, fingerprint, wait_ms=0, states=False, tails=False):
        if fingerprint not in self.open:
            if len(self.open) == 63:  # as in the library, less the unnamed place of the handshake
                raise LarderError("larder_add_namespace", native.RESOURCE_EXHAUSTED)
            self.open[fingerprint] = len(self.namespaces)  # the engine's own is 0
            self.namespaces.append(fingerprint)
        return self.open[fingerprint]

    def close_namespace(self, number, drop=False):
        self.closed.append((number, drop))
        del self.open[self.namespaces[number]]

    def hold(self, hashes, stride, ns=0):
        self._maybe_fail("hold")
        number = len(self.calls) + 1
        self.holds[number] = split(hashes, stride)
        self.calls.append(("hold", number))
        return number, len(self.holds[number])

    def release(self, hold):
        del self.holds[hold]

    def demote(self, hashes, stride, wait_ms, ns=0):
        if self.fail == "demote":
            raise LarderError("larder_demote", native.UNSUPPORTED)
        self.demoted.append(
            ([key if ns == 0 else (ns, key) for key in split(hashes, stride)], wait_ms)
        )

    def pin(self, hashes, stride, wait_ms, ns=0, seconds=0):
        if self.fail == "keep":
            raise LarderError("larder_keep", native.UNSUPPORTED)
        keys = [key if ns == 0 else (ns, key) for key in split(hashes, stride)]
        self.kept.append((keys, seconds, wait_ms))

    # ---- below memory

    def speed(self):
        self._maybe_fail("below")
        return self.tier

    def reachable(self, hashes, stride, ns=0):
        found = 0
        for key in split(hashes, stride):
            if not {key if ns == 0 else (ns, key)} & (self.stored | self.on_disk):
                break
            found += 1
        return found

    def last_reachable(self, hashes, stride, ns=0):
        keys = split(hashes, stride)
        return next(
            (i for i in range(len(keys), 0, -1) if self.reachable(keys[i - 1], stride, ns)), 0
        )

    def fetch(self, hashes, stride, deadline_ms, ns=0):
        if self.fail == "fetch" or (self.fail == "second fetch" and self.fetches):
            raise LarderError("larder_fetch", native.RESOURCE_EXHAUSTED)
        ticket = len(self.calls) + 1
        self.calls.append(("fetch", ticket))
        self.fetches[ticket] = (
            [key if ns == 0 else (ns, key) for key in split(hashes, stride)],
            deadline_ms,
        )
        return ticket

    def fetch_poll(self, ticket, wait_ms=0):
        if wait_ms:
            self.calls.append(("waited", wait_ms))
        return self.answers.get(ticket)

    def fetch_end(self, ticket):
        self.calls.append(("end", ticket))
        del self.fetches[ticket]

    def arrive(self, ticket, chunks=None, reason="done", elapsed_s=0.01):
        """The first chunks of a fetch, all by default, are in memory now, and the fetch has
        ended."""
        keys = self.fetches[ticket][0]
        chunks = len(keys) if chunks is None else chunks
        self.stored.update(keys[:chunks])
        self.answers[ticket] = Fetched(
            chunks, reason == "done", reason == "late", reason, 4096 * chunks, elapsed_s
        )

    def probe(self, hashes, stride, deadline_ms, ns=0, name="probe"):
        if self.fail == name:
            raise LarderError("larder_probe", native.RESOURCE_EXHAUSTED)
        ticket = len(self.calls) + 1
        self.calls.append((name, ticket))
        self.probes[ticket] = (
            [key if ns == 0 else (ns, key) for key in split(hashes, stride)],
            deadline_ms,
        )
        return ticket

    def probe_each(self, hashes, stride, deadline_ms, ns=0):
        return self.probe(hashes, stride, deadline_ms, ns, "probe each")

    def probe_poll(self, ticket, wait_ms=0):
        if wait_ms:
            self.calls.append(("waited", wait_ms))
        return self.probed.get(ticket)

    def probe_end(self, ticket):
        self.calls.append(("probe end", ticket))
        del self.probes[ticket]

    def answer_look(self, ticket, reason="done", elapsed_s=0.001, read_bytes_per_s=1_000_000_000):
        """A probe has ended, with the chunks of memory, disk and (if asked in time) the backend."""
        places = self.stored | self.on_disk | (self.in_backend if reason == "done" else set())
        keys = self.probes[ticket][0]
        there = next((i for i, key in enumerate(keys) if key not in places), len(keys))
        shared = sum(key not in self.stored | self.on_disk for key in keys[:there])
        late, bits = reason == "late", 0
        if ("probe each", ticket) in self.calls:
            found = [i for i, key in enumerate(keys) if key in places]
            bits, there = sum(1 << i for i in found), max(found, default=-1) + 1
            shared = int(there > 0 and keys[there - 1] not in self.stored | self.on_disk)
        self.probed[ticket] = Probed(
            there, shared, late, reason, 1_000_000, read_bytes_per_s, elapsed_s, bits
        )

    def the_probe(self):
        """The ticket of the only one."""
        (ticket,) = self.probes
        return ticket

    def the_fetch(self):
        (ticket,) = self.fetches
        return ticket

    def call_names(self):
        return [call[0] for call in self.calls]

    def report_request(
        self, asked, hit, nanoseconds, decision=0, hashes=b"", stride=16, ns=0, salted=False
    ):
        self.calls.append(("request", asked, hit))
        self.reported.append((decision, split(hashes, stride), ns))
        self.salted.append(salted)

    def _maybe_fail(self, name):
        if self.fail == name:
            raise RuntimeError("made to fail")


# A gigabyte in a second, and a millisecond before the first byte.
FAST = TierSpeed(True, 1_000_000, 1_000_000_000)
# The same, over a backend; and a backend alone.
FAST_AND_SHARED = FAST._replace(shared=True)
SHARED = TierSpeed(False, 0, 0, True)


def split(hashes, stride):
    return [hashes[i : i + stride] for i in range(0, len(hashes), stride)]


class Request:
    """A request whose block hashes are chained over its tokens, like vLLM's."""

    def __init__(self, request_id, tokens, block_size=32, **fields):
        self.request_id = request_id
        self.tokens = list(tokens)
        self.num_output_tokens, self.arrival_time = 0, 0.0
        self.block_size = block_size
        self.num_prompt_tokens = len(self.tokens)
        self.kv_transfer_params = None
        self.lora_request = None
        self.cache_salt = None
        self.skip_reading_prefix_cache = False
        self.mm_features = []
        self.num_computed_tokens = 0
        self.__dict__.update(fields)

    @property
    def num_tokens(self):
        return len(self.tokens)

    @property
    def all_token_ids(self):
        return self.tokens

    @property
    def block_hashes(self):
        chain, state = [], hashlib.sha256(b"start")
        for end in range(self.block_size, len(self.tokens) + 1, self.block_size):
            state.update(repr(self.tokens[end - self.block_size : end]).encode())
            chain.append(state.digest())
        return chain


def blocks(*tables):
    """A block table for each KV group. Block 0 is the null block."""
    return SimpleNamespace(get_block_ids=lambda: tuple(list(ids) for ids in tables))


def step(new=(), cached=(), tables=None, preempted=(), added=None, resumed=()):
    """A SchedulerOutput. new and cached: (request id, computed, scheduled); added: new blocks of
    the cached ones."""
    scheduled = {name: count for name, _, count in [*new, *cached]}
    return SimpleNamespace(
        scheduled_new_reqs=[
            SimpleNamespace(
                req_id=name,
                num_computed_tokens=computed,
                block_ids=_by_group((tables or {}).get(name, [])),
            )
            for name, computed, _ in new
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[name for name, *_ in cached],
            num_computed_tokens=[computed for _, computed, _ in cached],
            new_block_ids=[(added or {}).get(name) for name, *_ in cached],
            resumed_req_ids=set(resumed),
        ),
        num_scheduled_tokens=scheduled,
        preempted_req_ids=set(preempted),
        total_num_scheduled_tokens=sum(scheduled.values()),
        kv_connector_block_state=SimpleNamespace(
            get_block_ids=lambda name: _by_group((tables or {})[name])
        ),
    )


def _by_group(tables):
    return tables if isinstance(tables, tuple) else (tables,)


def ended(done=(), failed=(), meta=None, sent=()):
    return SimpleNamespace(
        finished_sending=set(sent),
        finished_recving=set(done),
        failed_recving=set(failed),
        kv_connector_worker_meta=meta,
    )


def pages(data):
    return list(array("I", data))
