"""The connector over a test's own worker half, for vLLM's model runners, which call the hooks."""

from types import SimpleNamespace

from larder.vllm.connector import LarderConnector


def connector_over(half, client):
    made = LarderConnector.__new__(LarderConnector)
    made._vllm_config = None
    made._half, made._client, made._pump, made._naming, made._connector_metadata = (
        half,
        client,
        None,
        None,
        None,
    )
    return made


def output_of(work):
    """A SchedulerOutput, as far as the runners' hooks read the fields."""
    return SimpleNamespace(
        kv_connector_metadata=work, has_sync_kv_loads=False, finished_req_ids=set()
    )
