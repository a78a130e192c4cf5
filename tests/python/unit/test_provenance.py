"""Stores of requests for which vLLM's own caches may have KV of another picture. All pictures have
one identifier, and all block hashes are equal."""

from concurrent.futures import Future

import pytest

pytest.importorskip("vllm")

from fakes import NAMED, blocks, group, setup, step  # noqa: E402
from item_fakes import computed, digested, feature, item, step_of, with_pictures  # noqa: E402
from scheduler_fakes import client, half  # noqa: E402, F401

from larder.vllm import provenance  # noqa: E402
from larder.vllm.messages import WorkerReport  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402

NAME = "named by the client"
TABLE, OTHER = range(1, 11), range(21, 31)


def picture(name, value, offset=0, **fields):
    return with_pictures(name, feature(item(value), offset), **fields)


def opted_out(name, value, **fields):
    return picture(name, value, kv_transfer_params={"larder": "off"}, **fields)


def test_a_digest_that_comes_while_two_are_compared():
    class Late(Future):
        """Has a result from the second look on."""

        looks = 0

        def done(self):
            self.looks += 1
            return self.looks > 1

    used, own = Late(), Future()
    used.set_result(b"one")
    own.set_result(b"another")
    past = provenance.Past(unsettled=[(used, own)])
    assert past.is_clean() is None
    assert past.is_clean() is False


class TestEncoderCache:
    # covers F-084
    def test_embeddings_of_another_picture(self, half):
        computed(half, picture("first", 1.0), TABLE)
        assert computed(half, picture("other", 2.0), OTHER, encodes=False) == []
        assert half.observed().data["unnamed"] == ["other"]

    # covers F-084
    def test_embeddings_of_an_earlier_adapter_of_that_name(self, half):
        """--enable-tower-connector-lora: vLLM's identifier has the adapter's name alone, and its
        encoder cache outlives the adapter's files."""
        held = {"first": (1, ("old",)), "again": (1, ("old",)), "new": (2, ("new",))}
        half._items._provenance._adapter_of = lambda asked: held.get(asked.request_id, (3, ()))
        assert len(computed(half, picture("first", 1.0), TABLE)) == 2
        half.client.stored.clear()
        assert computed(half, picture("new", 1.0), OTHER, encodes=False) == []
        assert computed(half, picture("unknown", 1.0), range(31, 41), encodes=False) == []
        assert len(computed(half, picture("again", 1.0), range(41, 51), encodes=False)) == 2
        half.client.stored.clear()
        assert computed(half, picture("unread", 1.0), range(51, 61)) == []

    # covers F-084
    def test_embeddings_of_an_adapter_with_other_files_than_its_name(self, half):
        """The worker had loaded the other files before the encoder ran."""
        held = {"first": (1, ("old",)), "again": (1, ("old",))}
        half._items._provenance._adapter_of = lambda asked: held[asked.request_id]
        computed(half, picture("first", 1.0), TABLE)
        half.client.stored.clear()
        half._adapters.loaded = lambda news: True
        half.hear(WorkerReport(adapters={1: ("new",)}))
        assert computed(half, picture("again", 1.0), OTHER, encodes=False) == []

    def test_embeddings_of_another_picture_of_a_request_without_the_cache(self, half):
        computed(half, opted_out("first", 1.0), TABLE)
        assert computed(half, picture("other", 2.0), OTHER, encodes=False) == []

    def test_embeddings_of_the_same_picture(self, half):
        computed(half, opted_out("first", 1.0), TABLE)
        assert len(computed(half, picture("again", 1.0), OTHER, encodes=False)) == 2

    def test_embeddings_of_unknown_origin_are_not_stored(self, half):
        assert computed(half, picture("first", 1.0), TABLE, encodes=False) == []

    def test_another_picture_is_encoded_after_the_first_is_gone(self, half):
        computed(half, picture("first", 1.0), TABLE)
        assert len(computed(half, picture("other", 2.0), OTHER, freed=[NAME])) == 2
        assert len(computed(half, picture("third", 2.0, tokens=290), OTHER, encodes=False)) == 0, (
            "stored already"
        )
        assert computed(half, picture("first again", 1.0, tokens=428), TABLE, encodes=False) == []

    def test_another_picture_is_encoded_in_the_step_that_evicts_the_first(self, half):
        """vLLM does not tell of the eviction, and its newer model runner keeps the embeddings."""
        computed(half, picture("first", 1.0), TABLE)
        assert computed(half, picture("other", 2.0), OTHER) == []
        assert computed(half, picture("first again", 1.0, tokens=428), TABLE, encodes=False) == []

    def test_embeddings_by_the_encoder_of_another_modality(self, half):
        computed(half, picture("first", 1.0), TABLE)
        video = with_pictures("video", feature(item(1.0), modality="video"))
        assert computed(half, video, OTHER, encodes=False) == [] == computed(half, video, OTHER)

    def test_embeddings_of_weights_that_were_replaced(self, half):
        computed(half, picture("first", 1.0), TABLE)
        half.reset_cache()
        assert computed(half, picture("again", 1.0), OTHER, encodes=False) == []
        assert len(computed(half, picture("third", 1.0), OTHER, freed=[NAME])) == 2

    def test_tokens_of_a_picture_without_embeddings_need_none(self, half):
        import torch

        request = with_pictures("r", feature(item(1.0), 0, 16, is_embed=torch.tensor([False] * 16)))
        assert len(computed(half, request, TABLE, encodes=False)) == 2

    def test_names_are_bounded(self, half, monkeypatch):
        monkeypatch.setattr(provenance, "MOST_ENCODED", 1)
        assert len(computed(half, picture("first", 1.0), TABLE)) == 2
        second = with_pictures("second", feature(item(2.0), identifier="another"))
        assert computed(half, second, OTHER) == []
        assert len(computed(half, second, OTHER, freed=[NAME])) == 0, "the entry stays unchanged"
        assert (
            len(
                computed(
                    half,
                    with_pictures("third", feature(item(3.0), identifier="third")),
                    OTHER,
                    freed=["another"],
                )
            )
            == 2
        )


def test_a_drafter_reads_the_picture_behind_its_last_token(client):
    """The drafter's KV of token 127 is of the embedding at token 128, which vLLM's encoder cache
    has from another picture."""
    for lookahead, stored in ((0, 1), (1, 0)):
        half = LarderConnectorScheduler(setup(lookahead=lookahead), client, NAMED)
        client.stored.clear()
        computed(half, opted_out("first", 1.0, offset=128), TABLE)
        request = picture("other", 2.0, offset=128)
        digested(half, request)
        half.update_state_after_alloc(request, blocks(OTHER), 0)
        assert len(step_of(half, request, OTHER, 0, 128)) == stored


class TestPrefixCache:
    def test_blocks_of_the_same_picture(self, half):
        computed(half, picture("first", 1.0, tokens=160), TABLE)
        assert (
            len(
                computed(
                    half, picture("again", 1.0), [*TABLE[:5], *OTHER], local=160, encodes=False
                )
            )
            == 1
        )

    @pytest.mark.parametrize("first", [picture, opted_out])
    # covers F-084
    def test_blocks_of_another_picture(self, half, first):
        computed(half, first("first", 1.0, tokens=160), TABLE)
        assert (
            computed(half, picture("other", 2.0), [*TABLE[:5], *OTHER], local=160, freed=[NAME])
            == []
        )

    def test_blocks_of_the_same_picture_by_embeddings_of_another_one(self, half):
        computed(half, picture("first", 1.0), TABLE)
        computed(half, picture("mixed up", 2.0), OTHER, encodes=False)
        table = [*OTHER[:5], *range(41, 51)]
        assert computed(half, picture("again", 2.0), table, local=160, freed=[NAME]) == []

    def test_a_block_that_was_given_to_unknown_embeddings(self, half):
        computed(half, picture("first", 1.0, tokens=160), TABLE)
        computed(half, picture("unknown", 1.0, tokens=160), TABLE, encodes=False, freed=[NAME])
        again = picture("again", 1.0)
        assert computed(half, again, [*TABLE[:5], *OTHER], local=160) == []

    def test_blocks_of_unknown_origin_are_not_stored(self, half):
        assert computed(half, picture("first", 1.0), TABLE, local=160) == []

    def test_text_before_the_picture_may_be_hit(self, half):
        assert len(computed(half, picture("first", 1.0, offset=160), TABLE, local=160)) == 2

    def test_blocks_of_weights_that_were_replaced(self, half):
        computed(half, picture("first", 1.0, tokens=160), TABLE)
        half.reset_cache()
        assert (
            computed(half, picture("again", 1.0), [*TABLE[:5], *OTHER], local=160, freed=[NAME])
            == []
        )

    def test_a_block_that_was_given_to_another_picture(self, half):
        computed(half, picture("first", 1.0, tokens=160), TABLE)
        computed(half, picture("other", 2.0, tokens=160), TABLE, freed=[NAME])
        again = picture("again", 1.0)
        assert computed(half, again, [*TABLE[:5], *OTHER], local=160, freed=[NAME]) == []

    def test_a_block_that_a_running_request_is_given_in_the_same_step(self, half):
        """Request "other" runs, and vLLM schedules it before "again", which hits."""
        computed(half, picture("first", 1.0, tokens=160), TABLE)
        other, again = picture("other", 2.0, tokens=300), picture("again", 1.0)
        digested(half, other)
        half.update_state_after_alloc(other, blocks(OTHER[:1]), 0)
        step_of(half, other, OTHER[:1], 0, 32, encodes=True, freed=[NAME])
        digested(half, again, 160)
        table = [*TABLE[:5], *range(41, 46)]
        half.update_state_after_alloc(again, blocks(table), 0)
        both = step(
            new=[("again", 160, 140)],
            cached=[("other", 32, 128)],
            tables={"again": table, "other": [OTHER[0], *TABLE[1:5]]},
        )
        assert [move.request_id for move in half.build_connector_meta(both).stores] == ["other"]

    def test_blocks_that_a_request_is_given_and_another_hits_in_the_same_step(self, half):
        first, again, other = picture("first", 1.0), picture("again", 1.0), picture("other", 2.0)
        tables = {
            "first": [*TABLE],
            "again": [*TABLE[:5], *OTHER],
            "other": [*TABLE[:5], *range(41, 51)],
        }
        asked = ((first, 0), (again, 160), (other, 160))
        for request, local in asked:  # before vLLM admits one: a step admits and computes
            digested(half, request, local)
        for request, _ in asked:
            half.update_state_after_alloc(request, blocks(tables[request.request_id]), 0)
        made = step(
            new=[("first", 0, 300), ("again", 160, 140), ("other", 160, 140)], tables=tables
        )
        made.scheduled_encoder_inputs = {"first": [0]}
        assert {move.request_id for move in half.build_connector_meta(made).stores} == {
            "first",
            "again",
        }

    def test_a_request_that_is_preempted_hits_its_own(self, half):
        request = picture("r", 1.0, tokens=300)
        digested(half, request)
        half.update_state_after_alloc(request, blocks(TABLE), 0)
        step_of(half, request, TABLE, 0, 160, encodes=True)
        assert len(computed(half, request, [*TABLE[:5], *OTHER], local=160, encodes=False)) == 1

    def test_decoded_blocks_are_noted_once_their_hash_is_known(self, half):
        """With asynchronous scheduling a block is full one step before its last token is known."""
        first = picture("first", 1.0, tokens=190)
        computed(half, first, TABLE)
        step_of(half, first, TABLE, 190, 192, kind="cached")
        assert 6 not in half._items._provenance._blocks
        first.tokens += range(190, 193)
        step_of(half, first, TABLE, 192, 193, kind="cached")
        assert (
            len(
                computed(
                    half, picture("again", 1.0), [*TABLE[:6], *OTHER], local=192, encodes=False
                )
            )
            == 1
        )

    def test_no_more_than_vllm_has_blocks(self, half):
        for i in range(20):
            computed(half, picture(f"r{i}", float(i)), TABLE, freed=[NAME])
        assert len(half._items._provenance._blocks) <= len(TABLE)

    def test_null_blocks_behind_a_window_are_left_alone(self, client):
        window = group(1, window=64)
        half = LarderConnectorScheduler(setup(groups=(group(), window)), client, NAMED)
        request = picture("first", 1.0)
        tables = ([*TABLE], [0, 0, *OTHER[2:]])
        digested(half, request)
        half.update_state_after_alloc(request, blocks(*tables), 0)
        made = step(new=[("first", 0, 300)], tables={"first": tables})
        made.scheduled_encoder_inputs = {"first": [0]}
        half.build_connector_meta(made)
        again = picture("again", 1.0, tokens=428)
        hit = ([*TABLE[:8], *range(61, 70)], [0, 0, 0, 0, 0, 0, *OTHER[6:8], *range(71, 80)])
        digested(half, again, 256)
        half.update_state_after_alloc(again, blocks(*hit), 0)
        assert (
            len(
                half.build_connector_meta(
                    step(new=[("again", 256, 172)], tables={"again": hit})
                ).stores
            )
            == 1
        )
        assert 0 not in half._items._provenance._blocks


class TestItemsThatAttendInBothDirections:
    """Gemma 3 and the like. vLLM computes such an item in one step, with two exceptions: behind a
    hit inside the item, and in 0.32 where a step begins at the item."""

    @pytest.fixture
    def half(self, client):
        return LarderConnectorScheduler(setup(items_whole="run"), client, NAMED)

    def begun(self, half, request, table, end, local=0):
        digested(half, request, local)
        half.update_state_after_alloc(request, blocks(table), 0)
        return step_of(half, request, table, local, end, encodes=True, freed=[NAME])

    def divided(self, name, end, half, **fields):
        """An item of 160 tokens behind 32 tokens of text, in two steps."""
        request = with_pictures(name, feature(item(1.0), 32, 160), **fields)
        first = self.begun(half, request, TABLE, end)
        return first + step_of(half, request, TABLE, end, kind="cached")

    @pytest.mark.parametrize(("end", "stored"), [(32, 2), (192, 2), (128, 0), (191, 0), (33, 0)])
    # covers F-414
    def test_an_item_that_a_step_divides_is_not_stored(self, half, end, stored):
        assert len(self.divided("r", end, half)) == stored
        told = half.observed()
        assert (told.data["unnamed"] if told else []) == ([] if stored else ["other"])

    # covers F-414
    def test_blocks_of_a_divided_item_are_not_trusted(self, half):
        self.divided("first", 128, half, kv_transfer_params={"larder": "off"})
        again = with_pictures("again", feature(item(1.0), 32, 160))
        assert self.begun(half, again, [*TABLE[:6], *OTHER], None, local=192) == []

    # covers F-414
    def test_a_hit_ends_inside_no_item(self, half):
        assert len(self.divided("first", 192, half)) == 2
        again = with_pictures("again", feature(item(1.0), 32, 160))
        assert digested(half, again) == (256, True)
        shorter = with_pictures("shorter", feature(item(1.0), 32, 160), tokens=200)
        assert digested(half, shorter) == (0, False), "its only chunk ends inside the item"

    # covers F-414
    def test_a_video_may_be_divided_between_two_frames(self, client):
        """Two frames of 64 tokens behind 32 tokens of text, with 8 tokens of text between them."""
        import torch

        from larder.vllm.provenance import divides

        mask = torch.tensor([True] * 64 + [False] * 8 + [True] * 64)
        video = feature(item(1.0), 32, 136, is_embed=mask, modality="video")
        inside = [end for end in (32, 33, 95, 96, 100, 104, 105, 168) if divides(video, end, "run")]
        assert inside == [33, 95, 105]
        assert [end for end in (32, 96, 168) if divides(video, end, "item")] == [96]
        assert not divides(feature(item(1.0), 32, 136, modality="audio"), 100, "run")

    # covers F-414
    def test_a_hit_ends_inside_no_video(self, half):
        """The second chunk ends in the second frame, and the first chunk in the first one."""
        import torch

        mask = torch.tensor([True] * 100 + [False] * 8 + [True] * 140)
        video = feature(item(1.0), 32, 248, is_embed=mask, modality="video")
        first = with_pictures("first", video)
        assert len(self.begun(half, first, TABLE, 280)) == 2
        assert digested(half, with_pictures("again", video)) == (0, False)

    def test_models_whose_items_attend_in_both_directions(self):
        from types import SimpleNamespace

        from larder.vllm.items import items_whole

        def model(prefix, **text):
            return SimpleNamespace(is_mm_prefix_lm=prefix, hf_text_config=SimpleNamespace(**text))

        assert items_whole(SimpleNamespace()) == items_whole(model(False)) == ""
        assert items_whole(model(True)) == "run"
        assert items_whole(model(True, mm_prefix_span_leading_pad_modulus=128)) == "item"

    def test_other_models_may_divide_an_item(self, client):
        half = LarderConnectorScheduler(setup(), client, NAMED)
        assert len(self.divided("r", 128, half)) == 2


class TestLoads:
    def load(self, half, client):
        """A request that loads two chunks, computes the rest and is hit by vLLM's own cache."""
        computed(half, picture("first", 1.0), TABLE)
        loading = picture("loading", 1.0, tokens=428)
        external, _ = digested(half, loading)
        assert external == 256
        half.update_state_after_alloc(loading, blocks(OTHER), external)
        assert len(half.build_connector_meta(step()).loads) == 1
        return loading

    def test_loaded_blocks_belong_to_the_request(self, half, client):
        loading, table = self.load(half, client), [*OTHER, *range(31, 41)]
        half.update_state_after_alloc(loading, blocks(table), 0)
        assert len(step_of(half, loading, table, 256)) == 1
        client.stored.clear()
        assert (
            len(
                computed(
                    half,
                    picture("again", 1.0, tokens=556),
                    [*table[:12], *range(51, 61)],
                    local=384,
                    encodes=False,
                )
            )
            == 4
        )

    def test_a_load_that_failed_is_computed_in_the_same_blocks(self, half, client):
        loading, table = self.load(half, client), [*OTHER, *range(31, 41)]
        half.update_state_after_alloc(loading, blocks(table), 0)
        assert len(step_of(half, loading, table, 0, encodes=False)) == 1

    def test_a_load_that_failed_is_computed_by_other_embeddings(self, half, client):
        loading, table = self.load(half, client), [*OTHER, *range(31, 41)]
        half.update_state_after_alloc(loading, blocks(table), 0)
        assert step_of(half, loading, table, 0, freed=[NAME]) == []
        hit = [*table[:5], *range(51, 61)]
        client.stored.clear()
        assert computed(half, picture("again", 1.0), hit, local=160) == []

    def test_a_block_into_which_another_picture_is_loaded(self, half):
        """vLLM may let others hit the block before the loading request computes."""
        computed(half, picture("first", 1.0, tokens=160), TABLE)
        computed(half, picture("other", 2.0), OTHER, freed=[NAME])
        loading, again = picture("loading", 2.0), picture("again", 1.0)
        external, _ = digested(half, loading)
        half.update_state_after_alloc(loading, blocks(TABLE), external)
        half.build_connector_meta(step())
        table = [*TABLE[:5], *range(41, 51)]
        assert computed(half, again, table, local=160, freed=[NAME]) == []

    def test_kv_of_another_connector_is_not_trusted(self, half):
        assert computed(half, picture("r", 1.0), TABLE, begin=128) == []
