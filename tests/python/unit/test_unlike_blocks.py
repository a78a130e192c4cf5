"""Several groups of Larder over one block table of vLLM (layers of unlike pages) in the connector's
halves."""

from dataclasses import replace
from types import SimpleNamespace as Fake

import pytest

pytest.importorskip("vllm")

from fakes import NAMED, Client, Request, blocks, group, pages, setup, split, step  # noqa: E402
from scheduler_fakes import NO, chunk_keys, store_all  # noqa: E402

from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.window_blocks import WindowBlocks  # noqa: E402

WINDOW = 64  # of a chunk of 4 blocks the last 2
FIRST = Fake()


def unlike(table, name, **more):
    return replace(group(table, layers=(name,), **more), first=FIRST)


# Two groups over table 1, and two windows over table 0.
GROUPS = (
    unlike(1, "full.a"),
    unlike(1, "full.b"),
    unlike(0, "window.a", window=WINDOW),
    unlike(0, "window.b", window=WINDOW),
)


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def half(client):
    return LarderConnectorScheduler(setup(groups=GROUPS), client, NAMED)


def parts(move):
    return {part.group: (split(part.hashes, 32), pages(part.pages)) for part in move.parts}


def test_a_load_writes_the_same_blocks_in_each_group_of_a_table(half, client):
    request = Request("r", range(300))
    store_all(client, request)
    external, _ = half.get_num_new_matched_tokens(request, 32)
    half.update_state_after_alloc(request, blocks([0] * 6 + [31, 32, 33], range(70, 80)), external)
    (move,) = half.build_connector_meta(step()).loads
    found = parts(move)
    assert found[0] == found[1] == (chunk_keys(request), [NO, *range(71, 78)])
    assert found[2] == found[3] == (chunk_keys(request)[1:], [31, 32])


def test_a_store_reads_the_same_blocks_in_each_group_of_a_table(half):
    request, tables = Request("r", range(300)), (list(range(21, 31)), list(range(1, 11)))
    half.update_state_after_alloc(request, blocks(*tables), 0)
    (move,) = half.build_connector_meta(step(new=[("r", 0, 300)], tables={"r": tables})).stores
    found = parts(move)
    assert found[0] == found[1] == (chunk_keys(request), list(range(1, 9)))
    assert found[2] == found[3] == (chunk_keys(request), [23, 24, 27, 28])


def test_a_states_boundary_is_stored_when_each_table_has_it(client):
    """Two groups over one table and one over another: one block for each table, one part for each
    group."""
    states = [
        replace(group(table, layers=(f"s.{i}",)), blocks=1, state=True)
        for i, table in enumerate((1, 1, 2))
    ]
    half = LarderConnectorScheduler(setup(groups=(group(), *states)), client, NAMED)
    request, tables = Request("r", range(600)), (list(range(10, 30)), [0] * 20, [0] * 20)
    half.update_state_after_alloc(request, blocks(*tables), 0)
    work = step(new=[("r", 0, 512)], tables={"r": tables})
    work.kv_connector_block_state.boundary_state_offloads = {
        "r": [(1, 7, 256), (1, 8, 512), (2, 9, 512)]
    }
    moves = [parts(move) for move in half.build_connector_meta(work).stores]
    key = [chunk_keys(request)[3]]
    assert moves[1:] == [{1: (key, [8]), 2: (key, [8]), 3: (key, [9])}], (
        "the state at 256 lacks a table"
    )


def test_blocks_that_are_handed_out_are_counted_in_the_blocks_of_their_table():
    """Of two hit tokens' tables, the second has blocks four times as long: the table's second block
    is new."""
    found = WindowBlocks(
        (
            unlike(0, "a", window=WINDOW),
            unlike(0, "b", window=WINDOW),
            group(1, block_size=128, window=WINDOW),
        )
    )
    found._stored = {1: {32}, 2: {42}}
    found.allocated(blocks([31, 32], [41, 42]), 64)
    nothing = Fake(
        scheduled_new_reqs=[],
        scheduled_cached_reqs=Fake(
            req_ids=[], num_computed_tokens=[], new_block_ids=[], resumed_req_ids=set()
        ),
    )
    assert found.rewritten(nothing) == (2,), (
        "64 tokens are two blocks of the first table, and no block of the second"
    )


def test_each_block_of_a_table_that_larder_does_not_serve_may_be_written():
    """The ring of a compressor gets a block that a window has left behind."""
    found = WindowBlocks((group(1, window=WINDOW),))
    found._stored = {1: {31}, 2: {42}, 3: {51}}
    found.allocated(blocks([31], [41, 42], [52]), 64)
    nothing = Fake(
        scheduled_new_reqs=[],
        scheduled_cached_reqs=Fake(
            req_ids=[], num_computed_tokens=[], new_block_ids=[], resumed_req_ids=set()
        ),
    )
    assert found.rewritten(nothing) == (1,)


def test_where_vllm_rebuilds_kv_a_full_hit_gives_up_a_chunk(client):
    """vLLM steps back one token of a full hit, into the middle of a block."""
    half = LarderConnectorScheduler(setup(rebuilds=True), client, NAMED)
    store_all(client, Request("s", range(512)))
    assert half.get_num_new_matched_tokens(Request("r", range(256)), 0) == (128, True)
    assert half.get_num_new_matched_tokens(Request("q", range(257)), 0) == (256, True)
