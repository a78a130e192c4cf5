"""Recurrent states in real vLLM, with controls. Prompts end two tokens behind a boundary: a model of random weights forgets a state within some tens of
tokens, and a wrong state would go unnoticed."""

from pathlib import Path

import record
from engines import committed_chunks, prompt, start_larderd
from test_models import ask, slow
from walk import Walk

SCRIPT = Path(__file__).with_name("states_run.py")
CLEAR = {"clear": True}


def part(name):
    return {"load": name}


@slow
def test_states_of_forks_other_engines_and_wrong_states(models, tmp_path):
    """One engine makes the states, a fork of its prompt makes the state of the place where it leaves, a second engine hits both."""
    with start_larderd(tmp_path, "512MiB") as larderd, record.named("states", "Qwen3-Next: forks, a second engine, wrong states", 514) as told:
        walk = Walk(larderd, tmp_path, models("qwen3_next"), block_size=256)
        whole, other = prompt("states", 514), prompt("other states", 514)
        forks = [whole[:400] + prompt(f"fork {i}", 114) for i in range(3)]

        alone = [step for text in (whole, *forks) for step in (ask(text, off=True), {"reset": True})]
        first = [ask(other), *walk.settled(), ask(other), *walk.settled(), ask(whole), *walk.settled(), ask(whole), *walk.settled()]
        controls = [one for name in ("all", "tokens", "states", "another") for one in (CLEAR, part(name), ask(whole), {"reset": True})]
        forked = [part("all"), ask(forks[0]), *walk.settled(), ask(forks[1]), *walk.settled()]
        results, _ = walk.run([*alone, *first, *controls, *forked], script=SCRIPT)
        answers, (_, _, cold, warm), (right, *wrong), (junction, hit) = results[:4], results[4:8], results[8:12], results[12:]
        assert (cold["hit"], warm["hit"], junction["hit"], hit["hit"]) == (0, 512, 0, 256)
        assert cold["tokens"] == warm["tokens"] == right["tokens"] == answers[0]["tokens"]
        assert [junction["tokens"], hit["tokens"]] == [answers[1]["tokens"], answers[2]["tokens"]]
        assert [one["hit"] for one in (right, *wrong)] == [512] * 4, "each control has loaded"
        for name, one in zip(("no state", "no KV of tokens", "the state of another prompt"), wrong):
            assert one["tokens"] != cold["tokens"], f"{name}: the answer must change, else equal tokens prove nothing"

        (again, fork), _ = walk.run([ask(whole), {"reset": True}, ask(forks[2])], script=SCRIPT)
        assert (again["hit"], again["tokens"]) == (512, answers[0]["tokens"])
        assert (fork["hit"], fork["tokens"]) == (256, answers[3]["tokens"])
        told(result="equal tokens", hits=warm["hit"], tail=f"{hit['hit']} of 514", zeroed="other tokens")


@slow
def test_a_long_prompt_stores_two_states_at_most(models, tmp_path):
    with start_larderd(tmp_path, "512MiB") as larderd:
        walk = Walk(larderd, tmp_path, models("qwen3_next"), max_model_len=8192, block_size=256)
        text = prompt("long", 7000)
        (cold, warm), _ = walk.run([ask(text), *walk.settled(), ask(text)], script=SCRIPT)
        assert (cold["hit"], warm["hit"]) == (0, 6912) and cold["tokens"] == warm["tokens"]
        attention = 7000 // 256
        assert attention + 1 <= committed_chunks(larderd) <= attention + 2
