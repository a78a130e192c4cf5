"""Recurrent states in real vLLM, with controls. Prompts end two tokens behind a boundary. A model
of random weights forgets a state within some tens of tokens, which would hide a wrong state."""

import glob
import os
from pathlib import Path

import pytest
import record
from engines import PATIENCE_S, committed_chunks, prompt, start_larderd, wait_for
from harness.redis import Missing, RedisServer
from test_models import ask, slow
from walk import Walk

SCRIPT = Path(__file__).with_name("states_run.py")
CLEAR = {"clear": True}


def part(name):
    return {"load": name}


@slow
def test_states_of_forks_other_engines_and_wrong_states(models, tmp_path):
    """One engine makes the states, a fork of its prompt makes the state of the fork's place, a
    second engine hits both."""
    with (
        start_larderd(tmp_path, "512MiB") as larderd,
        record.named("states", "Qwen3-Next: forks, a second engine, wrong states", 514) as told,
    ):
        walk = Walk(larderd, tmp_path, models("qwen3_next"), block_size=256)
        whole, other = prompt("states", 514), prompt("other states", 514)
        forks = [whole[:400] + prompt(f"fork {i}", 114) for i in range(3)]

        alone = [
            step for text in (whole, *forks) for step in (ask(text, off=True), {"reset": True})
        ]
        first = [
            ask(other),
            *walk.settled(),
            ask(other),
            *walk.settled(),
            ask(whole),
            *walk.settled(),
            ask(whole),
            *walk.settled(),
        ]
        controls = [
            one
            for name in ("all", "tokens", "states", "another")
            for one in (CLEAR, part(name), ask(whole), {"reset": True})
        ]
        forked = [part("all"), ask(forks[0]), *walk.settled(), ask(forks[1]), *walk.settled()]
        results, _ = walk.run([*alone, *first, *controls, *forked], script=SCRIPT)
        answers, (_, _, cold, warm), (right, *wrong), (junction, hit) = (
            results[:4],
            results[4:8],
            results[8:12],
            results[12:],
        )
        assert (cold["hit"], warm["hit"], junction["hit"], hit["hit"]) == (0, 512, 0, 256)
        assert cold["tokens"] == warm["tokens"] == right["tokens"] == answers[0]["tokens"]
        assert [junction["tokens"], hit["tokens"]] == [answers[1]["tokens"], answers[2]["tokens"]]
        assert [one["hit"] for one in (right, *wrong)] == [512] * 4, "each control has loaded"
        for name, one in zip(("no state", "no KV of tokens", "the state of another prompt"), wrong):
            assert one["tokens"] != cold["tokens"], (
                f"{name}: the answer must change, else equal tokens are no proof"
            )

        (again, fork), _ = walk.run([ask(whole), {"reset": True}, ask(forks[2])], script=SCRIPT)
        assert (again["hit"], again["tokens"]) == (512, answers[0]["tokens"])
        assert (fork["hit"], fork["tokens"]) == (256, answers[3]["tokens"])
        told(
            result="equal tokens",
            hits=warm["hit"],
            tail=f"{hit['hit']} of 514",
            zeroed="other tokens",
        )


@slow
def test_a_long_prompt_stores_two_states_at_most(models, tmp_path):
    with start_larderd(tmp_path, "512MiB") as larderd:
        longer = {"max_model_len": 16640, "hf_overrides": {"max_position_embeddings": 16640}}
        walk = Walk(larderd, tmp_path, models("qwen3_next"), block_size=256, **longer)
        text = prompt("long", 16_000)
        (cold, warm), _ = walk.run([ask(text), *walk.settled(), ask(text)], script=SCRIPT)
        assert (cold["hit"], warm["hit"]) == (0, 15_872) and cold["tokens"] == warm["tokens"]
        attention = 16_000 // 256
        assert attention + 1 <= committed_chunks(larderd) <= attention + 2


def stored(walk, texts):
    """Steps that store each prompt."""
    return [step for text in texts for step in (ask(text), *walk.settled())]


def judge_fetched(texts, alone, results, hit=512):
    """Each prompt was fetched by itself: one unchanged, the others with a load that leaves a part
    out or takes another state."""
    assert [one["hit"] for one in results] == [hit] * len(texts)
    assert results[0]["tokens"] == alone[0]["tokens"]
    for name, one, right in zip(
        ("no state", "no KV of tokens", "the state of another prompt"), results[1:], alone[1:]
    ):
        assert one["tokens"] != right["tokens"], (
            f"{name}: the answer must change, else equal tokens are no proof"
        )


def fetched(texts):
    return [
        step
        for name, text in zip(("all", "tokens", "states", "another"), texts)
        for step in (CLEAR, part(name), ask(text), {"reset": True})
    ]


HYBRIDS = {
    "qwen3_next": ("Qwen3-Next", 256, {}),
    "granite4": ("Granite 4 (with the stand-in)", 640, {"LARDER_TEST_MAMBA2": "1"}),
}


@slow
@pytest.mark.parametrize("model", HYBRIDS)
def test_states_come_back_from_disk(models, tmp_path, model):
    """larderd is killed and restarted with an empty memory. The chunks on its disk are hit."""
    (tmp_path / "disk").mkdir()
    how = (
        "512MiB",
        f"larder-states-{os.getpid()}",
        f"disk:\n  path: {tmp_path}/disk\n  size: 1GiB\n  write: through\n",
    )
    name, block, env = HYBRIDS[model]
    tokens = 2 * block + 2
    texts = [prompt(f"disk {i}", tokens) for i in range(4)]
    with record.named(
        f"states_disk_{model}", f"{name}: states from the disk after a kill of larderd", tokens
    ) as told:
        with start_larderd(tmp_path, *how) as larderd:
            walk = Walk(larderd, tmp_path, models(model), env=env, block_size=block)
            results, _ = walk.run(
                [step for text in texts for step in (ask(text, off=True), {"reset": True})]
                + stored(walk, texts),
                script=SCRIPT,
            )
            alone = results[:4]
            wait_for(
                lambda: larderd.status()["disk"]["chunks"] == 3 * len(texts),
                PATIENCE_S,
                "writing to the disk",
            )
            larderd.kill()
        for left in glob.glob(f"/dev/shm/{how[1]}.*"):
            os.unlink(left)
        with start_larderd(tmp_path, *how) as walk.larderd:
            assert walk.larderd.status()["memory"]["slots"]["committed"] == 0
            again, _ = walk.run(fetched(texts), script=SCRIPT)
            judge_fetched(texts, alone, again, 2 * block)
        told(result="equal tokens", hits=again[0]["hit"], zeroed="other tokens")


@pytest.fixture
def redis(tmp_path):
    try:
        server = RedisServer(tmp_path / "redis")
    except Missing as missing:
        pytest.skip(str(missing))
    with server:
        yield server


def forget_states(redis, larderd):
    """Deletes the backend's states; returns the number of deleted keys."""
    (states,) = (
        space["id"]
        for space in larderd.status()["namespaces"]
        if space["fingerprint"].endswith("chunks: states\n")
    )
    script = (
        "local found = redis.call('KEYS', ARGV[1]) for _, key in ipairs(found) do "
        "redis.call('DEL', key) end return #found"
    )
    return int(redis.ask(f'EVAL "{script}" 0 *{states}*').removeprefix(":"))


@slow
def test_states_come_from_redis(models, redis, tmp_path):
    """A second larderd with an empty memory, and a second engine: the chunks of the first ones come
    from the Redis of both."""
    extra = f"backend:\n  url: {redis.url}\n  prefix: shared\n"
    texts = [prompt(f"redis {i}", 514) for i in range(4)]
    with record.named(
        "states_redis", "Qwen3-Next: states of another larderd, by Redis", 514
    ) as told:
        with start_larderd(tmp_path / "first", extra=extra) as larderd:
            walk = Walk(larderd, tmp_path, models("qwen3_next"), block_size=256)
            results, _ = walk.run(
                [step for text in texts for step in (ask(text, off=True), {"reset": True})]
                + stored(walk, texts),
                script=SCRIPT,
            )
            alone = results[:4]
            redis.wait_settled(6 * len(texts))
        with start_larderd(tmp_path / "second", extra=extra) as walk.larderd:
            again, _ = walk.run(fetched(texts), script=SCRIPT)
            judge_fetched(texts, alone, again)
            assert walk.larderd.metrics()["larder_probes_total"] == 2 * len(texts), (
                "a question about the chunks and one about the states"
            )
            assert forget_states(redis, walk.larderd) == 2 * len(texts), (
                "a record and the bytes of each"
            )
        with start_larderd(tmp_path / "third", extra=extra) as walk.larderd:
            (without,), _ = walk.run([ask(texts[0])], script=SCRIPT)
            assert (without["hit"], without["tokens"]) == (0, alone[0]["tokens"])
        told(result="equal tokens", hits=again[0]["hit"], zeroed="other tokens")
