"""The counts of hooks in bench-engine, the printed interval, and the row for the goals."""

import sys

import pytest


@pytest.fixture(scope="module", autouse=True)
def _path(root):
    sys.path.insert(0, str(root / "tests" / "bench"))
    yield
    sys.path.remove(str(root / "tests" / "bench"))


@pytest.fixture(scope="module")
def bench(_path):
    import engine_bench

    return engine_bench


def test_counts_go_from_one_process_to_another(tmp_path):
    import engine_hooks

    counts = engine_hooks.HookCounts(str(tmp_path), "worker", ["bind", "wait_for_save"])
    counts.add(1, 500)
    before = engine_hooks.read(tmp_path)
    counts.add(0, 7)
    counts.add(1, 1500)
    after = engine_hooks.read(tmp_path)
    assert before == {"worker.bind": (0, 0), "worker.wait_for_save": (500, 1)}
    assert engine_hooks.difference(after, before) == {
        "worker.bind": (7, 1),
        "worker.wait_for_save": (1500, 1),
    }


def test_more_hooks_than_the_file_holds_are_refused(tmp_path):
    import engine_hooks

    with pytest.raises(ValueError, match="65 hooks are more than 64"):
        engine_hooks.HookCounts(str(tmp_path), "worker", [str(i) for i in range(65)])


def test_the_interval_is_of_order_statistics(bench):
    # Of 11 values the 2nd and the 10th hold the median with 98.8%; the 3rd and the 9th only with
    # 93.5%.
    assert bench.median_interval([float(i) for i in range(1, 12)]) == (2, 6, 10)
    assert bench.median_interval([3.0, 1.0, 2.0]) == (1, 2, 3)  # too few to leave any out
    assert bench.median_interval([5.0]) == (5, 5, 5)


def arm_row(name, **more):
    return {"what": name, "tokens_per_s": 1.0, **more}


def test_goals(bench):
    idle = {"loss": 0.004, "empty_loss": 0.002, "loss_against_none": 0.03, "hook_us_per_step": 80.0}
    stores = {"loss": 0.05, "hook_us_per_step": 190.0}
    rows = [arm_row("none"), arm_row("idle", **idle), arm_row("stores", **stores)]
    verdict = {goal["id"]: goal for goal in bench.judge(rows)}
    assert (
        verdict["engine.hook_us_per_step"]["value"] == 190
        and not verdict["engine.hook_us_per_step"]["met"]
    )  # the worst row
    assert verdict["engine.idle_loss"]["met"]
    assert verdict["engine.store_loss"] == {"id": "engine.store_loss", "value": 0.05}


def test_hook_time_is_a_step(bench):
    arm = bench.Arm("idle", None, None, None)
    arm.seconds = [0.1] * 3
    arm.counted = [
        {"scheduler.build_connector_meta": (20_000, 10), "worker.bind": (60_000, 10)}
    ] * 3
    row = bench.hook_row(arm)
    assert row["hook_us_per_step"] == 8 and row["steps"] == 30
    assert row["hooks"]["worker.bind"] == {"us_per_step": 6, "calls_per_step": 1}


def run_of(*blocks):
    """blocks: (connector, step times in us)"""
    import engine_steps

    return [
        engine_steps.Step(connector, 4, 1000 * us) for connector, times in blocks for us in times
    ]


def test_a_loss_is_of_neighbouring_blocks_of_steps_with_and_without_the_connector(_path):
    import engine_steps

    from engine_steps import EMPTY, LARDER, NONE

    steps = run_of(
        (NONE, [1000] * 4),
        (LARDER, [1010, 1010, 9000, 1010]),
        (NONE, [1100] * 4),
        (EMPTY, [1111] * 4),
        (NONE, [1] * 4),
    )
    assert engine_steps.block_losses(steps, 4, LARDER) == pytest.approx([1 - 1000 / 1010])
    assert engine_steps.block_losses(steps, 4, EMPTY) == pytest.approx([1 - 1100 / 1111])
    assert engine_steps.block_losses(steps, 3, LARDER) == []
    assert (
        engine_steps.block_losses(run_of((NONE, [1000] * 4), (LARDER, [1010] * 2)), 4, LARDER) == []
    )
    assert engine_steps.total_ns(steps[:4]) == 4_000_000


def test_steps_go_from_the_engine_to_the_bench(_path, tmp_path):
    import engine_steps

    assert engine_steps.count(tmp_path) == 0 and engine_steps.since(tmp_path, 0) == []
    log = engine_steps.StepLog(str(tmp_path))
    log.add(1, 768, 10)
    before = engine_steps.count(tmp_path)
    log.add(0, 4, 20)
    log.add(2, 0, 30)
    assert before == 1 and engine_steps.since(tmp_path, before) == [(0, 4, 20), (2, 0, 30)]


def test_slow_steps_hidden_by_the_median_count_as_loss(bench):
    idle, none = bench.Arm("idle", None, None, None), bench.Arm("none", None, None, None)
    idle.losses, idle.background, idle.tokens_per_s, none.tokens_per_s = (
        [0.004] * 5,
        [0.002] * 5,
        [99.0] * 5,
        [100.0] * 5,
    )
    hook = {
        "often": {"us_per_step": 30, "calls_per_step": 1},
        "once a request": {"us_per_step": 10, "calls_per_step": 0.05},
    }
    row = bench.loss_row(idle, none, {"hook_us_per_step": 40, "hook_share": 0.004, "hooks": hook})
    assert row["loss"] == pytest.approx(0.004 + 0.002 + 0.001) and row[
        "loss_interval"
    ] == pytest.approx([0.007, 0.007])
    assert row["loss_against_none"] == pytest.approx(0.01)
    idle.losses, idle.counted = [], [{}]
    with pytest.raises(bench.Void, match="too few steps"):
        bench.loss_row(idle, none, {})


def test_two_alternating_turns_do_each_part_once_with_a_connector_and_once_without(_path, tmp_path):
    import engine_switch
    from engine_steps import EMPTY, LARDER, NONE

    bench_side, engine_side = (
        engine_switch.Mode(tmp_path, create=True),
        engine_switch.Mode(tmp_path),
    )
    seen = {}
    for mode in (
        engine_switch.WITHOUT,
        engine_switch.WITH,
        engine_switch.ALTERNATE,
        engine_switch.ALTERNATE_SWAPPED,
    ):
        bench_side.set(mode)
        seen[mode] = [engine_side.connector(tokens) for tokens in (0, *range(192, 264))]
    assert set(seen[engine_switch.WITHOUT]) == {NONE} and set(seen[engine_switch.WITH]) == {LARDER}
    first, swapped = seen[engine_switch.ALTERNATE], seen[engine_switch.ALTERNATE_SWAPPED]
    assert all((one == NONE) != (other == NONE) for one, other in zip(first, swapped))
    assert first[1 :: engine_switch.BLOCK_TOKENS][:4] == [LARDER, NONE, EMPTY, NONE]
    assert swapped[1 :: engine_switch.BLOCK_TOKENS][:4] == [NONE, LARDER, NONE, EMPTY]


def test_larders_threads_are_found_in_the_noted_process(_path, tmp_path):
    import threading

    import engine_hooks

    engine_hooks.note_process(str(tmp_path), "worker", threading.get_native_id())
    (task,) = engine_hooks.larder_threads(tmp_path)
    before = engine_hooks.processor_ns([task])
    sum(range(3_000_000))
    assert engine_hooks.processor_ns([task]) > before
