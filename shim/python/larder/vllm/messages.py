"""What the scheduler's half of the connector tells the worker's half each step, and back. Pickled by vLLM."""

from dataclasses import dataclass, field

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata, KVConnectorWorkerMetadata


@dataclass
class Move:
    """Chunks of one request: one block hash for each chunk, one uint32 page for each block."""

    request_id: str
    hashes: bytes
    pages: bytes


@dataclass
class StepWork(KVConnectorMetadata):
    namespace: str = ""  # fingerprint, in the first step only: both halves must have reached the same
    loads: list[Move] = field(default_factory=list)
    stores: list[Move] = field(default_factory=list)
    prefill_tokens: int = 0  # computed in this step, where it computes little else
    computes: bool = False


@dataclass
class WorkerReport(KVConnectorWorkerMetadata):
    """Sent once, when the worker's half stops using the cache."""

    disabled: str

    def aggregate(self, other):
        return self
