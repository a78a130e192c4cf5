"""Under vLLM's real scheduler no KV of another connector, and no KV computed behind such KV, is
stored under this engine's name."""

import random

import pytest

pytest.importorskip("vllm")

from fakes import NAMED, Request, blocks, group, setup, split, step  # noqa: E402
from foreign_world import BLOCK, Foreigner, ForeignWorker  # noqa: E402
from late_world import World, cache_of, full, window  # noqa: E402
from scheduler_fakes import client, run_prefill  # noqa: E402, F401
from test_late_stores import LATE, REQUESTS, config_of, model, no_library  # noqa: E402, F401
from vllm.config import KVTransferConfig  # noqa: E402
from vllm.utils.hashing import get_hash_fn_by_name  # noqa: E402

from larder.vllm import foreign_kv  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402


def run(
    model,
    monkeypatch,
    specs,
    blocks,
    depth,
    between,
    seeds=2,
    change=lambda half: None,
    options=None,
    **worker,
):
    """Counts over all seeds. between: the number of the neighbour's loads between steps."""
    config = config_of(model, blocks, depth, monkeypatch)
    own = config.kv_transfer_config
    larder = {
        "kv_connector": "LarderConnector",
        "kv_connector_module_path": "larder.vllm",
        "kv_role": "kv_both",
        # fmt: skip
        "kv_connector_extra_config": {**own.kv_connector_extra_config, **(options or {})},
    }
    neighbour = {
        "kv_connector": "Foreigner",
        "kv_connector_module_path": "foreign_world",
        "kv_role": "kv_both",
    }
    config.kv_transfer_config = KVTransferConfig(
        kv_connector="MultiConnector", kv_role="kv_both",
        kv_load_failure_policy="recompute", engine_id=own.engine_id,
        kv_connector_extra_config={"connectors": [neighbour, larder]},
    )  # fmt: skip
    total = None
    for seed in range(seeds):
        rng = random.Random(seed)

        def offers(request, local):
            """Of a third of the requests all, or all but the last token, or some blocks."""
            choice = random.Random(f"{seed} {request.request_id}")
            if choice.random() > 0.33:
                return 0, False
            within = choice.random() >= between
            whole = request.num_tokens // BLOCK * BLOCK - (BLOCK if within else 0)
            tokens = choice.choice([whole, whole - 2 * BLOCK, request.num_tokens - 1])
            return max(tokens - local, 0), not within

        monkeypatch.setattr(Foreigner, "offers", staticmethod(offers))
        hash_function = get_hash_fn_by_name(config.cache_config.prefix_caching_hash_algo)
        world = World(
            config,
            cache_of(specs, blocks),
            hash_function,
            rng,
            depth,
            LATE,
            kind=ForeignWorker,
            **worker,
        )
        change(world.half)
        counts = world.run(REQUESTS)
        assert world.left_over() == (0, 0, False, False)
        total = counts if total is None else total + counts
    return total


SOME = ("stores", "loads", "brought", "hit")


@pytest.mark.parametrize("depth", [1, 2], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize(
    "between", [1.0, 0.0, 0.5], ids=["between steps", "within the step", "both"]
)
def test_nothing_that_another_connector_brought_is_stored(model, monkeypatch, depth, between):
    counts = run(model, monkeypatch, [full()], 60, depth, between)
    assert counts["foreign"] == 0 and counts["bad"] == 0, counts
    assert min(counts[name] for name in SOME) > 2, counts


def test_windows(model, monkeypatch):
    counts = run(model, monkeypatch, [full(), window(64)], 120, 2, 0.7)
    assert counts["foreign"] == 0 and min(counts[name] for name in SOME) > 2, counts


def test_loads_between_steps_that_fail(model, monkeypatch):
    counts = run(model, monkeypatch, [full()], 120, 2, 1.0, fails=0.5)
    assert (
        counts["foreign"] == 0
        and min(counts[name] for name in ("stores", "brought", "hit", "failed")) > 2
    ), counts


def test_own_kv_is_stored_as_before(model, monkeypatch):
    """In a pool of many blocks, where vLLM has no reason to give foreign blocks to others."""
    counts = run(model, monkeypatch, [full()], 600, 2, 1.0)
    assert counts["false"] == 0 and counts["hit"] > 0, counts


CONTROLS = {
    "the option trusts the neighbour": dict(options={"trust_other_connectors": True}),
    "a hit of foreign blocks is not seen": dict(
        change=lambda half: setattr(half._origins._foreign, "_hit", lambda tables, local: None)
    ),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_without_one_part_foreign_kv_is_stored(model, monkeypatch, name):
    counts = run(model, monkeypatch, [full()], 120, 2, 1.0, seeds=4, **CONTROLS[name])
    assert counts["foreign"] > 0, counts


TABLE = list(range(1, 11))  # of a request of 300 tokens, in blocks of 32 and chunks of 128


@pytest.fixture
def half(client):
    return LarderConnectorScheduler(setup(), client, NAMED)


def admit(half, request, table, local=0):
    """vLLM asks both connectors, and gives blocks."""
    half.get_num_new_matched_tokens(request, local)
    half.update_state_after_alloc(request, blocks(table), 0)


def told(output, within=False):
    output.has_sync_kv_loads = within
    return output


def stored(half, output, within=False):
    """(request id, chunks) of the stores of a step."""
    stores = half.build_connector_meta(told(output, within)).stores
    for move in stores:
        half.client.stored.update(split(move.parts[0].hashes, 32))
    return [(move.request_id, len(move.parts[0].hashes) // 32) for move in stores]


def begin(half, name, first, table, tokens=300, **how):
    return stored(half, step(new=[(name, first, tokens - first)], tables={name: table}), **how)


def brought(half, name, table, tokens=300, until=288):
    """A request of which another connector has loaded the tokens before `until`, between steps."""
    request = Request(name, range(tokens))
    admit(half, request, table)
    assert stored(half, step()) == []
    half.update_state_after_alloc(request, blocks(table), 0)
    return begin(half, name, until, table, tokens)


class TestRequests:
    # covers F-256
    def test_kv_brought_between_steps_is_not_stored(self, half):
        assert brought(half, "r", TABLE) == []

    # covers F-256
    def test_kv_brought_within_the_step_is_not_stored(self, half):
        admit(half, Request("r", range(300)), TABLE)
        assert begin(half, "r", 160, TABLE, within=True) == []

    def test_kv_computed_behind_foreign_kv_is_not_stored(self, half):
        request = Request("r", range(600))
        admit(half, request, TABLE)
        stored(half, step())
        assert begin(half, "r", 160, TABLE, 300) == []
        later = step(
            cached=[("r", 300, 300)], tables={"r": list(range(1, 20))}, added={"r": ([11, 12],)}
        )
        assert stored(half, later) == [] and half._tracked["r"].due_tokens == float("inf")

    def test_chunks_before_foreign_kv_are_stored(self, half):
        """vLLM's own hit comes first. Chunks of the hit that larderd lacks are stored."""
        admit(half, Request("r", range(300)), TABLE, local=160)
        stored(half, step())
        assert begin(half, "r", 288, TABLE) == [("r", 1)]

    def test_a_load_that_failed_is_computed_and_stored(self, half):
        admit(half, Request("r", range(300)), TABLE)
        stored(half, step())
        assert begin(half, "r", 0, TABLE) == [("r", 2)]
        assert half._origins._foreign._blocks == set()

    def test_a_request_that_is_preempted_and_computed(self, half):
        brought(half, "r", TABLE)
        request = Request("r", range(300))
        admit(half, request, list(range(21, 31)))
        assert begin(half, "r", 0, list(range(21, 31))) == [("r", 2)]

    def test_kv_brought_again_after_a_preemption_is_not_stored(self, half):
        admit(half, Request("r", range(300)), TABLE)
        begin(half, "r", 0, TABLE, 120)
        admit(half, Request("r", range(300)), TABLE)
        stored(half, step())
        resumed = step(
            cached=[("r", 288, 12)], tables={"r": TABLE}, added={"r": (TABLE,)}, resumed=["r"]
        )
        assert stored(half, resumed) == []

    def test_kv_loaded_by_larder_is_not_foreign(self, half, client):
        request = Request("r", range(300))
        client.stored.update(request.block_hashes[3::4][:1])
        external, _ = half.get_num_new_matched_tokens(request, 0)
        assert external == 128
        half.update_state_after_alloc(request, blocks(TABLE), external)
        stored(half, step())
        half.update_state_after_alloc(request, blocks(TABLE), 0)
        assert begin(half, "r", 128, TABLE) == [("r", 1)]

    def test_a_hit_that_is_longer_than_vllm_told(self, half):
        """By a part of a block."""
        admit(half, Request("r", range(300)), TABLE, local=128)
        assert begin(half, "r", 140, TABLE) == [("r", 2)]

    def test_a_streaming_session_that_goes_on(self, half):
        request = Request("r", range(140))
        admit(half, request, TABLE)
        assert begin(half, "r", 0, TABLE, 140) == [("r", 1)]
        request.tokens += range(140, 300)
        half.update_state_after_alloc(request, blocks(TABLE), 0)
        assert begin(half, "r", 140, TABLE) == [("r", 1)]

    def test_the_option(self, client):
        half = LarderConnectorScheduler(setup(trusts_other_connectors=True), client, NAMED)
        assert brought(half, "r", TABLE) == [("r", 2)]

    def test_foreign_kv_is_logged_once(self, half, monkeypatch):
        lines = []
        monkeypatch.setattr(
            foreign_kv.logger, "warning", lambda text, *args: lines.append(text % args)
        )
        brought(half, "r", TABLE)
        brought(half, "q", list(range(21, 31)))
        (line,) = lines
        assert "request r, from token 0 on" in line and '"trust_other_connectors": true' in line


class TestBlocks:
    """Foreign blocks in vLLM's own prefix cache."""

    # covers F-256
    def test_foreign_blocks_hit_by_another_request_are_not_stored(self, half):
        brought(half, "r", TABLE)
        half.request_finished(Request("r", range(300)))
        other = [*TABLE[:5], *range(21, 26)]
        admit(half, Request("q", range(300)), other, local=160)
        assert begin(half, "q", 160, other) == []

    def test_foreign_blocks_hit_in_the_step_of_their_load_are_not_stored(self, half):
        """The blocks of a load within the step are in vLLM's cache at once."""
        other = [*TABLE[:5], *range(21, 26)]
        admit(half, Request("r", range(300)), TABLE)
        admit(half, Request("q", range(300)), other, local=160)
        both = step(new=[("r", 160, 140), ("q", 160, 140)], tables={"r": TABLE, "q": other})
        assert stored(half, both, within=True) == []

    def test_blocks_computed_behind_foreign_ones_are_not_stored(self, half):
        """The first block is another one of the same tokens, which this engine computed."""
        brought(half, "r", TABLE, until=32)
        other = [41, *TABLE[1:8], *range(21, 26)]
        admit(half, Request("q", range(400)), other, local=256)
        assert begin(half, "q", 256, other, 400) == []

    def test_blocks_of_a_later_step_behind_foreign_ones_are_not_stored(self, half):
        admit(half, Request("r", range(600)), TABLE[:5])
        stored(half, step())
        begin(half, "r", 32, TABLE[:5], 160)
        stored(half, step(cached=[("r", 160, 160)], tables={"r": TABLE}, added={"r": (TABLE[5:],)}))
        other = [*range(41, 46), *TABLE[5:8], *range(21, 26)]
        admit(half, Request("q", range(400)), other, local=256)
        assert begin(half, "q", 256, other, 400) == [("q", 1)], (
            "the first chunk has blocks of this engine"
        )

    def test_such_a_request_makes_foreign_blocks_itself(self, half):
        brought(half, "r", TABLE)
        other = [*TABLE[:5], *range(21, 26)]
        admit(half, Request("q", range(300)), other, local=160)
        begin(half, "q", 160, other)
        third = [*range(41, 46), 21, 22, 23, *range(46, 50)]
        admit(half, Request("p", range(300)), third, local=256)
        assert begin(half, "p", 256, third) == [("p", 1)]

    def test_a_block_that_another_request_computes_is_foreign_no_more(self, half):
        brought(half, "r", TABLE)
        half.request_finished(Request("r", range(300)))
        admit(half, Request("q", range(1000, 1300)), TABLE[::-1])
        assert begin(half, "q", 0, TABLE[::-1]) == [("q", 2)]
        assert half._origins._foreign._blocks == set()

    def test_a_block_that_a_running_request_is_given(self, half):
        admit(half, Request("q", range(1000, 1600)), range(21, 31))
        begin(half, "q", 0, list(range(21, 31)), 300)
        brought(half, "r", TABLE)
        half.request_finished(Request("r", range(300)))
        stored(
            half,
            step(cached=[("q", 300, 20)], tables={"q": [*range(21, 31), 1]}, added={"q": ([1],)}),
        )
        assert half._origins._foreign._blocks == set(TABLE[1:])

    def test_null_blocks_behind_a_window_are_ignored(self, client):
        half = LarderConnectorScheduler(setup(groups=(group(), group(1, window=64))), client, NAMED)
        tables = (TABLE, [0, 0, 0, 0, 0, 0, 37, 38, 39, 40])
        request = Request("r", range(300))
        half.get_num_new_matched_tokens(request, 0)
        half.update_state_after_alloc(request, blocks(*tables), 0)
        stored(half, step())
        assert half._origins._foreign._blocks == {*TABLE, *range(37, 41)}

    def test_a_vllm_that_does_not_tell_the_blocks(self, half):
        """No hit is believed any more."""
        admit(half, Request("r", range(300)), [])
        stored(half, step())
        begin(half, "r", 288, TABLE)
        other = list(range(21, 31))
        admit(half, Request("q", range(300)), other, local=160)
        assert begin(half, "q", 160, other) == []
        admit(half, Request("p", range(1000, 1300)), other)
        assert begin(half, "p", 0, other) == [("p", 2)]

    def test_requests_that_ended_leave_nothing(self, half):
        for i in range(50):
            brought(half, f"r{i}", TABLE)
            half.request_finished(Request(f"r{i}", range(300)))
        assert half._origins._foreign._first == {} == half._origins._foreign._admitted and len(
            half._origins._foreign._blocks
        ) <= len(TABLE)

    def test_an_engine_without_such_kv_notes_nothing(self, half):
        run_prefill(half, Request("r", range(300)), TABLE, 300)
        assert half._origins._foreign._first == {} and half._origins._foreign._blocks == set()
