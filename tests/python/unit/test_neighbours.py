"""KV that another connector loads within a step is not stored: vLLM learns of a failed load only
after the step."""

from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

import fakes  # noqa: E402

from larder.vllm.neighbours import Neighbours  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402


def step(new=(), resumed=(), running=(), sync=False):
    """new, resumed, running: (id, computed tokens)."""
    cached = [*resumed, *running]
    return SimpleNamespace(
        has_sync_kv_loads=sync,
        scheduled_new_reqs=[
            SimpleNamespace(req_id=name, num_computed_tokens=computed) for name, computed in new
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[name for name, _ in cached],
            num_computed_tokens=[computed for _, computed in cached],
            resumed_req_ids={name for name, _ in resumed},
        ),
    )


def stale(steps, batches=2):
    tracked = {name: SimpleNamespace(stale=False) for name in "abcdefgh"}
    watched = Neighbours(batches)
    for one in steps:
        watched.step(one, tracked)
    return "".join(name for name, one in tracked.items() if one.stale)


def test_an_engine_without_such_loads_stores_all():
    assert stale([step(new=[("a", 512)], resumed=[("b", 128)], running=[("c", 9)])] * 3) == ""


# covers F-079
def test_requests_starting_in_a_failed_step_are_stale():
    assert (
        stale(
            [
                step(
                    new=[("a", 512), ("b", 0)],
                    resumed=[("c", 128)],
                    running=[("d", 512)],
                    sync=True,
                )
            ]
        )
        == "ac"
    )


# covers F-079
def test_requests_hitting_failed_blocks_early_are_stale():
    later = [step(new=[(name, 128)]) for name in "bcdef"]
    assert stale([step(new=[("a", 512)], sync=True), *later], batches=2) == "abc"
    assert stale([step(new=[("a", 512)], sync=True), *later], batches=1) == "ab"


def test_an_untracked_request_is_ignored():
    assert stale([step(new=[("z", 512)], sync=True)]) == ""


def test_failed_blocks_mark_no_request():
    tracked = {"a": SimpleNamespace(stale=False)}
    assert not Neighbours().failed(tracked), (
        "a load between steps: vLLM has not cached its blocks yet"
    )
    assert tracked["a"].stale


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_vllms_cache_keeps_the_blocks_of_a_load_that_failed_within_its_step(batches):
    watched = Neighbours(batches)
    watched.step(step(new=[("a", 512)], sync=True), {})
    for _ in range(batches - 1):
        watched.step(step(), {})
    assert watched.failed({})


def test_a_later_request_that_hits_such_blocks_is_not_stored():
    half = LarderConnectorScheduler(fakes.setup(), fakes.Client(), fakes.NAMED)
    half._neighbours.step(step(new=[("a", 512)], sync=True), {})
    half.update_connector_output(SimpleNamespace(**vars(fakes.ended()), invalid_block_ids={7}))
    for name, local, is_stale in (("b", 128, True), ("c", 0, False)):
        request = fakes.Request(name, range(400))
        external, _ = half.get_num_new_matched_tokens(request, local)
        half.update_state_after_alloc(request, fakes.blocks(range(1, 40)), external)
        assert half._tracked[name].stale is is_stale
    half.prefix_cache_emptied()
    request = fakes.Request("d", range(400))
    half.get_num_new_matched_tokens(request, 128)
    half.update_state_after_alloc(request, fakes.blocks(range(1, 40)), 0)
    assert not half._tracked["d"].stale
