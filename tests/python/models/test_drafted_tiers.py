"""Draft KV after a restart, from the disk and from Redis, and the number of accepted drafts with
and without Larder, in real vLLM."""

import glob
import os

import pytest
import record
from engines import PATIENCE_S, start_larderd, wait_for
from heads import make_like
from test_drafted import HEADS, SHORT, Drafted, alone, asked, differing, headed, named, texts
from test_models import slow
from test_states import redis  # noqa: F401

KINDS = {
    "draft_small": "a draft model of two layers",
    **{kind: HEADS[kind].split(",")[0] for kind in ("eagle", "eagle3")},
}
CHUNKS = 4  # of 512 tokens


def drafted(kind, folder, models):
    """A drafter of KINDS, without a larderd so far."""
    if kind == "draft_small":
        speculative = {"method": "draft_model", "model": str(models("llama_small", 3))}
        return Drafted(None, folder, models("llama"), speculative)
    return headed(kind, None, folder, models)


def first_engine(walk, whole):
    """The answer of an engine that computes `whole`, which is stored then."""
    cold, stored = walk.run([*alone(whole), asked(whole), *walk.settled()])
    assert stored["hit"] == 0 and differing(stored, cold) == 0
    return cold


def judge(walk, whole, cold):
    """Of an engine over a larderd with an empty memory."""
    _, again, zeroed = walk.run(
        [named(), asked(whole), *walk.settled(), {"drafts": "zero"}, asked(whole)]
    )
    assert again["hit"] == zeroed["hit"] == 512
    assert again["tokens"] == zeroed["tokens"] == cold["tokens"]
    assert differing(again, cold) == 0
    assert differing(zeroed, cold) > 0, "the control: zeroed draft KV changes drafts"
    return {
        "result": "equal tokens and drafts",
        "hits": again["hit"],
        "zeroed": "equal tokens, other drafts",
    }


@slow
@pytest.mark.parametrize("kind", KINDS)
def test_draft_kv_comes_back_after_a_restart(kind, models, tmp_path):
    """larderd is killed twice, and started over its memory and then with an empty memory."""
    (tmp_path / "disk").mkdir()
    how = (
        "512MiB",
        f"larder-drafts-{os.getpid()}",
        f"disk:\n  path: {tmp_path}/disk\n  size: 1GiB\n  write: through\n",
    )
    walk, whole = drafted(kind, tmp_path, models), texts(SHORT)[0]
    with start_larderd(tmp_path, *how) as walk.larderd:
        cold = first_engine(walk, whole)
        wait_for(
            lambda: walk.larderd.status()["disk"]["chunks"] == CHUNKS,
            PATIENCE_S,
            "writing to the disk",
        )
        walk.larderd.kill()
    for place, chunks in (("memory", CHUNKS), ("disk", 0)):
        what = f"{KINDS[kind]}: from the {place} after a kill of larderd"
        with (
            record.named(f"drafts_{place}_{kind}", what, SHORT) as told,
            start_larderd(tmp_path, *how) as walk.larderd,
        ):
            assert walk.larderd.status()["memory"]["slots"]["committed"] == chunks
            told(**judge(walk, whole, cold))
            walk.larderd.kill()
        for left in glob.glob(f"/dev/shm/{how[1]}.*"):
            os.unlink(left)


@slow
@pytest.mark.parametrize("kind", KINDS)
def test_draft_kv_comes_from_redis(kind, models, redis, tmp_path):  # noqa: F811
    """A second larderd, whose memory is empty, and a second engine."""
    extra = f"backend:\n  url: {redis.url}\n  prefix: shared\n"
    walk, whole = drafted(kind, tmp_path, models), texts(SHORT)[0]
    with record.named(
        f"drafts_redis_{kind}", f"{KINDS[kind]}: of another larderd, by Redis", SHORT
    ) as told:
        with start_larderd(tmp_path / "first", extra=extra) as walk.larderd:
            cold = first_engine(walk, whole)
            redis.wait_settled(2 * CHUNKS)
        with start_larderd(tmp_path / "second", extra=extra) as walk.larderd:
            told(**judge(walk, whole, cold))


@slow
def test_as_many_drafts_are_accepted_with_larder_as_without(models, tmp_path):
    """The acceptance length is the number of tokens of a request's step with drafts: one, and the
    accepted drafts."""
    what = "acceptance length over 200 prompts, computed and hit"
    with (
        start_larderd(tmp_path, "512MiB") as larderd,
        record.named("acceptance", what, 140) as told,
    ):
        draft = make_like(tmp_path, models("llama"))
        speculative = {"method": "draft_model", "model": str(draft)}
        walk = Drafted(larderd, tmp_path, models("llama"), speculative)
        every = {"ask_many": [200, 140], "max_tokens": 24}
        cold, stored, hit = walk.run(
            [{**every, "off": True}, {"reset": True}, every, *walk.settled(), every], 1800
        )
        assert (cold["hit"], stored["hit"], hit["hit"]) == (0, 0, 200 * 128)
        without, with_hits = (1 + one["accepted"] / one["drafted"] for one in (cold, hit))
        print(f"acceptance length: {without:.3f} tokens computed, {with_hits:.3f} with hits")
        told(result=f"{without:.2f} and {with_hits:.2f} tokens", hits=hit["hit"])
        assert 1.2 < without < 3.8, "drafts must be accepted and rejected"
        assert abs(with_hits - without) < 0.02 * without, "equal within noise"
