"""The report of make demo REMOTE=redis about its tokens: a prompt loaded in part is no comparison,
and no wrong byte."""

import sys

import pytest


@pytest.fixture(scope="module")
def remote(root):
    sys.path.insert(0, str(root / "e2e"))
    try:
        import demo.remote
    finally:
        sys.path.pop(0)
    return demo.remote


def test_tokens_are_compared_where_all_of_the_prompt_was_loaded(remote):
    assert remote.verdict_on_tokens(True, 4096, 4096) == "identical in all three"
    assert remote.verdict_on_tokens(False, 4096, 4096) == "DIFFERENT"


def test_a_prompt_that_came_in_part_is_no_comparison(remote):
    said = remote.verdict_on_tokens(False, 1024, 4096)
    assert "DIFFERENT" not in said and "3072 tokens came too late" in said
    assert remote.verdict_on_tokens(True, 1024, 4096) == "identical in all three", "it may well be"
