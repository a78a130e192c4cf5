"""Hints `release`, `priority: low` and `keep`: the chunks that leave memory first or stay, over
fakes."""

import pytest

pytest.importorskip("vllm")

from fakes import Request, blocks, chunk_keys, ended, step  # noqa: E402
from scheduler_fakes import client, half, no_wait, run_prefill  # noqa: E402, F401

from larder.vllm.messages import WorkerReport  # noqa: E402

TABLE = list(range(1, 17))  # blocks of 512 tokens, which are 4 chunks
RELEASE, LOW, KEEP = {"release": True}, {"priority": "low"}, {"keep": "10m"}


def hinting(hints, name="r"):
    return Request(name, range(512), kv_transfer_params={"larder": hints})


def serve(half, one):
    """The request hits, stores the rest, and its copies end."""
    external, _ = half.get_num_new_matched_tokens(one, 0)
    half.update_state_after_alloc(one, blocks(TABLE), external)
    half.build_connector_meta(step())  # the load
    half.update_connector_output(ended({"r"}))
    new = [("r", external, one.num_tokens - external)]
    half.build_connector_meta(step(new=new, tables={"r": TABLE}))
    half.update_connector_output(
        ended(meta=WorkerReport(ended={number: 1 for number in half._stored._kept._steps}))
    )
    assert half.off is None


@pytest.mark.parametrize("hints, first", [(RELEASE, 0), (LOW, 2), ({**RELEASE, **LOW}, 0)])
def test_chunks_are_demoted_in_the_order_of_the_prompt(half, client, hints, first):
    one = hinting(hints)
    client.stored.update(chunk_keys(one)[:2])
    serve(half, one)
    assert client.demoted == []
    half.request_finished(one)
    assert client.demoted == [(chunk_keys(one)[first:], 0)], "and the engine does not wait"


def test_all_chunks_of_the_request_are_kept(half, client):
    one = hinting(KEEP)
    client.stored.update(chunk_keys(one)[:2])
    serve(half, one)
    assert client.kept == []
    half.request_finished(one)
    assert client.kept == [(chunk_keys(one), 600, 0)], "those that it found, too"
    assert client.demoted == [] and half._hinted._waiting == {}


@pytest.mark.parametrize("hints", [{}, {"priority": "normal", "release": False}, {"release": 1}])
def test_other_requests_demote_nothing(half, client, hints):
    one = hinting(hints)
    serve(half, one)
    half.request_finished(one)
    assert client.demoted == [] and client.kept == []


def test_a_request_of_low_priority_that_stored_nothing_demotes_nothing(half, client):
    one = hinting(LOW)
    client.stored.update(chunk_keys(one))
    serve(half, one)
    half.request_finished(one)
    assert client.demoted == []


def test_larderd_is_told_after_the_last_copy(half, client):
    one = hinting(RELEASE)
    run_prefill(half, one, TABLE, 128)
    assert half.request_finished(one) is True, "stores run"
    assert client.demoted == []
    half.update_connector_output(ended(sent=["r"]))
    assert client.demoted == [(chunk_keys(one), 0)]
    half.update_connector_output(ended(sent=["r"]))
    assert len(client.demoted) == 1 and half._hinted._waiting == {}


@pytest.mark.parametrize("verb, hints", [("demote", RELEASE), ("keep", KEEP)])
# covers F-477
def test_an_older_larderd_costs_the_hint_alone(half, client, verb, hints):
    client.fail = verb
    one = hinting(hints)
    serve(half, one)
    half.request_finished(one)
    assert half.off is None and half._hinted._waiting == {} and client.kept == []
