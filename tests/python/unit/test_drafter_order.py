"""vLLM saves KV after the drafter of a step has run. Otherwise a store could read old draft pages.
Read from the sources of this vLLM's two model runners; `make test-models` also runs the test under
the other version."""

import inspect
import re

import pytest

pytest.importorskip("vllm")


def source_of(module, name):
    (found,) = [
        one
        for one in vars(module).values()
        if inspect.isclass(one) and one.__module__ == module.__name__ and hasattr(one, name)
    ]
    return inspect.getsource(getattr(found, name))


def places(pattern, text):
    return [match.start() for match in re.finditer(pattern, text)]


def test_the_first_runner_saves_after_its_drafter():
    from vllm.v1.worker import gpu_model_runner as runner

    text = source_of(runner, "sample_tokens")
    drafts, saves = (
        places(r"propose_draft_token_ids\((?!sampled_token_ids\):)", text),
        places(r"finalize_kv_connector\(\)", text),
    )
    assert drafts and len(saves) == 1 and max(drafts) < saves[0]
    forward = source_of(runner, "execute_model")
    assert re.search(r"defer_(finalize|kv_connector_finalize)\s*=\s*\S", forward), (
        "with a drafter, the end of the forward pass does not save"
    )


def test_the_second_runner_saves_after_its_drafter():
    from vllm.v1.worker.gpu import model_runner as runner

    text = source_of(runner, "sample_tokens")
    (drafts,) = places(r"speculator\.propose\(", text)
    end = re.search(r"kv_connector\.(finalize_step|post_forward)\(", text[drafts:])
    assert end is not None, "the save follows the drafter"
    from vllm.v1.worker.gpu import kv_connector

    saving = [
        kind
        for kind in vars(kv_connector).values()
        if inspect.isclass(kind)
        and hasattr(kind, end[1])
        and "wait_for_save" in inspect.getsource(kind)
    ]
    assert saving and any(
        "wait_for_save" in inspect.getsource(getattr(kind, end[1])) for kind in saving
    )
