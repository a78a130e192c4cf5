"""Tails of ended requests in the scheduler's half, over fakes: blocks of 32 tokens in chunks of
128."""

from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import NAMED, Client, Request, blocks, ended, group, pages, setup, split, step  # noqa: E402
from scheduler_fakes import no_wait, run_prefill  # noqa: E402, F401

from larder.vllm.drafts import Drafts  # noqa: E402
from larder.vllm.groups import Shards  # noqa: E402
from larder.vllm.messages import WorkerReport  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.tail_pieces import pieces_of, reason_against  # noqa: E402

TABLE = list(range(11, 31))
TAILS = 1  # the number of the namespace of tails
STOPPED = SimpleNamespace(name="FINISHED_STOPPED")


def setup_with_tails(**changes):
    whole = changes.pop("groups", (group(),))
    pieces, tails = pieces_of(whole, 128, 32)
    return setup(groups=whole + tails, pieces=pieces, **changes)


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def half(client):
    return LarderConnectorScheduler(setup_with_tails(), client, NAMED)


def answered(name="r", tokens=200, **fields):
    """A request whose last token was sampled and not computed."""
    one = Request(name, range(tokens), status=STOPPED, **fields)
    one.num_computed_tokens = tokens - 1
    return one


def serve(half, one):
    """The request's prompt is computed, and all chunks are stored."""
    run_prefill(half, one, TABLE, 1024)
    half.update_connector_output(
        ended(meta=WorkerReport(ended={number: 1 for number in half._stored._kept._steps}))
    )


def end(half, one, table=None):
    return half.request_finished(one, (TABLE if table is None else table,))


def hashes_of(one, first, last):
    return one.block_hashes[first:last]


def put(client, one, chunks, pieces=()):
    client.stored.update(one.block_hashes[4 * chunk + 3] for chunk in range(chunks))
    client.stored.update((TAILS, one.block_hashes[piece]) for piece in pieces)


# ---- stores


def test_the_next_step_stores_the_tail_of_an_ended_request(half, client):
    one = answered()
    serve(half, one)
    assert end(half, one) is True, "vLLM keeps the blocks"
    assert half.waits_for_blocks
    work = half.build_connector_meta(step())
    (move,) = work.stores
    (part,) = move.parts
    assert (move.request_id, part.group, work.number) == ("r", 1, 2)
    keys = hashes_of(one, 4, 6)
    assert split(part.hashes, 32) == keys and pages(part.pages) == TABLE[4:6]
    assert split(part.parents, 32) == [bytes(32), keys[0]]
    assert work.kept == (), "the worker would report the request before the store begins"
    assert half.build_connector_meta(step()).kept == ("r",)
    half.update_connector_output(ended(meta=WorkerReport(ended={2: 1}), sent=("r",)))
    assert not half.waits_for_blocks


def test_pieces_that_are_there_are_not_stored_again(half, client):
    one = answered(tokens=240)
    put(client, one, 1, pieces=[4])
    serve(half, one)
    assert end(half, one) is True
    (move,) = half.build_connector_meta(step()).stores
    (part,) = move.parts
    keys = hashes_of(one, 4, 7)
    assert split(part.hashes, 32) == keys[1:] and pages(part.pages) == TABLE[5:7]
    assert split(part.parents, 32) == keys[:2]
    put(client, one, 1, pieces=[4, 5, 6])
    again = answered("s", 240)
    serve(half, again)
    assert end(half, again) is False


@pytest.mark.parametrize(
    "tokens, computed, stored", [(161, 160, 1), (160, 159, 0), (300, 170, 1), (256, 255, 3)]
)
def test_a_tail_has_computed_blocks_alone(half, client, tokens, computed, stored):
    one = answered(tokens=tokens)
    serve(half, one)
    one.num_computed_tokens = computed
    assert end(half, one) is bool(stored)
    moves = half.build_connector_meta(step()).stores
    assert [len(split(part.hashes, 32)) for move in moves for part in move.parts] == (
        [stored] if stored else []
    )


def test_a_step_in_flight_computes_no_token_of_the_answer(half):
    """vLLM counts the tokens of a step that runs ahead."""
    one = answered(tokens=160)
    serve(half, one)
    one.num_computed_tokens = 161
    assert end(half, one) is False


@pytest.mark.parametrize("status", ["FINISHED_ABORTED", "FINISHED_ERROR", "FINISHED_IGNORED"])
def test_a_request_without_an_answer_stores_no_tail(half, status):
    one = answered()
    serve(half, one)
    one.status = SimpleNamespace(name=status)
    assert end(half, one) is False
    assert half.build_connector_meta(step()).stores == []


@pytest.mark.parametrize("hint", ["off", {"release": True}, {"priority": "low"}])
def test_a_client_may_want_no_tail(half, hint):
    one = answered(kv_transfer_params={"larder": hint})
    if hint == "off":
        half.update_state_after_alloc(one, blocks(TABLE), 0)
    else:
        serve(half, one)
    assert end(half, one) is False


def test_kv_of_another_connector_and_stale_kv_are_no_tail(half):
    foreign, stale = answered("f"), answered("s")
    serve(half, foreign)
    half._origins._foreign._first["f"] = 159
    assert end(half, foreign) is False
    serve(half, stale)
    half._tracked["s"].stale = True
    assert end(half, stale) is False


def test_an_item_whose_tokens_attend_to_each_other_has_no_tail(client):
    half = LarderConnectorScheduler(setup_with_tails(items_whole="run"), client, NAMED)
    one = answered()
    serve(half, one)
    one.mm_features = [SimpleNamespace()]
    assert end(half, one) is False


# covers F-465
def test_after_a_reset_no_tail_is_stored_and_the_blocks_come_free(half):
    one = answered()
    serve(half, one)
    assert end(half, one) is True
    half.reset_cache()
    assert half.build_connector_meta(step()).stores == []
    assert half.build_connector_meta(step()).kept == ("r",)


# covers F-465
def test_a_disabled_cache_frees_the_blocks_of_a_tail(half):
    one = answered()
    serve(half, one)
    assert end(half, one) is True
    half.turn_off("a reason")
    half.build_connector_meta(step())
    assert half.build_connector_meta(step()).kept == ("r",)


def test_a_tail_of_a_closed_namespace_is_not_stored(half):
    half.reset_cache()
    one = answered()
    half.get_num_new_matched_tokens(one, 0)  # vLLM's own cache has nothing of it
    serve(half, one)
    assert end(half, one) is True
    (line,) = half._spaces._open
    half._spaces._close(line)
    assert half.build_connector_meta(step()).stores == []


def test_an_older_vllm_gives_a_plain_list(half):
    one = answered()
    serve(half, one)
    assert half.request_finished(one, TABLE) is True
    assert len(half.build_connector_meta(step()).stores) == 1


# ---- hits


def load(half, one, local=0):
    """(the loaded tokens, {group: (keys, pages)} of the load)."""
    external, waits = half.get_num_new_matched_tokens(one, local)
    assert waits is (external > 0)
    half.update_state_after_alloc(one, blocks(TABLE), external)
    loads = half.build_connector_meta(step()).loads
    parts = {
        part.group: (split(part.hashes, 32), pages(part.pages))
        for move in loads
        for part in move.parts
    }
    return external, parts


def test_a_hit_goes_on_behind_its_last_whole_chunk(half, client):
    one = Request("r", range(200))
    put(client, one, 1, pieces=[4, 5])
    external, parts = load(half, one)
    assert external == 192
    assert parts == {
        0: (hashes_of(one, 3, 4), TABLE[:4]),
        1: (hashes_of(one, 4, 6), TABLE[4:6]),
    }
    assert sorted(map(len, client.holds.values())) == [1, 2]
    half.update_connector_output(ended({"r"}))
    assert client.holds == {}


def test_a_prompt_that_parts_earlier_hits_the_pieces_that_it_shares(half, client):
    one = Request("r", range(250))
    put(client, one, 1, pieces=[4, 5, 6])
    other = Request("s", [*range(200), *range(900, 1100)])
    assert load(half, other)[0] == 192


@pytest.mark.parametrize(
    "chunks, pieces, local, external",
    [
        (1, [4, 5], 128, 64),  # vLLM has the whole chunks
        (1, [4, 5], 160, 32),
        (1, [4, 5], 192, 0),
        (0, [0, 1], 0, 64),  # a prompt shorter than a chunk
        (1, [5], 0, 128),  # a hole
        (1, [], 0, 128),
        (0, [4, 5], 0, 0),  # the whole chunk before the tail is gone
    ],
)
def test_a_hit_has_what_is_missing_before_the_first_hole(
    half, client, chunks, pieces, local, external
):
    one = Request("r", range(200))
    put(client, one, chunks, pieces)
    assert load(half, one, local)[0] == external


def test_a_whole_prompt_of_pieces_is_a_hit(half, client):
    one = Request("r", range(192))
    put(client, one, 1, pieces=[4, 5])
    assert load(half, one)[0] == 192


def test_a_failed_load_loads_no_piece_again(half, client):
    one = Request("r", range(200))
    put(client, one, 1, pieces=[4, 5])
    assert load(half, one)[0] == 192
    half.update_connector_output(ended({"r"}, {"r"}))
    assert half.get_num_new_matched_tokens(one, 0) == (0, False)


def test_an_older_vllm_hears_of_all_pages_of_the_load(client):
    half = LarderConnectorScheduler(setup_with_tails(fails_by_page=True), client, NAMED)
    one = Request("r", range(200))
    put(client, one, 1, pieces=[4, 5])
    external, _ = half.get_num_new_matched_tokens(one, 32)
    half.update_state_after_alloc(one, blocks(TABLE), external)
    (move,) = half.build_connector_meta(step()).loads
    assert list(move.pages) == TABLE[1:6]


# ---- superseded pieces


@pytest.mark.parametrize("local", [0, 192])
def test_pieces_are_demoted_once_their_chunk_is_stored(half, client, local):
    one = Request("r", range(300))
    put(client, one, 1, pieces=[4, 5])
    external, _ = half.get_num_new_matched_tokens(one, local)
    assert external == 192 - local
    half.update_state_after_alloc(one, blocks(TABLE), external)
    half.build_connector_meta(step())
    half.update_connector_output(ended({"r"}))
    half.build_connector_meta(step(new=[("r", 192, 60)], tables={"r": TABLE}))
    assert client.demoted == [], "the chunk is not full"
    work = half.build_connector_meta(step(cached=[("r", 252, 48)], tables={"r": TABLE}))
    assert [split(part.hashes, 32) for move in work.stores for part in move.parts] == [
        [one.block_hashes[7]]
    ], "loaded and computed blocks make the chunk"
    assert client.demoted == [([(TAILS, key) for key in hashes_of(one, 4, 6)], 0)]


def test_an_older_larderd_keeps_superseded_pieces(half, client):
    client.fail = "demote"
    one = Request("r", range(300))
    put(client, one, 1, pieces=[4, 5])
    half.get_num_new_matched_tokens(one, 192)
    half.update_state_after_alloc(one, blocks(TABLE), 0)
    half.build_connector_meta(step(new=[("r", 192, 108)], tables={"r": TABLE}))
    assert half.off is None and client.demoted == []


# ---- which engines


def test_an_engine_without_tails_opens_one_namespace_and_looks_up_once(client):
    half = LarderConnectorScheduler(setup(), client, NAMED)
    one = answered()
    put(client, one, 1, pieces=[4, 5])
    assert half.get_num_new_matched_tokens(one, 0) == (128, True)
    assert len(client.namespaces) == 1
    assert half.request_finished(one, (TABLE,)) is False


def test_tails_have_a_namespace_beside_each_space(half, client):
    half.get_num_new_matched_tokens(answered(), 0)
    assert [text.split("\n")[-2] for text in client.namespaces] == ["weights: w", "chunks: tails"]


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"groups": (group(window=64),)}, "window"),
        ({"rebuilds": True}, "anew"),
        ({"drafts": Drafts("eagle", 1, 4096, 1)}, "eagle"),
        ({"shards": Shards(stages=2)}, "pipelines"),
        ({"spread": True}, "machines"),
        ({"groups": tuple(group(i) for i in range(9))}, "KV groups"),
        ({}, ""),
    ],
)
def test_engines_whose_hits_end_at_whole_chunks(changes, word):
    facts = dict(groups=(group(),), shards=Shards(), drafts=None, rebuilds=False, spread=False)
    reason = reason_against(**{**facts, **changes})
    assert word in reason and bool(reason) is bool(word)


def test_a_piece_has_whole_blocks_of_all_groups():
    groups = (group(0, 16), group(1, 32))
    pieces, tails = pieces_of(groups, 128, 16)
    assert (pieces.chunk_tokens, pieces.hashes_per_chunk, pieces.per_chunk) == (32, 2, 4)
    assert [(one.table, one.blocks, one.tail) for one in tails] == [(0, 2, True), (1, 1, True)]
    assert tails[0].pages(list(range(20)), 3) == [6, 7]
    assert pieces_of((group(0, 128),), 128, 128) == (None, ())
