"""The judgement of bench-rivals and bench-serve about their measurements, part by part, and the
requests of their users."""

import random
import sys

import pytest
from harness import goals


@pytest.fixture(scope="module", autouse=True)
def _path(root):
    sys.path.insert(0, str(root / "tests" / "bench"))
    yield
    sys.path.remove(str(root / "tests" / "bench"))


def by_id(verdict):
    return {goal["id"]: goal for goal in verdict}


def test_only_parts_that_were_measured_are_judged(_path):
    import rivals_bench

    rows = [
        {"part": "ttft", "what": "512", "ratio": 0.8},
        {"part": "ttft", "what": "4096", "ratio": 1.2},
    ]
    verdict = rivals_bench.judge(rows)
    assert [goal["id"] for goal in verdict] == ["rivals.ttft_ratio"]
    assert verdict[0]["value"] == 1.2 and not verdict[0]["met"]


def answers(kill, *each):
    return [kill.Answer(begin, seconds, hit, broken) for begin, seconds, hit, broken in each]


def test_a_kill_row(_path):
    import rivals_bench
    import rivals_kill as kill

    # The hit at 11.1 still comes from the engine's mapped memory.
    seen = answers(
        kill,
        (9.0, 0.1, 512, ""),
        (9.95, 0.7, 0, ""),
        (11.1, 0.1, 512, ""),
        (11.2, 0.5, 0, ""),
        (11.7, 0.1, 512, ""),
    )
    row = kill.row_of("larder", 0.5, seen, killed=10.0, back=11.0, stopped=23.0)
    assert (
        row["slowest_s"] == 0.7 and row["rehit_s"] == pytest.approx(0.8) and row["unanswered"] == ""
    )
    verdict = by_id(rivals_bench.judge([row]))
    assert (
        verdict["rivals.kill_slowest_answer_s"]["met"]
        and verdict["rivals.kill_slowest_answer_s"]["goal"] == 1.5
    )
    assert verdict["rivals.kill_rehit_s"]["met"]


def test_hits_that_never_stopped_count_from_the_servers_return(_path):
    import rivals_kill as kill

    seen = answers(kill, (9.0, 0.1, 512, ""), (10.5, 0.1, 512, ""), (11.3, 0.1, 512, ""))
    assert kill.row_of("larder", 0.5, seen, killed=10.0, back=11.0, stopped=23.0)[
        "rehit_s"
    ] == pytest.approx(0.4)


def test_an_answer_that_never_came_is_a_missed_goal_for_larder_and_a_bound_for_lmcache(_path):
    import rivals_bench
    import rivals_kill as kill

    seen = answers(kill, (9.0, 0.1, 512, ""), (9.95, 1.2, 0, "timed out"))
    row = kill.row_of("larder", 0.5, seen, killed=10.0, back=11.0, stopped=70.0)
    verdict = by_id(rivals_bench.judge([row, {**row, "what": "lmcache"}]))
    assert (
        not verdict["rivals.kill_slowest_answer_s"]["met"]
        and not verdict["rivals.kill_rehit_s"]["met"]
    )
    assert "goal" not in verdict["rivals.lmcache_kill_slowest_answer_s"]


def test_a_wrong_answer_voids_the_kill_row(_path):
    import rivals_kill as kill
    from rivals_ttft import Void

    seen = answers(kill, (9.0, 0.1, 512, ""), (10.0, 0.1, 0, "another answer than the cold one"))
    with pytest.raises(Void, match="another answer"):
        kill.row_of("larder", 0.5, seen, killed=9.5, back=10.0, stopped=11.0)


def test_rows_of_other_parts_are_kept(tmp_path):
    report = tmp_path / "rivals.json"
    assert goals.kept_rows(report, {"kill"}) == []
    goals.write(report, "rivals", [{"part": "kill", "what": 1}, {"part": "ttft", "what": 2}], [])
    assert goals.kept_rows(report, {"kill"}) == [{"part": "ttft", "what": 2}]


def serve_row(part, what, p50, p99, rate):
    return {
        "part": part,
        "what": what,
        "ttft_p50_s": p50,
        "ttft_p99_s": p99,
        "tokens_per_s": rate,
        "full": True,
    }


def test_serve_goals_stand_on_eight_users_and_the_worst_tail(_path):
    import serve_bench

    eight = {"alone": (8.0, 9.0, 10), "larder": (2.0, 3.0, 18), "lmcache": (2.0, 6.0, 17)}
    one = {"alone": (1.0, 1.0, 10), "larder": (1.0, 1.2, 10), "lmcache": (1.0, 1.0, 10)}
    rows = [
        serve_row(part, what, *seen)
        for part, arms in (("chat-8", eight), ("chat-1", one))
        for what, seen in arms.items()
    ]
    verdict = by_id(serve_bench.judge(rows))
    assert (
        verdict["serve.ttft_p50_factor"]["value"] == 4
        and verdict["serve.tokens_per_s_factor"]["value"] == 1.8
    )
    assert (
        verdict["serve.vs_lmcache_ttft_p99"]["value"] == 1.2
        and not verdict["serve.vs_lmcache_ttft_p99"]["met"]
    )


@pytest.mark.parametrize("scenario", ["chat", "document", "system"])
def test_prompts_are_the_same_for_every_arm_and_of_500_to_2000_tokens(_path, scenario):
    import serve_load

    def ask(number):
        prompts = serve_load.SCENARIOS[scenario](
            random.Random(f"seed {number}"), random.Random("seed")
        )
        asked = [next(prompts)]
        asked += [prompts.send([9] * serve_load.ANSWER_TOKENS) for _ in range(30)]
        return asked

    first, other = ask(0), ask(1)
    assert first == ask(0) and first != other
    assert all(500 <= len(prompt) <= 2000 for prompt in first)
    assert (first[0][:500] == other[0][:500]) == (scenario == "system")


def test_a_chat_goes_on_from_its_answers(_path):
    import serve_load

    prompts = serve_load.SCENARIOS["chat"](random.Random(1), random.Random(2))
    first = next(prompts)
    second = prompts.send([7] * 32)
    assert second[: len(first) + 32] == first + [7] * 32 and len(second) == len(first) + 152
