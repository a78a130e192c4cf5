"""The report of workers to the scheduler's half before the first request, by vLLM's handshake of
connectors.

Without the handshake the scheduler hears of the layers' attention with the first step, and earlier
requests miss. A MultiConnector gives the metadata of its first child with metadata to all children.
Larder gives no metadata there, and so never takes the place of a neighbour. The first report of
each worker says the same."""

from dataclasses import dataclass
from functools import reduce

from vllm.distributed.kv_transfer.kv_connector.v1 import base

from larder.vllm.messages import WorkerReport


# Older vLLMs have a handshake with other keys, which Larder leaves alone.
IS_HEARD = hasattr(base.KVConnectorBase_V1, "set_xfer_handshake_metadata_pp_aware")


@dataclass
class WorkerHandshake(getattr(base, "KVConnectorHandshakeMetadata", object)):
    """Of one worker. vLLM pickles the report, and gives the report again after each wake-up."""

    report: WorkerReport


def report_of(metadata):
    """The sum of the workers' reports, or None. metadata: {rank: metadata of any connector}."""
    reports = [one.report for one in metadata.values() if isinstance(one, WorkerHandshake)]
    return reduce(WorkerReport.aggregate, reports) if reports else None
