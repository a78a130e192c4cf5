"""KV that another connector loads within a step is not stored: vLLM learns after the step that it is none."""

from types import SimpleNamespace

from larder.vllm.neighbours import Neighbours


def step(new=(), resumed=(), running=(), sync=False):
    """new, resumed, running: (id, computed tokens)."""
    cached = [*resumed, *running]
    return SimpleNamespace(
        has_sync_kv_loads=sync,
        scheduled_new_reqs=[SimpleNamespace(req_id=name, num_computed_tokens=computed) for name, computed in new],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[name for name, _ in cached], num_computed_tokens=[computed for _, computed in cached],
            resumed_req_ids={name for name, _ in resumed},
        ),
    )  # fmt: skip


def stale(steps, batches=2):
    tracked = {name: SimpleNamespace(stale=False) for name in "abcdefgh"}
    watched = Neighbours(batches)
    for one in steps:
        watched.step(one, tracked)
    return "".join(name for name, one in tracked.items() if one.stale)


def test_an_engine_without_such_loads_stores_all():
    assert stale([step(new=[("a", 512)], resumed=[("b", 128)], running=[("c", 9)])] * 3) == ""


def test_what_begins_in_such_a_step_with_kv_that_was_there():
    assert stale([step(new=[("a", 512), ("b", 0)], resumed=[("c", 128)], running=[("d", 512)], sync=True)]) == "ac"


def test_and_what_hits_it_before_vllm_knows():
    later = [step(new=[(name, 128)]) for name in "bcdef"]
    assert stale([step(new=[("a", 512)], sync=True), *later], batches=2) == "abc"
    assert stale([step(new=[("a", 512)], sync=True), *later], batches=1) == "ab"


def test_a_request_that_is_not_tracked_is_none_of_ours():
    assert stale([step(new=[("z", 512)], sync=True)]) == ""


def test_blocks_that_failed_are_nobodys():
    tracked = {"a": SimpleNamespace(stale=False)}
    Neighbours().failed(tracked)
    assert tracked["a"].stale
