"""Keys that cover the tokens behind a chunk, and the scheduler's half with such keys."""

import pytest

pytest.importorskip("vllm")

from fakes import NAMED, Client, Request, blocks, group, setup, split, step  # noqa: E402
from scheduler_fakes import no_wait  # noqa: E402, F401

from larder.next_tokens import chunks_known, key_behind  # noqa: E402
from larder.vllm.drafts import Drafts  # noqa: E402
from larder.vllm.keys import chunk_hashes  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402

TABLE = list(range(1, 13))


def half_of(lookahead, **changes):
    return LarderConnectorScheduler(setup(lookahead=lookahead, **changes), Client(), NAMED)


def keys_of(request, lookahead, places=(), first=0, last=9):
    return split(chunk_hashes(setup(lookahead=lookahead), request, first, last, places), 32)


def stored_at(half, request, computed, count, kind="cached"):
    """The keys that a step stores."""
    made = step(
        **{kind: [(request.request_id, computed, count)]}, tables={request.request_id: TABLE}
    )
    stores = half.build_connector_meta(made).stores
    keys = [key for move in stores for key in split(move.parts[0].hashes, 32)]
    half.client.stored.update(keys)
    return keys


class TestKeys:
    @pytest.mark.parametrize(
        ("block_hash", "tokens", "key"),
        [
            (
                bytes(range(32)),
                [7],
                "9700c2e6c6b9727a62df90501d9ae8d7012c6ae11595f11b5030cc4122fd4fd0",
            ),
            (bytes(range(16)), [7], "79036eb4ecc687a9705bcf5d2420ec37"),
            (
                bytes(32),
                [1, 2, 1 << 31],
                "5629cfdfc9638c8126a3f856ecaab2c6c5b4b61cd8e69be9b95251857c973409",
            ),
        ],
    )
    def test_golden_bytes(self, block_hash, tokens, key):
        """Chunks on disks and in Redis have these names."""
        assert key_behind(block_hash, tokens).hex() == key

    def test_without_a_lookahead_the_key_is_the_block_hash(self):
        request = Request("r", range(300))
        assert keys_of(request, 0) == request.block_hashes[3::4]

    def test_a_key_covers_the_next_tokens_and_no_others(self):
        one, same, other = (
            Request("a", range(300)),
            Request("b", [*range(129), *range(500, 700)]),
            Request("c", [*range(128), 999]),
        )
        assert keys_of(one, 1)[0] == keys_of(same, 1)[0] == key_behind(one.block_hashes[3], [128])
        assert keys_of(other, 1) == [key_behind(one.block_hashes[3], [999])]
        assert keys_of(one, 2)[0] != keys_of(same, 2)[0]

    @pytest.mark.parametrize(
        ("tokens", "lookahead", "chunks"),
        [(256, 1, 1), (257, 1, 2), (258, 3, 1), (259, 3, 2), (0, 1, 0)],
    )
    def test_a_chunk_has_a_key_once_its_next_tokens_are_known(self, tokens, lookahead, chunks):
        assert chunks_known(tokens, 128, lookahead) == chunks
        assert len(keys_of(Request("r", range(tokens)), lookahead)) == chunks

    def test_an_item_that_begins_among_the_next_tokens_is_in_the_key(self):
        """The drafter reads the first embedding of an item that begins at the chunk's end."""
        request = Request("r", range(300))

        def keys(begin, lookahead):
            return keys_of(request, lookahead, ((begin, b"picture"),), last=1)

        bare = keys_of(request, 1, last=1)
        assert keys(127, 1) != bare != keys(128, 1) and keys(129, 1) == bare
        assert keys(127, 0) != keys(128, 0) == keys_of(request, 0, last=1)
        assert keys(130, 3) != keys(131, 3) == keys_of(request, 3, last=1)

    def test_a_prompt_of_embeddings_has_no_keys(self):
        """The prompt's token ids are zeros."""
        request = Request("r", [0] * 300, prompt_embeds=object())
        assert keys_of(request, 1) == [] and len(keys_of(request, 0)) == 2

    def test_a_number_that_is_no_token_costs_the_keys_from_there_on(self):
        with pytest.raises(OverflowError):
            key_behind(bytes(32), [-1])
        tokens = [*range(256), -1, *range(300)]
        assert len(keys_of(Request("r", tokens), 1)) == 1


class TestHits:
    def test_a_prompt_that_ends_with_a_chunk_hits_the_chunks_before(self):
        half, long = half_of(1), Request("long", range(300))
        half.client.stored.update(keys_of(long, 1))
        assert half.get_num_new_matched_tokens(long, 0) == (256, True)
        assert half.get_num_new_matched_tokens(Request("r", range(256)), 0) == (128, True)
        assert half.get_num_new_matched_tokens(Request("s", range(128)), 0) == (0, False)
        assert half.get_num_new_matched_tokens(Request("t", [*range(256), 999]), 0) == (128, True)
        assert half.off is None

    def test_a_load_holds_the_keys_and_a_report_counts_the_chunks_that_have_keys(self):
        half, request = half_of(1), Request("r", range(256))
        half.client.stored.update(keys_of(request, 1))
        half.get_num_new_matched_tokens(request, 0)
        half.update_state_after_alloc(request, blocks(TABLE), 128)
        assert list(half.client.holds.values()) == [keys_of(request, 1)]
        assert half.client.reported[0][1] == keys_of(request, 1)
        assert half.off is None

    def test_a_prompt_of_embeddings_runs_without_the_cache(self):
        half, request = half_of(1), Request("r", [0] * 300, prompt_embeds=object())
        assert half.get_num_new_matched_tokens(request, 0) == (0, False)
        half.update_state_after_alloc(request, blocks(TABLE), 0)
        assert stored_at(half, request, 0, 300, "new") == []
        assert half.off is None


class TestStores:
    def test_the_last_chunk_of_a_prompt_is_stored_once_the_next_token_is_known(self):
        half, request = half_of(1), Request("r", range(256))
        half.update_state_after_alloc(request, blocks(TABLE), 0)
        assert stored_at(half, request, 0, 256, "new") == keys_of(request, 1)
        request.tokens.append(41)
        (key,) = stored_at(half, request, 256, 1)
        assert key == key_behind(request.block_hashes[7], [41])
        assert stored_at(half, request, 257, 1) == [] and half.off is None

    def test_with_asynchronous_scheduling_it_is_known_two_steps_later(self):
        half, request = half_of(1), Request("r", range(256))
        half.update_state_after_alloc(request, blocks(TABLE), 0)
        assert len(stored_at(half, request, 0, 256, "new")) == 1
        assert stored_at(half, request, 256, 1) == []
        request.tokens.append(41)
        assert len(stored_at(half, request, 257, 1)) == 1

    def test_several_modules_write_the_last_positions_again(self):
        """With a lookahead of 3, a step leaves two positions to the next one."""
        half, request = half_of(3), Request("r", range(400))
        half.update_state_after_alloc(request, blocks(TABLE), 0)
        assert stored_at(half, request, 0, 129, "new") == []
        assert stored_at(half, request, 129, 1) == keys_of(request, 3)[:1]

    def test_a_window_may_have_left_the_chunk_behind_meanwhile(self):
        """A hole: the next chunk is stored, under its own key."""
        windows = group(0, 32, 128, window=33)
        half, request = half_of(1, groups=(windows,)), Request("r", range(128))
        half.update_state_after_alloc(request, blocks([1, 2, 3, 4]), 0)
        assert stored_at(half, request, 0, 128, "new") == []
        request.tokens += range(400, 530)
        tables = {"r": [0, 0, 0, 0, 5, 6, 7, 8]}
        stores = half.build_connector_meta(step(cached=[("r", 128, 129)], tables=tables)).stores
        assert [part.hashes for move in stores for part in move.parts] == [keys_of(request, 1)[1]]


class TestDraftKv:
    """The scheduler's half with a drafter of one layer, whose steps have 250 tokens of a request at
    most."""

    def half(self, longest=250, **changes):
        return half_of(1, drafts=Drafts("eagle", 1, longest, 1), **changes)

    def test_a_chunk_with_draft_kv_of_other_tokens_is_left_out_and_the_next_one_stored(self):
        half, one, other = (
            self.half(),
            Request("R1", [*range(128), 700, 701]),
            Request("R3", [*range(128), *range(800, 930)]),
        )
        half.get_num_new_matched_tokens(one, 0)
        half.update_state_after_alloc(one, blocks(TABLE), 0)
        assert stored_at(half, one, 0, 130, "new") == keys_of(one, 1)
        half.get_num_new_matched_tokens(other, 128)
        table = [*TABLE[:4], *range(20, 30)]
        half.update_state_after_alloc(other, blocks(table), 0)
        stores = half.build_connector_meta(
            step(new=[("R3", 128, 122)], tables={"R3": table})
        ).stores
        assert stores == [] and half.off is None
        stores = half.build_connector_meta(
            step(cached=[("R3", 250, 8)], tables={"R3": table})
        ).stores
        assert stores == [], "the step has no drafter"

        again = Request("R4", [*range(128), *range(800, 930)])
        half.get_num_new_matched_tokens(again, 96)
        half.update_state_after_alloc(again, blocks(table), 0)
        stores = half.build_connector_meta(step(new=[("R4", 96, 150)], tables={"R4": table})).stores
        assert [part.hashes for move in stores for part in move.parts] == [keys_of(again, 1)[0]]

    def prefill_behind_a_hole(self, chunks):
        """(half, request, keys of each look-up, keys of each store) of a prompt whose first block
        vLLM hits. The block's draft KV is not known, so that the first chunk is a hole."""
        half, request = self.half(128 * chunks), Request("r", range(128 * chunks + 1))
        looked_up, stored, look_up = [], [], half.client.lookup
        half.client.lookup = lambda hashes, *more: (
            looked_up.append(split(hashes, 32)) or look_up(hashes, *more)
        )
        table = list(range(1, 4 * chunks + 2))
        half.get_num_new_matched_tokens(request, 32)
        half.update_state_after_alloc(request, blocks(table), 0)
        looked_up.clear()
        for begin in [32, *range(128, 128 * chunks, 128)]:
            made = step(
                **{"new" if begin == 32 else "cached": [("r", begin, 128 - begin % 128)]},
                tables={"r": table},
            )
            for move in half.build_connector_meta(made).stores:
                stored.append(split(move.parts[0].hashes, 32))
                half.client.stored.update(stored[-1])
        return half, request, looked_up, stored

    # covers F-300
    def test_chunks_behind_a_hole_are_looked_up_and_stored_once(self):
        half, request, looked_up, stored = self.prefill_behind_a_hole(40)
        assert sum(stored, []) == keys_of(request, 1, last=40)[1:], (
            "each chunk once, and not the hole"
        )
        assert sum(map(len, looked_up)) <= 3 * 40 and half.off is None

    # covers F-300
    def test_chunks_behind_a_hole_that_are_in_the_index_are_not_stored_again(self):
        half, request = self.half(1000), Request("r", range(513))
        half.client.stored.update(keys_of(request, 1)[1:3])
        half.get_num_new_matched_tokens(request, 32)
        half.update_state_after_alloc(request, blocks(range(1, 18)), 0)
        stores = half.build_connector_meta(
            step(new=[("r", 32, 481)], tables={"r": list(range(1, 18))})
        ).stores
        assert [part.hashes for move in stores for part in move.parts] == keys_of(request, 1)[3:]

    # covers F-300
    def test_a_hole_is_filled_by_a_request_that_is_computed_anew(self):
        half, request, *_ = self.prefill_behind_a_hole(2)
        half.get_num_new_matched_tokens(request, 0)
        table = list(range(50, 60))
        half.update_state_after_alloc(request, blocks(table), 0)
        stores = half.build_connector_meta(
            step(cached=[("r", 0, 250)], tables={"r": table}, resumed=["r"])
        ).stores
        assert [part.hashes for move in stores for part in move.parts] == keys_of(
            request, 1, last=1
        )

    def test_a_request_that_ends_and_a_reset_are_told(self):
        half, one = self.half(), Request("R1", range(130))
        half.get_num_new_matched_tokens(one, 0)
        half.update_state_after_alloc(one, blocks(TABLE), 0)
        stored_at(half, one, 0, 130, "new")
        drafts = half._origins._drafts
        assert set(drafts._lives) == {"R1"} and set(drafts._blocks) == set(TABLE[:4])
        half.request_finished(one)
        assert drafts._lives == {} and set(drafts._blocks) == set(TABLE[:4])
        half.reset_cache()
        assert drafts._blocks == {}
