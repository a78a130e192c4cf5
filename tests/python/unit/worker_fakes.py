"""The worker's half over a fake client: the fixtures of its tests, which import the fixtures, and
the moves for the worker."""

from array import array

import pytest

pytest.importorskip("vllm")

from fakes import setup  # noqa: E402

from larder._native import FAILED_PRECONDITION  # noqa: E402
from larder.client import Completion, LarderError, Stored  # noqa: E402
from larder.lower_tiers import Fetched, Probed, TierSpeed  # noqa: E402
from larder.vllm.messages import Move, Part, StepWork  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402


class Client:
    def __init__(self):
        self.layers = None
        self.groups = []
        self.namespaces = []  # each that was opened
        self.open = {}  # text: number
        self.parts = []  # of set_parts
        self.present, self.looked = 0, []  # chunks that lookup() finds; its calls
        self.fetched, self.fetch_done, self.fetch_ends = [], None, []  # done: a Fetched
        self.below = 0  # chunks that reachable() finds
        self.probed, self.probe_done, self.probe_ends = [], None, []  # done: a Probed
        self.closed = []
        self.spaces = []  # of loads and stores, by number
        self.loads = []
        self.done = []
        self.begun = []
        self.refuses = 0  # chunks of each store
        self.submitted = []  # how long answers are waited for
        self.ended = []  # tickets of stores
        self.overtaken = []
        self.store_waits = []  # of store_poll
        self.abandoned = 0
        self.waits = []  # of poll
        self.fail = None
        self.streams = []  # told before (loads, submitted) so far
        self.tier = TierSpeed(True, 1, 1)
        self.tiers = self  # the calls of LowerTiers stand in this class

    def register_pages(self, group, layers):
        self.layers = layers
        self.groups.append(layers)

    def close_namespace(self, number, drop=False):
        self.closed.append((number, drop))
        del self.open[self.namespaces[number]]

    def set_parts(self, kept):
        assert not self.namespaces
        self.parts.append(kept)

    def add_namespace(self, fingerprint, wait_ms=0):
        if fingerprint not in self.open:
            self.open[fingerprint] = len(self.namespaces)  # the engine's own is 0
            self.namespaces.append(fingerprint)
        return self.open[fingerprint]

    def lookup(self, hashes, stride, ns=0):
        self.looked.append((len(hashes) // stride, ns))
        return min(self.present, len(hashes) // stride)

    def fetch(self, hashes, stride, deadline_ms, ns=0):
        if self.fail == "fetch":
            raise LarderError("larder_fetch", 5)
        self.fetched.append((hashes, deadline_ms, ns))
        return len(self.fetched)

    def fetch_poll(self, ticket, wait_ms=0):
        return self.fetch_done

    def fetch_end(self, ticket):
        self.fetch_ends.append(ticket)

    def reachable(self, hashes, stride, ns=0):
        return min(self.below, len(hashes) // stride)

    def probe(self, hashes, stride, deadline_ms, ns=0):
        if self.fail == "probe":
            raise LarderError("larder_probe", 5)
        self.probed.append((hashes, deadline_ms, ns))
        return 100 + len(self.probed)

    def probe_poll(self, ticket, wait_ms=0):
        return self.probe_done

    def probe_end(self, ticket):
        self.probe_ends.append(ticket)

    def load(self, hashes, stride, pages, group=0, shard=0, ns=0):
        if self.fail in ("load", "captured"):
            raise RuntimeError("made to fail")
        self.spaces.append(ns)
        self.loads.append((len(hashes) // stride, len(pages) // 4))
        return len(self.loads)

    def poll(self, wait_ms=0):
        self.waits.append(wait_ms)
        done, self.done = self.done, []
        return done

    def store_begin(self, hashes, stride, pages, group=0, shard=0, ns=0, parents=None):
        if self.fail == "store_begin":
            raise RuntimeError("made to fail")
        self.spaces.append(ns)
        self.begun.append((len(hashes) // stride, len(pages) // 4))
        return True

    def store_submit(self, wait_ms):
        if self.fail in ("store_submit", "captured"):
            raise LarderError("larder_store_submit", 5)
        self.submitted.append(wait_ms)
        return len(self.submitted)

    def store_poll(self, wait_ms=0):
        self.store_waits.append(wait_ms)
        ended, self.ended = self.ended, []
        return [(ticket, Stored(1, 0, self.refuses, 4096, 10)) for ticket in ended]

    def store_overtake(self, ticket):
        self.overtaken.append(ticket)

    def after_stream(self, stream):
        if self.fail in ("after_stream", "captured"):
            raise LarderError(
                "larder_after_stream", 6 if self.fail == "after_stream" else FAILED_PRECONDITION
            )
        self.streams.append((stream, len(self.loads), len(self.submitted)))

    def store_abandon(self):
        self.abandoned += 1

    def report_prefill(self, tokens, nanoseconds):
        self.prefill = (tokens, nanoseconds)

    def speed(self):
        return self.tier


def fetched(chunks, late=False, elapsed_s=0.01):
    return Fetched(chunks, not late, late, "late" if late else "done", chunks * 4096, elapsed_s)


def probed(chunks, shared, late=False, rate=1):
    return Probed(chunks, shared, late, "late" if late else "done", 1, rate, 0.001)


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def half(client):
    return named(LarderConnectorWorker(setup(), client))


def named(half):
    """The worker has heard the fingerprint."""
    half.bind_connector_metadata(StepWork(namespace="engine: test\n"))
    return half


def move(request_id="r", chunks=2):
    return Move(request_id, [part(0, chunks, 4)])


def part(group, chunks, blocks):
    return Part(group, bytes(32 * chunks), array("I", range(blocks * chunks)).tobytes())


def completion(ticket, ok=True):
    return Completion(ticket, ok, "ok" if ok else "data loss", 4096, 1, 2)
