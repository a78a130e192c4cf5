"""The scheduler's half against fakes: the hits, the place of each load, and no exception leaves the
half."""

import pickle
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import NAMED, Request, blocks, ended, pages, setup, split, step  # noqa: E402
from scheduler_fakes import NO, chunk_keys, client, half, no_wait, run_prefill, store_all  # noqa: E402, F401

from larder import _native as native  # noqa: E402
from larder.vllm.messages import COMPUTES, RESTS, Move, StepWork, WorkerReport  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402


class TestHits:
    def test_an_empty_cache_has_no_hit(self, half):
        assert half.get_num_new_matched_tokens(Request("r", range(500)), 0) == (0, False)

    @pytest.mark.parametrize(
        ("tokens", "hit"), [(127, 0), (128, 128), (129, 128), (255, 128), (256, 256), (500, 384)]
    )
    def test_whole_chunks_hit_and_may_cover_the_whole_prompt(self, half, client, tokens, hit):
        store_all(client, Request("s", range(512)))
        assert half.get_num_new_matched_tokens(Request("r", range(tokens)), 0) == (hit, hit > 0)

    @pytest.mark.parametrize(
        ("local", "external"), [(0, 384), (32, 352), (128, 256), (352, 32), (384, 0), (480, 0)]
    )
    def test_blocks_of_the_engine_are_not_counted(self, half, client, local, external):
        request = Request("r", range(500))
        store_all(client, request)
        assert half.get_num_new_matched_tokens(request, local) == (external, external > 0)

    def test_asking_again_changes_nothing(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        assert len({half.get_num_new_matched_tokens(request, 0) for _ in range(555)}) == 1
        assert client.calls == []

    def test_a_hole_ends_the_hit(self, half, client):
        request = Request("r", range(512))
        store_all(client, request)
        client.stored.discard(chunk_keys(request)[1])
        assert half.get_num_new_matched_tokens(request, 0) == (128, True)

    @pytest.mark.parametrize(
        "fields",
        [
            {"kv_transfer_params": {"larder": "off"}},
            {"skip_reading_prefix_cache": True},
        ],
    )
    # covers F-082
    def test_excluded_requests_do_not_hit(self, half, client, fields):
        request = Request("r", range(300), **fields)
        store_all(client, request)
        assert half.get_num_new_matched_tokens(request, 0) == (0, False)

    def test_opted_out_requests_store_nothing_either(self, half):
        assert (
            run_prefill(
                half,
                Request("r", range(300), kv_transfer_params={"larder": "off"}),
                range(1, 11),
                300,
            )
            == []
        )

    def test_short_prompts_are_left_alone(self, client):
        half = LarderConnectorScheduler(setup(min_tokens=300), client, NAMED)
        store_all(client, Request("s", range(512)))
        assert half.get_num_new_matched_tokens(Request("r", range(299)), 0) == (0, False)
        assert half.get_num_new_matched_tokens(Request("q", range(300)), 0) == (256, True)


class TestLoads:
    def load(self, half, request, local, table):
        external, _ = half.get_num_new_matched_tokens(request, local)
        half.update_state_after_alloc(request, blocks(table), external)
        work = half.build_connector_meta(step())
        (move,) = work.loads
        (part,) = move.parts
        return part

    def test_pages_follow_the_block_table(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        load = self.load(half, request, 0, range(70, 80))
        assert pages(load.pages) == list(range(70, 78))
        assert split(load.hashes, 32) == chunk_keys(request)

    def test_local_blocks_inside_the_first_chunk_are_not_written(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        load = self.load(half, request, 64, range(70, 80))
        assert pages(load.pages) == [NO, NO, 72, 73, 74, 75, 76, 77]
        half.update_connector_output(ended(["r"]))
        load = self.load(half, Request("q", range(300)), 160, range(70, 80))
        assert pages(load.pages) == [NO, 75, 76, 77]
        assert split(load.hashes, 32) == chunk_keys(request)[1:]

    @pytest.mark.parametrize("failed", [False, True])
    def test_holds_go_when_the_load_ended(self, half, client, failed):
        request = Request("r", range(300))
        store_all(client, request)
        self.load(half, request, 0, range(1, 11))
        assert len(client.holds) == 1
        half.update_connector_output(ended(["r"], ["r"] if failed else []))
        assert client.holds == {}

    def test_holds_go_with_the_request(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        self.load(half, request, 0, range(1, 11))
        half.request_finished(request)
        assert client.holds == {}
        half.update_connector_output(ended(["r"], ["r"]))
        assert half.get_num_new_matched_tokens(request, 0) == (256, True), (
            "a load that fails after an abort is not remembered for ever"
        )

    def test_failed_pages_are_the_pages_of_the_load(self, client):
        """For a vLLM that hears of failures by page. Others may share the blocks of vLLM's own
        hit."""
        half = LarderConnectorScheduler(setup(fails_by_page=True), client, NAMED)
        request = Request("r", range(300))
        store_all(client, request)
        external, _ = half.get_num_new_matched_tokens(request, 64)
        half.update_state_after_alloc(request, blocks(range(70, 80)), external)
        half.update_connector_output(ended(["r"]))
        client.fail = "hold"
        external, _ = half.get_num_new_matched_tokens(Request("q", range(300)), 160)
        half.update_state_after_alloc(Request("q", range(300)), blocks(range(80, 90)), external)
        loads = half.build_connector_meta(step()).loads
        assert [one.pages for one in loads] == [tuple(range(72, 78)), (85, 86, 87)]
        assert [bool(one.parts) for one in loads] == [True, False]

    def test_a_vllm_that_is_told_by_page_leaves_it_to_the_worker_which_requests_failed(
        self, half, client
    ):
        request = Request("r", range(300))
        store_all(client, request)
        self.load(half, request, 0, range(1, 11))
        of_old = SimpleNamespace(
            finished_recving={"r"}, kv_connector_worker_meta=WorkerReport(failed=frozenset("r"))
        )
        half.update_connector_output(of_old)
        assert client.holds == {}
        assert half.get_num_new_matched_tokens(request, 0) == (0, False), (
            "the chunk is still there, and was looked up"
        )

    # covers F-044
    def test_a_request_that_failed_once_is_never_looked_up_again_and_stores_anew(
        self, half, client
    ):
        request = Request("r", range(300))
        store_all(client, request)
        self.load(half, request, 0, range(1, 11))
        half.update_connector_output(ended(["r"], ["r"]))
        assert half.get_num_new_matched_tokens(request, 0) == (0, False), (
            "the chunk is still there, and was looked up"
        )
        client.stored.discard(chunk_keys(request)[0])  # BAD
        stored = run_prefill(half, request, range(20, 30), 300)
        assert [key for key, _ in stored] == chunk_keys(request)
        half.request_finished(request)
        store_all(client, request)
        assert half.get_num_new_matched_tokens(Request("r", range(300)), 0) == (256, True)

    def test_hits_are_reported(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        self.load(half, request, 64, range(1, 11))
        assert ("request", 300 - 64, 256 - 64) in client.calls
        assert client.reported == [(native.DECIDED_LOAD, chunk_keys(request), 0)], (
            "also the partly hit block"
        )
        # vLLM's second call, after the load
        half.update_state_after_alloc(request, blocks(range(1, 11)), 0)
        assert [c for c in client.calls if c[0] == "request"] == [("request", 236, 192)]

    def test_misses_are_reported(self, half, client):
        request = Request("r", range(300))
        assert half.get_num_new_matched_tokens(request, 0) == (0, False)
        half.update_state_after_alloc(request, blocks(range(1, 11)), 0)
        assert client.reported == [(native.DECIDED_ABSENT, chunk_keys(request), 0)]

    def test_a_prompt_shorter_than_a_chunk_is_reported_without_hashes(self, half, client):
        request = Request("r", range(40))
        half.get_num_new_matched_tokens(request, 0)
        half.update_state_after_alloc(request, blocks(range(1, 3)), 0)
        assert client.reported == [(native.DECIDED_ABSENT, [], 0)]

    @pytest.mark.parametrize(("salt", "told"), [(None, False), ("", False), ("mine", True)])
    def test_a_salt_is_reported_without_its_value(self, half, client, salt, told):
        request = Request("r", range(300), cache_salt=salt)
        half.get_num_new_matched_tokens(request, 0)
        half.update_state_after_alloc(request, blocks(range(1, 11)), 0)
        assert client.salted == [told]


class TestQuietSteps:
    """Nearly every step of a running engine has this form: the step must cost next to no time."""

    def test_running_requests_are_not_looked_at_before_their_next_chunk_can_be_full(
        self, half, client
    ):
        request = Request("r", range(200))
        table = list(range(1, 21))
        run_prefill(half, request, table, 200)
        # sees that the first chunk is stored
        half.build_connector_meta(step(cached=[("r", 200, 1)], tables={"r": table}))
        client.fail = "lookup"
        half._tracked["r"].request = None  # any look at this raises
        for computed in range(201, 255):
            assert half.build_connector_meta(step(cached=[("r", computed, 1)])) is COMPUTES
        half._tracked["r"].request = request
        request.tokens += range(7000, 7056)
        client.fail = None
        (move,) = half.build_connector_meta(
            step(cached=[("r", 255, 1)], tables={"r": table})
        ).stores
        assert split(move.parts[0].hashes, 32) == chunk_keys(request)[1:2]

    def test_a_step_without_work_is_one_of_two_shared_objects(self, half):
        half.begin()
        assert half.build_connector_meta(step()).namespace == NAMED.poll()  # the first
        assert half.build_connector_meta(step()) is RESTS
        assert half.build_connector_meta(step(cached=[("unknown", 300, 1)])) is COMPUTES

    @pytest.mark.parametrize("work", [COMPUTES, RESTS])
    def test_shared_steps_stay_the_same_objects_when_pickled(self, work):
        data = pickle.dumps(work, pickle.HIGHEST_PROTOCOL)
        assert pickle.loads(data) is work and len(data) < 60

    def test_other_work_arrives_as_it_was_sent(self):
        work = StepWork("space", [Move("a")], [Move("b")], 96, True)
        assert pickle.loads(pickle.dumps(work, pickle.HIGHEST_PROTOCOL)) == work


class TestNoExceptionLeaves:
    def test_lookup(self, half, client):
        client.fail = "lookup"
        assert half.get_num_new_matched_tokens(Request("r", range(300)), 0) == (0, False)
        assert "made to fail" in half.off

    def test_hold_leaves_a_load_that_the_worker_reports(self, half, client):
        request = Request("r", range(300))
        store_all(client, request)
        external, _ = half.get_num_new_matched_tokens(request, 0)
        client.fail = "hold"
        half.update_state_after_alloc(request, blocks(range(1, 11)), external)
        (load,) = half.build_connector_meta(step()).loads
        assert (load.request_id, load.parts) == ("r", [])

    def test_a_worker_that_is_off_turns_the_scheduler_off(self, half, client):
        from larder.vllm.messages import WorkerReport

        store_all(client, Request("s", range(512)))
        half.update_connector_output(ended(meta=WorkerReport("no pages")))
        assert half.get_num_new_matched_tokens(Request("r", range(300)), 0) == (0, False)

    def test_without_a_client_every_hook_answers(self):
        half = LarderConnectorScheduler(None, None)
        half.turn_off("refused")
        request = Request("r", range(300))
        assert half.get_num_new_matched_tokens(request, 0) == (0, False)
        half.update_state_after_alloc(request, blocks(range(1, 11)), 0)
        assert half.build_connector_meta(step(new=[("r", 0, 300)])).stores == []
        half.update_connector_output(ended())
        half.request_finished(request)
        assert half.reset_cache() is True


class TestRoles:
    """Prefill and decode apart: vLLM's kv_role says who stores and who loads."""

    def test_a_consumer_stores_nothing(self, client):
        half = LarderConnectorScheduler(setup(stores=False), client, NAMED)
        request = Request("r", range(500))
        assert run_prefill(half, request, list(range(1, 17)), 500) == []
        store_all(client, request)
        assert half.get_num_new_matched_tokens(Request("s", range(500)), 0) == (384, True)

    def test_a_producer_loads_nothing_and_makes_no_lookup(self, client):
        half = LarderConnectorScheduler(setup(loads=False), client, NAMED)
        request = Request("r", range(500))
        assert len(run_prefill(half, request, list(range(1, 17)), 500)) == 3
        assert half.get_num_new_matched_tokens(Request("s", range(500)), 0) == (0, False)
        assert client.fetches == client.probes == {} and client.holds == {}
