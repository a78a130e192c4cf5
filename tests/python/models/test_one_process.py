"""Engines one after the other, and side by side, in one Python process: a notebook, or a service
that makes its engine anew."""

from pathlib import Path

import pytest
from engines import PATIENCE_S, prompt, run_offline, wait_for

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("two_engines_run.py")
TEXT, OTHER = prompt("two engines", 600), prompt("two engines, the other", 600)


def run(world, model, *steps, env=None):
    more = {
        "PYTHONPATH": (
            f"{Path(__file__).parents[1] / 'engine'}:"
            f"{Path(__file__).parents[3] / 'shim' / 'python'}"
        ),
        "OMP_NUM_THREADS": "1",
    }
    extra = {"admin": world.admin_socket}
    llm = {"skip_tokenizer_init": True}
    return run_offline(
        model,
        world.socket,
        list(steps),
        extra=extra,
        env={**more, **(env or {})},
        timeout_s=580,
        script=SCRIPT,
        **llm,
    )


# covers F-080
def test_one_after_the_other_and_side_by_side(world, models):
    """Each a process of vLLM's own; their statistics are in this one."""
    first = [
        {"make": "a"},
        {"ask": "a", "tokens": TEXT, "off": True},
        {"ask": "a", "tokens": TEXT},
        {"end": "a"},
    ]
    second = [{"make": "b", "options": {"max_model_len": 1024}}, {"ask": "b", "tokens": TEXT}]
    third = [{"make": "c"}, {"ask": "c", "tokens": TEXT}, {"ask": "b", "tokens": TEXT}]
    result, log = run(
        world, models("llama"), *first, *second, *third, env={"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    )
    assert len(result["answers"]) == 5 and all(
        answer == result["answers"][0] for answer in result["answers"]
    )
    assert result["hits"] == 3
    assert "Larder is off" not in log
    wait_for(
        lambda: not world.status()["sessions"]["attached"],
        PATIENCE_S,
        "the engines leaving larderd",
    )


def test_one_after_the_other_without_processes_of_vllm(world, models):
    steps = [
        {"make": "a"},
        {"ask": "a", "tokens": OTHER, "off": True},
        {"ask": "a", "tokens": OTHER},
        {"end": "a"},
    ]
    result, log = run(world, models("llama"), *steps, {"make": "b"}, {"ask": "b", "tokens": OTHER})
    assert (
        all(answer == result["answers"][0] for answer in result["answers"]) and result["hits"] == 1
    )
    assert "Larder is off" not in log and "may change the weights" not in log


# covers F-081
def test_side_by_side_without_processes_of_vllm_there_is_no_cache(world, models):
    """vLLM gives both workers one connector."""
    steps = [{"make": "a"}, {"ask": "a", "tokens": TEXT}, {"make": "b"}]
    result, log = run(
        world, models("llama"), *steps, *[{"ask": name, "tokens": TEXT} for name in "abab"]
    )
    assert all(answer == result["answers"][0] for answer in result["answers"])
    assert "VLLM_ENABLE_V1_MULTIPROCESSING" in log
