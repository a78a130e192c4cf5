"""Weights that change in a running engine, which vLLM tells no connector."""

import shutil

from engine_life import alone, ask, live
from engines import prompt

TEXT, OTHER = prompt("in place", 600), prompt("in place, another", 600)


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
    external = {"reset": "external"}
    answers = live(world, models("llama"), ask(TEXT), external, ask(TEXT), ask(TEXT), external, ask(TEXT))
    assert [answer["hit"] for answer in answers] == [0, 0, 512, 0]
    assert len({str(answer["tokens"]) for answer in answers}) == 1
    (other,) = live(world, models("llama"), ask(TEXT))
    assert other["hit"] == 512, "the resets of one engine cost another nothing"
