"""bench-serve from its users to its rows, against servers that answer at once and count hits like
vLLM."""

import contextlib
import json
import sys
from types import SimpleNamespace

import http_fakes
import pytest


@pytest.fixture(scope="module")
def bench(root):
    sys.path.insert(0, str(root / "tests" / "bench"))
    import serve_bench

    yield serve_bench
    sys.path.remove(str(root / "tests" / "bench"))


class Fake:
    """Every request hits 1,024 tokens in the arm's cache from the second on. `tokens`: the number
    in each answer."""

    def __init__(self, tokens=None):
        self.asked, self.resets, self.tokens = 0, 0, tokens

    def serving(self):
        return http_fakes.serving(
            {
                "POST /v1/completions": self._complete,
                "POST /reset_prefix_cache": self._reset,
                "GET /metrics": self._metrics,
            }
        )

    def _complete(self):
        self.asked += 1
        choice = {"token_ids": [7] * (self.tokens or 32), "text": ""}
        return f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n"

    def _reset(self):
        self.resets += 1
        return ""

    def _metrics(self):
        hits = 1024 * max(self.asked - 1, 0)
        return (
            'vllm:prefix_cache_hits_total{e="0"} 0\n'
            f'vllm:external_prefix_cache_hits_total{{e="0"}} {hits}\n'
        )


@pytest.fixture
def served(bench, monkeypatch):
    monkeypatch.setattr(bench, "SECONDS", 0.1)
    monkeypatch.setattr(bench, "REST_S", 0)
    monkeypatch.setattr(bench.time, "sleep", lambda _: None)
    with contextlib.ExitStack() as stack:

        def start(**fakes):
            return {
                name: SimpleNamespace(name=name, url=stack.enter_context(fake.serving()))
                for name, fake in fakes.items()
            }

        yield start


@pytest.mark.parametrize("part", ["chat-8", "document-1", "system-8"])
def test_a_part_gives_a_row_an_arm(bench, served, part):
    fakes = {name: Fake() for name in ("alone", "larder", "lmcache")}
    rows = bench.run_part(served(**fakes), part, s_per_token=0.001)
    assert [(row["part"], row["what"]) for row in rows] == [(part, name) for name in fakes]
    for row, fake in zip(rows, fakes.values()):
        assert row["requests"] == fake.asked > 0 and fake.resets == bench.SLICES
        assert row["tokens_per_s"] == pytest.approx(32 * fake.asked / row["seconds"])
        assert row["cache_hit_tokens"] == 1024 * (fake.asked - 1)
        assert row["prefill_saved_s"] == pytest.approx(1.024 * (fake.asked - 1))
        assert 0 < row["ttft_p50_s"] <= row["ttft_p99_s"] and not row["full"]
    assert {goal["id"] for goal in bench.judge(rows)} >= {"serve.vs_lmcache_ttft_p99"}


def test_an_answer_cut_short_voids_the_run(bench, served):
    with pytest.raises(bench.Void, match="31 tokens, not 32"):
        bench.run_part(served(alone=Fake(), larder=Fake(tokens=31)), "chat-8", s_per_token=0.001)


def test_arms_are_checked_before_anything_is_timed(bench, served):
    assert bench.check_answers(served(alone=Fake(), larder=Fake(), lmcache=Fake())) > 0
    with pytest.raises(bench.Void, match="the cold answer of the arm larder differs"):
        bench.check_answers(served(alone=Fake(), larder=Fake(tokens=15)))
