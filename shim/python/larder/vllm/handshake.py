"""What workers tell the scheduler's half before the first request, by vLLM's handshake of connectors.

Without it the scheduler hears of the layers' attention with the first step, and the requests before
miss. A MultiConnector gives the metadata of its first child that has any to all of its children:
Larder tells nothing there, so that it never takes the place of a neighbour. The first report of each
worker says the same."""

from dataclasses import dataclass
from functools import reduce

from vllm.distributed.kv_transfer.kv_connector.v1 import base

from larder.vllm.messages import WorkerReport


# Older vLLMs have a handshake with other keys, which Larder leaves alone.
IS_HEARD = hasattr(base.KVConnectorBase_V1, "set_xfer_handshake_metadata_pp_aware")


@dataclass
class Told(getattr(base, "KVConnectorHandshakeMetadata", object)):
    """Of one worker. vLLM pickles it, and gives it again after each wake-up."""

    report: WorkerReport


def told(metadata):
    """The sum of the workers' reports, or None. metadata: {rank: metadata of any connector}."""
    reports = [one.report for one in metadata.values() if isinstance(one, Told)]
    return reduce(WorkerReport.aggregate, reports) if reports else None
