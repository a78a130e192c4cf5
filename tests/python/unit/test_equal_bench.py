"""The turns that bench-equal counts, and the places of its turns that the goals take."""

import importlib
import sys

import pytest
from http_fakes import FakeLarderd

from larder import larderd_metrics


@pytest.fixture(scope="module")
def bench(root):
    sys.path.insert(0, str(root / "tests" / "bench"))
    yield importlib.import_module("equal_bench")
    sys.path.remove(str(root / "tests" / "bench"))


class Larderd:
    def __init__(self):
        self.fake = FakeLarderd()

    def metrics(self):
        return larderd_metrics.samples(self.fake.metrics())


class Engine:
    """The answers are the prompts; each ask loads `tokens`."""

    def __init__(self, larderd, tokens):
        self.larderd, self.tokens, self.most_waiting = larderd, tokens, []

    def reset(self):
        pass

    def ask(self, prompts):
        from larder.vllm import shared_loads

        self.most_waiting.append(shared_loads.MOST_WAITING)
        self.larderd.fake.load(self.tokens)
        return [3.0, 1.0, 2.0], prompts


def test_one_load_brings_all_but_the_last_block_of_whole_chunks(bench):
    inside, at_end, tails = bench.cases().values()
    assert [bench.hits_due(case, bench.WAITS) for case in (inside, at_end, tails)] == [
        1024,
        1024 + 11 * 128,
        1024,
    ]
    assert [bench.hits_due(case, bench.EACH_LOADS) for case in (inside, at_end, tails)] == [
        12 * 1024
    ] * 3


def test_a_turn_without_the_wait_lets_no_request_wait(bench):
    shared_loads = pytest.importorskip("larder.vllm.shared_loads")
    usual, larderd, prompts = shared_loads.MOST_WAITING, Larderd(), [[1] * 1025] * 3
    for arm, tokens in ((bench.WAITS, 1024), (bench.EACH_LOADS, 3 * 1024)):
        engine = Engine(larderd, tokens)
        found = bench.turn(engine, larderd, "here", prompts, arm)
        assert (found.times, found.answers) == ([1.0, 2.0, 3.0], prompts) and found.processor_s >= 0
        assert (
            engine.most_waiting == [usual if arm == bench.WAITS else 0]
            and shared_loads.MOST_WAITING == usual
        )


def test_a_turn_with_other_hits_is_void(bench):
    pytest.importorskip("larder.vllm.shared_loads")
    larderd = Larderd()
    with pytest.raises(bench.Void, match="here, waits: 2048 of 1024 tokens hit"):
        bench.turn(Engine(larderd, 2048), larderd, "here", [[1] * 1025] * 3, bench.WAITS)


def test_the_worst_row_decides(bench):
    def row(waits):
        turns = {bench.WAITS: waits, bench.EACH_LOADS: [[1.0, 2.0, 4.0]] * 3}
        turns = {arm: [bench.Turn(times, 2.0) for times in rounds] for arm, rounds in turns.items()}
        return bench.row("here", turns, {bench.WAITS: 1, bench.EACH_LOADS: 2})

    quick, slow = (
        row([[2.0, 2.0, 2.0]] * 3),
        row([[1.0, 3.0, 3.0], [1.0, 3.0, 3.0], [1.0, 9.0, 9.0]]),
    )
    assert (quick["first_ratio"], quick["p50_ratio"], quick["max_ratio"]) == (2.0, 1.0, 0.5)
    assert (slow["p50_ratio"], slow["waits_max_ms"], slow["each_tokens"]) == (1.5, 3000.0, 2), (
        "of three rounds the middle one"
    )
    told = {goal["id"]: goal for goal in bench.judge([quick, slow])}
    assert (told["equal.p50_ratio"]["value"], told["equal.p50_ratio"]["met"]) == (1.5, False)
    assert (told["equal.max_ratio"]["value"], told["equal.max_ratio"]["met"]) == (0.75, True)
    assert told["equal.processor_ratio"]["value"] == 1.0 and "goal" not in told["equal.first_ratio"]
