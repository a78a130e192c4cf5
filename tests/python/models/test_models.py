"""Model shapes and engine settings, each in a vLLM of its own. LARDER_MODELS=all: every one, and a record for docs/compatibility.md;
else those that are a part of `make test`."""

import os
import re
import shutil
import time

import pytest
import record
import shapes
from engines import prompt
from settings import SETTINGS
from walk import Walk, continued_steps, judge, judge_continued, steps_of

ALL = os.environ.get("LARDER_MODELS") == "all"


slow = pytest.mark.slow  # conftest.py


@pytest.mark.parametrize("setting", [s for s in SETTINGS if ALL or s.in_test], ids=lambda s: s.name)
def test_setting(setting, world, models, tmp_path):
    env = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"} if setting.processes else {}
    walk = Walk(world, tmp_path, models(setting.model), setting.extra, env, **setting.llm)
    began = time.monotonic()
    with record.of(setting) as told:
        results, log = walk.run((continued_steps if setting.continued else steps_of)(setting, walk))
        told(seconds=time.monotonic() - began)
        if setting.refused:
            lines = re.findall(r"Larder is off for this engine: (.*)", log)
            told(result=f"refused: {lines[0] if lines else log[-500:]}")
            assert len(lines) == 1 and re.search(setting.refused, lines[0]), lines
            assert {result["hit"] for result in results} == {0}
        else:
            told(hits=results[-2]["hit"], result="equal tokens")
            assert "Larder is off" not in log, re.findall(r"Larder is off.*", log)
            (judge_continued if setting.continued else judge)(setting, results)


def llama_walk(world, models, folder, **llm):
    return Walk(world, folder, models("llama"), **llm)


def ask(tokens, max_tokens=16, **more):
    return {"ask": tokens, "max_tokens": max_tokens, **more}


@slow
def test_prompt_logprobs_are_right_and_never_hit(world, models, tmp_path):
    """vLLM computes the whole prompt for them; what it computed is stored all the same."""
    with record.named("prompt_logprobs", "prompt_logprobs: computed, never hit; stored for others", 600) as told:
        walk, text = llama_walk(world, models, tmp_path), prompt("logprobs", 600)
        asked = [ask(text, prompt_logprobs=1), *walk.settled(), ask(text, prompt_logprobs=1), *walk.settled(), ask(text)]
        (cold, warm, without), _ = walk.run(asked)
        told(result="equal tokens")
        assert (cold["hit"], warm["hit"], without["hit"]) == (0, 0, 512)
        assert cold["tokens"] == warm["tokens"] == without["tokens"]


@slow
def test_a_salt_is_a_cache_of_its_own(world, models, tmp_path):
    walk, text = llama_walk(world, models, tmp_path), prompt("salts", 600)
    asked = [ask(text, salt="one"), *walk.settled(), ask(text, salt="two"), *walk.settled(), ask(text), *walk.settled()]
    (one, two, none, again), _ = walk.run([*asked, ask(text, salt="two")])
    assert [one["hit"], two["hit"], none["hit"], again["hit"]] == [0, 0, 0, 512]
    assert one["tokens"] == two["tokens"] == none["tokens"] == again["tokens"]


@slow
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_requests_preempted_for_want_of_blocks_are_answered_as_if_alone(policy, world, models, tmp_path):
    """float32, so that a batch of another size computes the same tokens."""
    with record.named(f"preemption_{policy}", f"preemption, scheduling by {policy}", 400) as told:
        walk = llama_walk(
            world, models, tmp_path, scheduling_policy=policy, block_size=32, num_gpu_blocks_override=60, max_model_len=1600,
            max_num_batched_tokens=96, max_num_seqs=8, dtype="float32",
        )
        texts = [prompt(f"preempt {policy} {i}", 400) for i in range(8)]
        many = {"ask_all": texts, "max_tokens": 150}
        if policy == "priority":
            many["priority"] = [len(texts) - i for i in range(len(texts))]
        alone = [step for text in texts[:3] for step in (ask(text, 150, off=True), {"reset": True})]
        (*alone, cold, warm), _ = walk.run([*alone, many, *walk.settled(), many])
        told(hits=warm["hit"], result="equal tokens")
        assert warm["preemptions"] > 0, "the test must make vLLM preempt"
        assert warm["hit"] >= 256 * len(texts)
        assert cold["tokens"][:3] == warm["tokens"][:3] == [one["tokens"] for one in alone]


@slow
def test_weights_changed_in_place_under_a_running_engine(world, models, tmp_path):
    """reset_cache() drops the namespace: what the old weights computed is not hit, by nobody."""
    with record.named("weights_in_place", "weights changed in place, with reset_prefix_cache(reset_connector=True)", 600) as told:
        path = shutil.copytree(models("llama", 7), tmp_path / "model")
        walk, text = Walk(world, tmp_path, path), prompt("in place", 600)
        steps = [ask(text), *walk.settled(), ask(text), {"copy": [str(models("llama", 8)), str(path)]}, {"reload": True}]
        steps += [{"reset": "external"}, ask(text, off=True), {"reset": True}, ask(text), *walk.settled(), ask(text)]
        (old, hit, alone, new, again), _ = walk.run(steps)
        told(hits=again["hit"], result="equal tokens")
        assert (old["hit"], hit["hit"], new["hit"], again["hit"]) == (0, 512, 0, 512)
        assert old["tokens"] == hit["tokens"] != alone["tokens"] == new["tokens"] == again["tokens"]
        (other,), _ = Walk(world, tmp_path, models("llama", 7)).run([ask(text)])
        assert (other["hit"], other["tokens"]) == (0, old["tokens"]), "an engine of the old files shares nothing with this one"


@slow
def test_two_models_of_equal_shape_at_one_path(world, models, tmp_path):
    path, text = tmp_path / "model", prompt("one path", 600)
    answers = []
    for seed in (3, 4):
        shutil.copytree(models("llama", seed), path, dirs_exist_ok=True)
        walk = Walk(world, tmp_path, path)
        (cold, warm), log = walk.run([ask(text), *walk.settled(), ask(text)])
        assert (cold["hit"], warm["hit"]) == (0, 512) and cold["tokens"] == warm["tokens"]
        answers.append(cold["tokens"])
    assert answers[0] != answers[1] and re.search(r"differs? .*weights", log)


@slow
def test_adapters(world, models, tmp_path):
    """An adapter hits its own KV; another one under the same name, number and path misses, and so does the model alone."""
    with record.named("lora", "LoRA; another adapter under the same name misses", 600) as told:
        path, text = tmp_path / "adapter", prompt("adapter", 600)
        lora = ["a", 1, str(path)]
        tokens = []
        for seed in (1, 2):
            shapes.make_adapter(path, seed)
            walk = llama_walk(world, models, tmp_path, enable_lora=True, max_lora_rank=8)
            asked = [ask(text, lora=lora), *walk.settled(), ask(text, lora=lora), *walk.settled()]
            (cold, warm, alone, zeroed), log = walk.run(
                [*asked, ask(text), *walk.zeroed(), ask(text, lora=lora)] if seed == 2 else [*asked, ask(text), *asked[:1]]
            )
            assert "run without the cache" not in log
            assert (cold["hit"], warm["hit"]) == (0, 512)
            assert cold["tokens"] == warm["tokens"] != alone["tokens"]
            tokens.append(cold["tokens"])
        told(hits=warm["hit"], result="equal tokens")
        assert tokens[0] != tokens[1]
        assert zeroed["hit"] == 512 and zeroed["tokens"] != cold["tokens"]


@slow
def test_an_image_in_the_prompt(world, models, tmp_path):
    """The engine's hash covers the image: another one under the same tokens misses."""
    with record.named("image", "an image before the prompt (BLIP-2 shape)", 616) as told:
        path = shapes.make_image_model(tmp_path)
        text = [4 + token % 1000 for token in prompt("image", 600)]
        walk = Walk(world, tmp_path, path, skip_tokenizer_init=False, limit_mm_per_prompt={"image": 1})
        one, two = ask(text, image=1), ask(text, image=2)
        steps = [one, *walk.settled(), one, *walk.settled(), two, *walk.settled(), two, *walk.zeroed(), one]
        (cold, warm, other, again, zeroed), _ = walk.run(steps)
        told(hits=warm["hit"], result="equal tokens")
        assert [cold["hit"], warm["hit"], other["hit"], again["hit"], zeroed["hit"]] == [0, 512, 0, 512, 512]
        assert cold["tokens"] == warm["tokens"] and other["tokens"] == again["tokens"]
        assert zeroed["tokens"] != cold["tokens"]
