"""What the scheduler's half of the connector tells the worker's half each step, and back. Pickled by vLLM."""

from collections import Counter
from dataclasses import dataclass, field, fields, replace

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata

try:
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorWorkerMetadata
except ImportError:  # an older vLLM, which setup refuses: it is to start all the same
    KVConnectorWorkerMetadata = object

OPEN_WAIT_MS = 20  # for larderd to open one more namespace, once in each process


@dataclass
class Part:
    """Chunks of one group: one block hash for each chunk, one uint32 page for each block that is kept of it."""

    group: int
    hashes: bytes
    pages: bytes

    def of_writer(self, writer, writers, stride):
        """The chunks that one of several workers with equal bytes stores. stride: bytes of a hash. All of them agree by the hashes."""
        if writers == 1:
            return self
        own = Part(self.group, b"", b"")
        chunks = len(self.hashes) // stride
        width = len(self.pages) // chunks
        for chunk in range(chunks):
            name = self.hashes[chunk * stride : (chunk + 1) * stride]
            if int.from_bytes(name[:4], "little") % writers == writer:
                own.hashes += name
                own.pages += self.pages[chunk * width : (chunk + 1) * width]
        return own


@dataclass
class Move:
    """Chunks of one request, each group's as far as it has any. No parts: a load that the worker reports as failed.

    `pages`: all that vLLM has for the load, where a failure is told by page (Setup.fails_by_page)."""

    request_id: str
    parts: list[Part] = field(default_factory=list)
    line: str = ""  # what a reset or the request's adapter adds to the fingerprint
    pages: tuple[int, ...] = ()
    adapter: tuple | None = None  # (number, files) of the adapter that `line` names: the worker compares what it holds


@dataclass(frozen=True)
class StepWork(KVConnectorMetadata):
    """Most steps have nothing for the worker: they share COMPUTES or RESTS, which are pickled by name."""

    namespace: str = ""  # the scheduler's fingerprint, once: in the first step behind which it is known
    loads: list[Move] = field(default_factory=list)
    stores: list[Move] = field(default_factory=list)
    prefill_tokens: int = 0  # computed in this step, where it computes little else
    computes: bool = False
    number: int = 0  # of a step that stores: the worker reports when its copies have ended
    preempted: tuple[str, ...] = ()  # requests whose blocks go to others, though stores of them may still run
    kept: tuple[str, ...] = ()  # requests that have ended, whose blocks vLLM keeps until they are reported
    closed: list[tuple[str, bool]] = field(default_factory=list)  # namespaces by Move.line that are closed before this step; with their chunks?
    rewritten: tuple[int, ...] = ()  # numbers of steps that stored blocks which this step writes, though their requests still run
    host: str = ""  # the scheduler's, beside the namespace (hosts)

    def __reduce__(self):
        if self is COMPUTES:
            return "COMPUTES"
        if self is RESTS:
            return "RESTS"
        return StepWork, tuple(getattr(self, one.name) for one in fields(self))


COMPUTES = StepWork(computes=True)
RESTS = StepWork()


@dataclass
class WorkerReport(KVConnectorWorkerMetadata):
    """What a worker did since its last one; `disabled` once, when its half stops using the cache; `failed`: requests whose load did,
    where vLLM is told of their pages alone."""

    disabled: str = ""
    prefill_tokens: int = 0
    prefill_ns: int = 0
    load_bytes: int = 0
    load_ns: int = 0
    failed: frozenset[str] = frozenset()
    ended: dict[int, int] = field(default_factory=dict)  # StepWork.number whose copies have ended: on how many workers
    adapters: dict[int, tuple] = field(default_factory=dict)  # by number: the files that vLLM has loaded; (): not known
    attention: frozenset = frozenset()  # attention_kernels.Attention of the layers, once

    def aggregate(self, other):
        """Of several workers the one that computed longest counts: the ranks of a step wait for each other."""
        longest = max(self, other, key=lambda report: report.prefill_ns)
        return replace(
            longest,
            disabled=self.disabled or other.disabled,
            failed=self.failed | other.failed,
            attention=self.attention | other.attention,
            ended=dict(Counter(self.ended) + Counter(other.ended)),
            load_bytes=self.load_bytes + other.load_bytes,
            load_ns=max(self.load_ns, other.load_ns),
            adapters={**self.adapters, **other.adapters, **_unlike(self.adapters, other.adapters)},
        )


def _unlike(one, other):
    """Adapters of which two workers hold different files."""
    return {number: () for number in one.keys() & other.keys() if one[number] != other[number]}
