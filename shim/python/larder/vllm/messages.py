"""The messages between the two halves of the connector in each step. vLLM pickles them."""

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata

try:
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorWorkerMetadata
except ImportError:  # an older vLLM, which setup refuses; the engine must start without the cache
    KVConnectorWorkerMetadata = object

# The wait for larderd to open a namespace, once in each process. A step with work waits only for
# this and for the copy of a window's block (WINDOW_COPY_WAIT_MS).
OPEN_WAIT_MS = 20


@dataclass
class Part:
    """Chunks of one group: one block hash for each chunk, one uint32 page for each kept block. A
    store of tokens also has parents: for each chunk the hash of the chunk before it, or zeros."""

    group: int
    hashes: bytes
    pages: bytes
    parents: bytes = b""

    def of_writer(self, writer, writers, stride):
        """The chunks that worker `writer` stores, of `writers` workers with equal bytes. The hash
        decides, so the workers agree without a message. stride: bytes of a hash. The parent of a
        chunk is the writer's own chunk before it: another writer may ask for the chunks between
        later."""
        if writers == 1:
            return self
        own = Part(self.group, b"", b"")
        chunks = len(self.hashes) // stride
        width = len(self.pages) // chunks
        for chunk in range(chunks):
            name = self.hashes[chunk * stride : (chunk + 1) * stride]
            if int.from_bytes(name[:4], "little") % writers == writer:
                if self.parents:
                    own.parents += own.hashes[-stride:] or self.parents[:stride]
                own.hashes += name
                own.pages += self.pages[chunk * width : (chunk + 1) * width]
        return own

    @staticmethod
    def joined(parts):
        """Hashes, pages and parents of several parts of one group."""
        return (
            b"".join(one)
            for one in zip(*((part.hashes, part.pages, part.parents) for part in parts))
        )


@dataclass
class Move:
    """Chunks of one request, a Part for each group with chunks. The worker reports a load without
    parts as failed.

    `pages`: all pages of the load, for a vLLM that hears of failures by page
    (Setup.fails_by_page)."""

    request_id: str
    parts: list[Part] = field(default_factory=list)
    line: str = ""  # the lines that a reset or the request's adapter adds to the fingerprint
    pages: tuple[int, ...] = ()
    # (number, files) of the adapter in `line`; the worker compares its own files
    adapter: tuple | None = None


@dataclass(frozen=True)
class RankLookup:
    """How many of these chunks, from the first on, does the worker's larderd have in memory? The
    worker may fetch missing chunks first."""

    number: int
    hashes: bytes
    stride: int
    line: str  # see Move
    deadline_ms: int = 0  # of such a fetch; 0: nothing is fetched


@dataclass(frozen=True)
class StepWork(KVConnectorMetadata):
    """Most steps have no work for the worker. Such steps share COMPUTES or RESTS, which are pickled
    by name."""

    # the scheduler's fingerprint, once: in the first step with a known fingerprint
    namespace: str = ""
    loads: list[Move] = field(default_factory=list)
    stores: list[Move] = field(default_factory=list)
    prefill_tokens: int = 0  # prefill tokens of a step that computes little else
    computes: bool = False
    number: int = 0  # of a step that stores; the worker reports the end of its copies
    # requests that lose their blocks, possibly under a running store
    preempted: tuple[str, ...] = ()
    # ended requests whose blocks vLLM keeps until the worker reports the requests
    kept: tuple[str, ...] = ()
    # (Move.line, drop) of closed namespaces
    closed: list[tuple[str, bool]] = field(default_factory=list)
    # numbers of steps whose stored blocks this step writes while the request runs
    rewritten: tuple[int, ...] = ()
    larderd: str = ""  # the scheduler's, sent with the namespace (hosts)
    places: tuple = ()  # of all workers, sent with the namespace where they matter (places)
    lookups: tuple = ()  # RankLookup

    def __reduce__(self):
        if self is COMPUTES:
            return "COMPUTES"
        if self is RESTS:
            return "RESTS"
        return StepWork, tuple(getattr(self, one.name) for one in fields(self))


# A step without work costs a few microseconds: one of these two shared messages, which vLLM pickles
# by name, and no native call.
COMPUTES = StepWork(computes=True)
RESTS = StepWork()


class LoadFigures(NamedTuple):
    """Of one request's load, for its span (request_traces). + gives the sum over ranks: all bytes,
    the times of the slowest rank, the first failure."""

    bytes: int = 0
    wait_ns: int = 0
    copy_ns: int = 0
    failure: str = ""

    def __add__(self, other):
        return LoadFigures(
            self.bytes + other.bytes,
            max(self.wait_ns, other.wait_ns),
            max(self.copy_ns, other.copy_ns),
            self.failure or other.failure,
        )


@dataclass
class WorkerReport(KVConnectorWorkerMetadata):
    """A worker's work since the last report. disabled: the reason, once, when the worker's half
    stops using the cache. failed: requests with a failed load, for a vLLM that hears of failures by
    page."""

    disabled: str = ""
    prefill_tokens: int = 0
    prefill_ns: int = 0
    load_bytes: int = 0
    load_ns: int = 0
    failed: frozenset[str] = frozenset()
    # {StepWork.number: workers whose copies of the step have ended}
    ended: dict[int, int] = field(default_factory=dict)
    # of these: steps with chunks that a larderd refused, or answered too late
    refused: frozenset[int] = frozenset()
    # by number: the files that vLLM has loaded; (): unknown
    adapters: dict[int, tuple] = field(default_factory=dict)
    attention: frozenset = frozenset()  # attention_kernels.Attention of the layers, once
    places: frozenset = frozenset()  # places.Place of the worker, once
    answers: dict[int, tuple] = field(
        default_factory=dict
    )  # {RankLookup.number: (workers, chunks that all of them have)}
    loads: dict[str, LoadFigures] = field(default_factory=dict)  # by request; with traces only

    def aggregate(self, other):
        """The sum of two reports. The prefill time is that of the slowest worker, because the ranks
        of a step wait for each other."""
        longest = max(self, other, key=lambda report: report.prefill_ns)
        return replace(
            longest,
            disabled=self.disabled or other.disabled,
            failed=self.failed | other.failed,
            attention=self.attention | other.attention,
            places=self.places | other.places,
            ended=dict(Counter(self.ended) + Counter(other.ended)),
            refused=self.refused | other.refused,
            load_bytes=self.load_bytes + other.load_bytes,
            load_ns=max(self.load_ns, other.load_ns),
            answers={**self.answers, **other.answers, **_least(self.answers, other.answers)},
            adapters={**self.adapters, **other.adapters, **_unlike(self.adapters, other.adapters)},
            loads={**self.loads, **other.loads, **_sums(self.loads, other.loads)},
        )


def _least(one, other):
    """Answers of workers of both."""
    both = one.keys() & other.keys()
    return {
        number: (one[number][0] + other[number][0], min(one[number][1], other[number][1]))
        for number in both
    }


def _sums(one, other):
    """Loads on workers of both."""
    return {name: one[name] + other[name] for name in one.keys() & other.keys()}


def _unlike(one, other):
    """Adapters with different files on two workers."""
    return {number: () for number in one.keys() & other.keys() if one[number] != other[number]}
