"""How bench-engine counts hooks, what interval it prints, and which row its goals take."""

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
    assert engine_hooks.difference(after, before) == {"worker.bind": (7, 1), "worker.wait_for_save": (1500, 1)}


def test_more_hooks_than_the_file_holds_are_refused(tmp_path):
    import engine_hooks

    with pytest.raises(ValueError, match="65 hooks are more than 64"):
        engine_hooks.HookCounts(str(tmp_path), "worker", [str(i) for i in range(65)])


def test_the_interval_is_of_order_statistics(bench):
    # Of 11 values the 2nd and the 10th hold the median with 98.8%; the 3rd and the 9th only with 93.5%.
    assert bench.median_interval([float(i) for i in range(1, 12)]) == (2, 6, 10)
    assert bench.median_interval([3.0, 1.0, 2.0]) == (1, 2, 3)  # too few to leave any out
    assert bench.median_interval([5.0]) == (5, 5, 5)


def arm_row(name, **more):
    return {"what": name, "tokens_per_s": 1.0, **more}


def test_goals(bench):
    idle, stores = {"loss": 0.004, "hook_us_per_step": 80.0}, {"loss": 0.05, "hook_us_per_step": 190.0}
    rows = [arm_row("none"), arm_row("idle", **idle), arm_row("stores", **stores)]
    verdict = {goal["id"]: goal for goal in bench.judge(rows)}
    assert verdict["engine.hook_us_per_step"]["value"] == 190 and not verdict["engine.hook_us_per_step"]["met"]  # the worst row
    assert verdict["engine.idle_loss"]["met"]
    assert verdict["engine.store_loss"] == {"id": "engine.store_loss", "value": 0.05}


def test_hook_time_is_a_step(bench):
    arm = bench.Arm("idle", None, None, None)
    arm.seconds = [0.1] * 3
    arm.counted = [{"scheduler.build_connector_meta": (20_000, 10), "worker.bind": (60_000, 10)}] * 3
    row = bench.hook_row(arm)
    assert row["hook_us_per_step"] == 8 and row["steps"] == 30
    assert row["hooks"]["worker.bind"] == {"us_per_step": 6, "calls_per_step": 1}
