"""The scheduler's half over a fake client: the fixtures and the steps of its tests, which import
both."""

import pytest

pytest.importorskip("vllm")

from fakes import NAMED, Client, blocks, pages, setup, split, step  # noqa: E402

from larder import _native as native  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402

NO = native.NO_PAGE


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def half(client):
    return LarderConnectorScheduler(setup(), client, NAMED)


def chunk_keys(request, per_chunk=4):
    return request.block_hashes[per_chunk - 1 :: per_chunk]


def store_all(client, request):
    client.stored.update(chunk_keys(request))


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    monkeypatch.setattr("larder.vllm.store_plan.RETRY_AFTER_S", 0)


def run_prefill(half, request, table, step_tokens, computed=0):
    """Schedules the whole prompt in steps and stores the requested chunks; returns the (key, pages)
    of each chunk."""
    half.update_state_after_alloc(request, blocks(table), 0)
    stored = []
    while computed < request.num_tokens:
        count = min(step_tokens, request.num_tokens - computed)
        kind = "new" if computed == 0 else "cached"
        work = half.build_connector_meta(
            step(
                **{kind: [(request.request_id, computed, count)]},
                tables={request.request_id: table},
            )
        )
        for move in work.stores:
            (part,) = move.parts
            stored += list(zip(split(part.hashes, 32), zip(*[iter(pages(part.pages))] * 4)))
            half.client.stored.update(split(part.hashes, 32))
        computed += count
    return stored
