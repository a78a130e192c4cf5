"""Pictures in prompts, against fakes: the KV that a request hits, when a request waits, and when a
request has no cache. All block hashes are equal."""

import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import LATER, NAMED, Client, blocks, chunk_keys, setup, step  # noqa: E402
from item_fakes import SECONDS, computed, digested, feature, item  # noqa: E402
from item_fakes import step_of, with_pictures  # noqa: E402
from scheduler_fakes import client, half  # noqa: E402, F401

from larder.vllm import item_digest  # noqa: E402
from larder.vllm.items import items_hidden  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402

HIT, MISS = (256, True), (0, False)


def one_picture(name, value=1.0, offset=0, **fields):
    return with_pictures(name, feature(item(value), offset), **fields)


def uncached(half):
    """Why requests have run without the cache."""
    told = half.observed()
    return told.data.get("unnamed", []) if told else []


def stored_later(half, request, table, token):
    """The keys that steps of one token each store, once the permission is known."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        keys = step_of(half, request, table, token, kind="cached")
        if keys or half._items._lives[request.request_id].unnamed:
            return keys
    raise TimeoutError("no digest")


class TestNames:
    # covers F-083
    def test_the_same_picture_is_hit_and_another_one_is_not(self, half):
        assert len(computed(half, one_picture("first"), range(1, 11))) == 2
        assert digested(half, one_picture("again")) == HIT
        assert digested(half, one_picture("other", 2.0)) == MISS
        assert uncached(half) == []

    def test_another_engine_hits_the_same_picture(self, half, client):
        computed(half, one_picture("first"), range(1, 11))
        other = LarderConnectorScheduler(setup(), client, NAMED)
        assert digested(other, one_picture("again")) == HIT
        assert digested(other, one_picture("other", 2.0)) == MISS

    def test_text_before_the_first_picture_is_shared_with_text(self, half):
        request = one_picture("picture", offset=128)
        keys = computed(half, request, range(1, 11))
        assert keys[0] == chunk_keys(request)[0] and keys[1] != chunk_keys(request)[1]
        assert digested(half, with_pictures("text")) == (128, True)

    def test_a_picture_that_begins_with_a_chunks_last_token_is_in_its_key(self, half):
        request = one_picture("picture", offset=127)
        assert computed(half, request, range(1, 11))[0] != chunk_keys(request)[0]

    @pytest.mark.parametrize(
        "changes",
        [{"offset": 1}, {"length": 17}, {"modality": "video"}, {"is_embed": [True] * 15 + [False]}],
        ids=lambda changes: next(iter(changes)),
    )
    def test_the_key_covers_the_positions_of_embeddings(self, half, changes):
        import torch

        computed(half, one_picture("first"), range(1, 11))
        if "is_embed" in changes:
            changes = {"is_embed": torch.tensor(changes["is_embed"])}
        assert digested(half, with_pictures("other", feature(item(1.0), **changes))) == MISS

    def test_all_pictures_before_a_chunks_end_are_in_its_key_and_later_ones_are_not(self, half):
        def three(name, *values):
            return with_pictures(
                name,
                *(
                    feature(item(value), offset, identifier=str(value))
                    for value, offset in zip(values, (0, 20, 200))
                ),
            )

        computed(half, three("first", 1.0, 2.0, 3.0), range(1, 11))
        assert digested(half, three("same", 1.0, 2.0, 3.0)) == HIT
        assert digested(half, three("last", 1.0, 2.0, 4.0)) == (128, True)
        assert digested(half, three("begin", 4.0, 2.0, 3.0)) == MISS
        assert (
            digested(half, three("middle", 1.0, 4.0, 3.0))
            == digested(half, three("turned", 2.0, 1.0, 3.0))
            == MISS
        )

    def test_the_load_uses_the_keys_of_the_lookup(self, half, client):
        keys = computed(half, one_picture("first"), range(1, 11))
        again = one_picture("again")
        external, _ = digested(half, again)
        half.update_state_after_alloc(again, blocks(range(21, 31)), external)
        (load,) = half.build_connector_meta(step()).loads
        assert load.parts[0].hashes == b"".join(keys) and client.holds != {}
        assert client.reported[-1][1] == keys


class TestWaiting:
    @pytest.fixture
    def goes_on(self, monkeypatch):
        """Digests are made when this is set."""
        event, real = threading.Event(), item_digest._digest_of
        monkeypatch.setattr(
            item_digest, "_digest_of", lambda one: event.wait(SECONDS) and real(one)
        )
        yield event
        event.set()

    # covers F-086
    def test_vllm_is_told_to_ask_again(self, half, goes_on):
        request = one_picture("r")
        assert (
            half.get_num_new_matched_tokens(request, 0)
            == half.get_num_new_matched_tokens(request, 0)
            == LATER
        )
        assert half.get_num_new_matched_tokens(with_pictures("text"), 0) == MISS, (
            "others do not wait"
        )
        goes_on.set()
        assert digested(half, request) == MISS and uncached(half) == []

    def test_a_step_that_computes_nothing_leaves_the_processor_to_the_thread(self, half, goes_on):
        half.get_num_new_matched_tokens(one_picture("r"), 0)
        begin = time.monotonic()
        half.build_connector_meta(step())
        assert time.monotonic() - begin >= 0.001

    # covers F-086
    def test_until_a_deadline(self, half, goes_on, caplog):
        half._items._clock = lambda: 100.0
        requests = [one_picture("r"), one_picture("q")]
        assert {half.get_num_new_matched_tokens(request, 0) for request in requests} == {LATER}
        half._items._clock = lambda: 100.26
        assert {half.get_num_new_matched_tokens(request, 0) for request in requests} == {MISS}
        goes_on.set()
        assert [computed(half, request, range(1, 11)) for request in requests] == [[], []]
        assert uncached(half) == ["late", "late"]
        assert caplog.text.count("run without the cache") == 1

    def test_a_request_that_opts_out_does_not_wait_and_is_not_counted(self, half, goes_on):
        request = one_picture("r", kv_transfer_params={"larder": "off"})
        assert half.get_num_new_matched_tokens(request, 0) == MISS
        assert computed(half, request, range(1, 11)) == [] and uncached(half) == []

    def test_an_engine_that_never_loads_stores_when_the_digest_is_there(self, client, goes_on):
        half, request = (
            LarderConnectorScheduler(setup(loads=False), client, NAMED),
            one_picture("r", tokens=290),
        )
        assert computed(half, request, range(1, 11)) == []
        goes_on.set()
        assert len(stored_later(half, request, range(1, 11), 289)) == 2

    @pytest.mark.parametrize(("value", "stored"), [(1.0, 2), (2.0, 0)])
    def test_embeddings_with_a_pending_digest_are_not_stored(self, half, goes_on, value, stored):
        """A request without the cache, which does not wait for its digest, has encoded the
        items."""
        goes_on.set()
        one = item(1.0)
        digested(half, with_pictures("first", feature(one)))
        goes_on.clear()
        encodes = one_picture("encodes", value, kv_transfer_params={"larder": "off"})
        computed(half, encodes, range(1, 11))
        request = with_pictures("r", feature(one), tokens=290)
        assert computed(half, request, range(11, 21), encodes=False) == []
        goes_on.set()
        assert len(stored_later(half, request, range(11, 21), 289)) == stored

    def test_a_request_ended_during_the_wait_leaves_no_entry(self, half, goes_on):
        request = one_picture("r")
        half.get_num_new_matched_tokens(request, 0)
        half.request_finished(request)
        assert not half._items._lives and not half._items._waiting


class TestUnnamed:
    @pytest.mark.parametrize(
        ("data", "reason"), [(None, "hidden"), (item(1234), "hidden"), (item([item(1.0)]), "form")]
    )
    # covers F-085
    def test_a_picture_that_cannot_be_digested(self, half, caplog, data, reason):
        if reason == "form":
            import torch

            data = item([torch.zeros(1), object()])
        request = with_pictures("r", feature(item(1.0)), feature(data, 100))
        half.client.stored.update(chunk_keys(request))
        assert digested(half, request) == MISS
        assert computed(half, request, range(1, 11)) == []
        assert uncached(half) == [reason] and caplog.text.count("run without the cache") == 1

    # covers F-085
    def test_settings_that_hide_pictures(self, client):
        half = LarderConnectorScheduler(setup(items_hidden="by a setting"), client, NAMED)
        request = one_picture("r")
        assert digested(half, request) == MISS and computed(half, request, range(1, 11)) == []
        assert uncached(half) == ["hidden"]
        assert len(computed(half, with_pictures("text"), range(1, 11))) == 2, "text is served"

    def test_an_engine_that_never_loads_counts_unnamed_requests(self, client):
        half = LarderConnectorScheduler(
            setup(loads=False, items_hidden="by a setting"), client, NAMED
        )
        computed(half, one_picture("r"), range(1, 11))
        assert uncached(half) == ["hidden"]

    def test_settings_that_hide_pictures_are_known(self):
        def config(ec=False, manager=None, mrope=True, **multimodal):
            multimodal = {
                "mm_processor_cache_type": "lru",
                "mm_processor_cache_gb": 4,
                **multimodal,
            }
            return SimpleNamespace(
                model_config=SimpleNamespace(
                    multimodal_config=SimpleNamespace(**multimodal), uses_mrope=mrope
                ),
                ec_transfer_config=SimpleNamespace(is_ec_consumer=ec),
                ec_manager_config=SimpleNamespace(encoder_cache_manager_cls=manager),
            )

        assert (
            items_hidden(config())
            == items_hidden(config(mm_processor_cache_type="shm", mm_processor_cache_gb=0))
            == ""
        )
        assert (
            items_hidden(SimpleNamespace(model_config=SimpleNamespace(multimodal_config=None)))
            == ""
        )
        assert "shm" in items_hidden(config(mm_processor_cache_type="shm"))
        scaled = {"mm_encoder_attn_dtype": "fp8"}
        assert "--mm-encoder-fp8-scale-path" in items_hidden(config(**scaled))
        assert items_hidden(config(**scaled, mm_encoder_fp8_scale_path="/scales.json")) == ""
        assert "ec-transfer" in items_hidden(config(ec=True)) and "manager" in items_hidden(
            config(manager="a.b")
        )
        assert "--video-pruning-rate" in items_hidden(config(video_pruning_rate=0.5))
        assert items_hidden(config(video_pruning_rate=0.5, mrope=False)) == ""
        assert items_hidden(config(video_pruning_rate=0.0)) == ""

    # covers F-087
    def test_prompts_that_mix_tokens_and_embeddings(self, half):
        plain = with_pictures("plain", prompt_embeds=object(), prompt_is_token_ids=None)
        assert len(computed(half, plain, range(1, 11))) == 2
        mixed = with_pictures(
            "mixed", prompt_embeds=object(), prompt_is_token_ids=[True, False] * 150
        )
        assert digested(half, mixed) == MISS and computed(half, mixed, range(1, 11)) == []
        after = with_pictures("after", prompt_embeds=object(), prompt_is_token_ids=None)
        assert digested(half, after) == MISS, (
            "vLLM's prefix cache may have the mixed one's KV under the same hash"
        )
        assert digested(half, with_pictures("text")) == HIT
        assert uncached(half) == ["mixed", "mixed"]


class TestSessions:
    """vLLM adds pictures to a request that waits for input (_update_request_as_session)."""

    def test_a_picture_that_comes_later(self, half, client):
        request = with_pictures("r", tokens=140, num_computed_tokens=0)
        first = computed(half, request, range(1, 11))
        assert first == chunk_keys(request)
        request.tokens += range(140, 300)
        request.num_computed_tokens = 140
        request.mm_features.append(feature(item(1.0), 140))
        half.update_state_after_alloc(request, blocks(range(1, 11)), 0)
        deadline, stored = (
            time.monotonic() + SECONDS,
            step_of(half, request, range(1, 11), 140, encodes=True),
        )
        while not stored and time.monotonic() < deadline:
            stored = step_of(half, request, range(1, 11), 299, kind="cached")
        assert len(stored) == 1 and stored != chunk_keys(request)[1:2]
        assert digested(half, with_pictures("again", feature(item(1.0), 140))) == HIT

    def test_one_more_picture(self, half):
        request = one_picture("r", tokens=140, num_computed_tokens=0)
        assert len(computed(half, request, range(1, 11))) == 1
        request.tokens += range(140, 300)
        request.num_computed_tokens = 140
        request.mm_features.append(feature(item(2.0), 140, identifier="second"))
        half.update_state_after_alloc(request, blocks(range(1, 11)), 0)
        deadline, stored = (
            time.monotonic() + SECONDS,
            step_of(half, request, range(1, 11), 140, encodes=[1]),
        )
        while not stored and time.monotonic() < deadline:
            stored = step_of(half, request, range(1, 11), 299, kind="cached")
        both = with_pictures("both", feature(item(1.0)), feature(item(2.0), 140))
        assert len(stored) == 1 and digested(half, both) == HIT


def test_a_client_alone_has_no_pictures():
    """An engine that is off follows no item."""
    half = LarderConnectorScheduler(None, None)
    half.turn_off("a test")
    assert half.get_num_new_matched_tokens(one_picture("r"), 0) == MISS
    assert Client().stored == set()
