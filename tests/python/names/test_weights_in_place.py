"""Weights that change in a running engine, which vLLM tells no connector."""

import shutil

import pytest
from engine_life import alone, ask, live
from engines import prompt, start_larderd
from harness.redis import Missing, RedisServer

TEXT, OTHER = prompt("in place", 600), prompt("in place, another", 600)
EXTERNAL = {"reset": "external"}
PATIENCE_S = 60


# covers F-074
def test_weights_replaced_in_place_with_vllms_default_reset(world, models, tmp_path):
    """The old KV is not served under the new weights, and KV of the new weights not to engines of the old files."""
    old, new = models("llama", 7), models("llama", 8)
    path = shutil.copytree(old, tmp_path / "model")
    change = [{"copy": [str(new), str(path)]}, {"reload": True}, {"reset": True}]
    before, after, without, again, stored = live(
        world, path, ask(TEXT), *change, ask(TEXT), alone(TEXT), ask(TEXT), ask(OTHER)
    )
    assert (before["hit"], after["hit"], again["hit"]) == (0, 0, 512)
    assert after["tokens"] == without["tokens"] == again["tokens"] != before["tokens"]
    other, other_alone, hit = live(world, old, ask(OTHER), alone(OTHER), ask(TEXT))
    assert other["hit"] == 0 and other["tokens"] == other_alone["tokens"] != stored["tokens"]
    assert (hit["hit"], hit["tokens"]) == (512, before["tokens"]), "what was stored before serves the engines of those files"


# covers F-075
def test_each_reset_has_a_namespace_of_its_own_and_empties_no_other(world, models):
    answers = live(world, models("llama"), ask(TEXT), EXTERNAL, ask(TEXT), ask(TEXT), EXTERNAL, ask(TEXT))
    assert [answer["hit"] for answer in answers] == [0, 0, 512, 0]
    assert len({str(answer["tokens"]) for answer in answers}) == 1
    (other,) = live(world, models("llama"), ask(TEXT))
    assert other["hit"] == 512, "the resets of one engine cost another nothing"


# covers F-075
def test_the_resets_of_one_engine_leave_a_shared_backend_as_it_is(models, tmp_path):
    """Two nodes share one Redis. Weights that are replaced on one of them (a reset) take nothing from the other."""
    try:
        redis = RedisServer(tmp_path / "redis")
    except Missing as why:
        pytest.skip(str(why))

    def node(name):
        return start_larderd(tmp_path / name, extra=f"backend:\n  url: {redis.url}\n  prefix: shared\n")

    with redis, node("one") as one, node("other") as other, node("third") as third:
        live(one, models("llama"), ask(TEXT))
        one.wait_until(lambda: one.status()["backend"]["chunks"] >= 4, PATIENCE_S)
        before = redis.wait_settled(4)
        speed = alone(prompt("speed", 1500))  # a fetch is weighed against it
        _, shared, new, newer = live(other, models("llama"), speed, ask(TEXT), EXTERNAL, ask(TEXT), EXTERNAL, ask(TEXT))
        assert [answer["hit"] for answer in (shared, new, newer)] == [512, 0, 0]
        assert redis.keys() >= before
        _, again = live(third, models("llama"), speed, ask(TEXT))
        assert (again["hit"], again["tokens"]) == (512, shared["tokens"]), "a reset removes no chunk of others"
