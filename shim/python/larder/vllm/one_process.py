"""Engines whose workers live in one process (VLLM_ENABLE_V1_MULTIPROCESSING=0).

vLLM has one worker connector for a process. A second engine that starts while the first lives gets
the connector of the first. The connector cannot tell the engine of a step. The end of either engine
takes the connector from the other engine, whose loads would never be reported. From then on no
engine of the process uses the cache, until the process ends."""

from larder.vllm import weight_changes
from larder.vllm.groups import Unsupported

SHARED = (
    "vLLM gives two engines of this process one connector, and copies could go to pages of the "
    "other engine; leave VLLM_ENABLE_V1_MULTIPROCESSING at 1, or end the first engine before the "
    "second starts"
)
_shared = False


def share():
    """A second engine has registered its pages with the connector of the first."""
    global _shared
    _shared = True
    for half in weight_changes.halves():
        half.turn_off(SHARED)


def check():
    """Unsupported, where engines of this process have shared a connector."""
    if _shared:
        raise Unsupported(SHARED)
