"""Model shapes and engine settings, each in a vLLM of its own. LARDER_MODELS=all: every one, and a
record for docs/reference/compatibility.md; else only the settings of `make test`."""

import importlib.util
import os
import re
import shutil
import time
from pathlib import Path

import pytest
import record
import shapes
import torch
from engines import prompt
from settings import SETTINGS, Setting
from walk import Walk, judge, prompts_of, steps_of

ALL = os.environ.get("LARDER_MODELS") == "all"


slow = pytest.mark.slow  # conftest.py
ASLEEP = Path(__file__).with_name("asleep_run.py")


def walk_of(setting, world, folder, model):
    env = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"} if setting.processes else {}
    return Walk(world, folder, model, setting.extra, {**env, **setting.env}, **setting.llm)


def committed(world):
    return world.status()["memory"]["chunks_committed"]


@pytest.mark.parametrize("setting", [s for s in SETTINGS if ALL or s.in_test], ids=lambda s: s.name)
def test_setting(setting, world, models, tmp_path):
    began, before = time.monotonic(), committed(world)
    with record.of(setting) as told:
        if (
            setting.llm.get("kv_cache_dtype", "").startswith("fp8")
            and not torch.cpu._is_avx512_supported()
        ):
            pytest.skip("vLLM keeps KV in fp8 on processors with AVX-512 alone")
        if setting.needs and importlib.util.find_spec(setting.needs) is None:
            pytest.skip(f"the package {setting.needs} is not installed")
        walk = walk_of(setting, world, tmp_path, models(setting.model))
        how = {"script": Path(__file__).with_name(setting.script)} if setting.script else {}
        results, log = walk.run(steps_of(setting, walk), **how)
        told(seconds=time.monotonic() - began)
        told(result="equal tokens", hits=results[4]["hit"])
        assert "Larder is off" not in log, re.findall(r"Larder is off.*", log)
        told(**judge(setting, results))
        assert setting.chunks in (0, committed(world) - before), (
            "the shared part of several ranks is stored once"
        )
        if setting.pattern:
            assert results[2]["drafts"] > 0, "the test must make vLLM speculate"


def llama_walk(world, models, folder, **llm):
    return Walk(world, folder, models("llama"), **llm)


def ask(tokens, max_tokens=16, **more):
    return {"ask": tokens, "max_tokens": max_tokens, **more}


@slow
def test_prompt_logprobs_are_right_and_never_hit(world, models, tmp_path):
    """vLLM computes the whole prompt for requests with prompt_logprobs. The computed chunks are
    stored all the same, for requests without. The control has no prompt_logprobs: zeroed KV changes
    its answer, and no answer with prompt_logprobs."""
    what = "prompt_logprobs: computed, never hit; stored for others"
    setting = Setting("prompt_logprobs", what, ask={"prompt_logprobs": 1}, own_namespace=False)
    with record.of(setting) as told:
        walk, (whole, _, _) = llama_walk(world, models, tmp_path), prompts_of(setting)
        more = [ask(whole), *walk.settled(), ask(whole, prompt_logprobs=1), *walk.settled()]
        results, _ = walk.run([*steps_of(setting, walk, more), *walk.settled(), ask(whole)])
        first_alone, tail_alone, cold, local, warm, first, tail, without, after, zeroed, control = (
            results
        )
        told(
            result="equal tokens and log probabilities",
            local=local["local"],
            tail="computed",
            zeroed="other tokens without prompt_logprobs",
        )
        with_them = [one for one in results if one["prompt_logprobs"]]
        assert len(with_them) == 9 and {(one["hit"], one["local"]) for one in with_them} == {(0, 0)}
        assert (without["hit"], control["hit"]) == (512, 512)

        def said(one):
            return one["tokens"], one["prompt_logprobs"]

        assert said(cold) == said(local) == said(warm) == said(after) == said(zeroed)
        assert said(first) == said(first_alone) and said(tail) == said(tail_alone)
        assert len(cold["prompt_logprobs"]) == len(whole) - 1
        assert without["tokens"] == cold["tokens"] != control["tokens"]


@slow
def test_a_salt_is_a_cache_of_its_own(world, models, tmp_path):
    walk, text = llama_walk(world, models, tmp_path), prompt("salts", 600)
    asked = [
        ask(text, salt="one"),
        *walk.settled(),
        ask(text, salt="two"),
        *walk.settled(),
        ask(text),
        *walk.settled(),
    ]
    (one, two, none, again), _ = walk.run([*asked, ask(text, salt="two")])
    assert [one["hit"], two["hit"], none["hit"], again["hit"]] == [0, 0, 0, 512]
    assert one["tokens"] == two["tokens"] == none["tokens"] == again["tokens"]


@slow
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_requests_preempted_for_want_of_blocks_are_answered_as_if_alone(
    policy, world, models, tmp_path
):
    """float32, so that a batch of another size computes the same tokens. Of 400 tokens 256 are a
    chunk. For a prompt asked again at once, vLLM's own cache has the 384 of whole blocks."""
    with record.named(
        f"preemption_{policy}", f"preemption, scheduling by {policy}; 8 requests at once", 400
    ) as told:
        walk = llama_walk(
            world,
            models,
            tmp_path,
            scheduling_policy=policy,
            block_size=32,
            num_gpu_blocks_override=60,
            max_model_len=1600,
            max_num_batched_tokens=96,
            max_num_seqs=8,
            dtype="float32",
        )
        texts = [prompt(f"preempt {policy} {i}", 400) for i in range(8)]
        tails = [
            text[:256] + prompt(f"preempt {policy} tail {i}", 140) for i, text in enumerate(texts)
        ]
        alone = [
            step
            for text in texts[:3] + tails[:3]
            for step in (ask(text, 150, off=True), {"reset": True})
        ]

        def many(prompts):
            order = (
                {"priority": [len(prompts) - i for i in range(len(prompts))]}
                if policy == "priority"
                else {}
            )
            return {"ask_all": prompts, "max_tokens": 150, **order}

        steps = [
            *alone,
            many(texts),
            *walk.settled(),
            many(texts),
            *walk.settled(),
            many(tails),
            *walk.settled(),
        ]
        steps += [ask(texts[0], 150), ask(texts[0], 150), *walk.zeroed(), many(texts)]
        (*alone, cold, warm, tail, one, local, zeroed), _ = walk.run(steps)
        told(result="equal tokens", hits=warm["hit"], local=local["local"])
        told(tail=f"{tail['hit']} of {8 * 396}", zeroed="other tokens")
        for batch in (cold, warm, tail, zeroed):
            assert batch["preemptions"] > 0, "the test must make vLLM preempt"
        for batch in (warm, tail, zeroed):
            assert batch["hit"] >= 256 * len(texts)
        assert (one["hit"], one["local"], local["hit"], local["local"]) == (256, 0, 0, 384)
        alone = [answer["tokens"] for answer in alone]
        assert cold["tokens"] == warm["tokens"] and cold["tokens"][:3] == alone[:3]
        assert tail["tokens"][:3] == alone[3:]
        assert one["tokens"] == local["tokens"] == alone[0]
        assert all(wrong != right for wrong, right in zip(zeroed["tokens"], cold["tokens"]))


@slow
# covers F-074
def test_weights_changed_in_place_under_a_running_engine(world, models, tmp_path):
    """After the reset the engine hits no KV of the old weights. An engine of the old files hits
    that KV, and no KV of the new weights."""
    with record.named(
        "weights_in_place",
        "weights changed in place, with reset_prefix_cache(reset_connector=True)",
        600,
    ) as told:
        path = shutil.copytree(models("llama", 7), tmp_path / "model")
        walk, text = Walk(world, tmp_path, path), prompt("in place", 600)
        steps = [
            ask(text),
            *walk.settled(),
            ask(text),
            {"copy": [str(models("llama", 8)), str(path)]},
            {"reload": True},
        ]
        steps += [
            {"reset": "external"},
            ask(text, off=True),
            {"reset": True},
            ask(text),
            *walk.settled(),
            ask(text),
        ]
        (old, hit, alone, new, again), _ = walk.run(steps)
        told(hits=again["hit"], result="equal tokens")
        assert (old["hit"], hit["hit"], new["hit"], again["hit"]) == (0, 512, 0, 512)
        assert old["tokens"] == hit["tokens"] != alone["tokens"] == new["tokens"] == again["tokens"]
        (other,), _ = Walk(world, tmp_path, models("llama", 7)).run([ask(text)])
        assert (other["hit"], other["tokens"]) == (512, old["tokens"]), (
            "an engine of the old files finds the KV of these files"
        )


@slow
# covers F-026
def test_an_engine_that_sleeps(world, models, tmp_path):
    """During sleep the KV tensors are overwritten: once beside a preempted request with stores
    under way, and once between two requests. No earlier chunk is hit, by the rule of weights
    changed in place: vLLM resets its connector's cache for each sleep. float32, since the preempted
    request computes in one step what it had computed in two kinds of steps."""
    with record.named(
        "sleep_mode",
        "sleep mode, the KV memory overwritten meanwhile (by a stand-in for vLLM's allocator)",
        600,
    ) as told:
        walk = Walk(
            world,
            tmp_path,
            models("llama"),
            env={"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "LARDER_TEST_SLOW_STORES_MS": "400"},
            enable_sleep_mode=True,
            dtype="float32",
        )
        text = prompt("sleeps", 600)
        asked = [*walk.settled(), ask(text), *walk.settled(), ask(text)]
        steps = [
            ask(text, 60, off=True),
            {"reset": True},
            {"sleep_within": text, "max_tokens": 60},
            *asked,
            {"sleep": 1},
            *asked,
        ]
        (alone, kept, *others, zeroed), log = walk.run(
            [*steps, *walk.zeroed(), ask(text)], script=ASLEEP
        )
        told(hits=others[-1]["hit"], result="equal tokens", zeroed="other tokens")
        assert "Larder is off" not in log and log.count("KV memory is away") == 2
        assert kept["tokens"] == alone["tokens"]
        assert [one["hit"] for one in others] == [0, 512, 0, 512] and {
            one["local"] for one in others
        } == {0}
        assert all(one["tokens"] == alone["tokens"][:16] != zeroed["tokens"] for one in others)
        # A prompt asked twice during its store tells of no store and no refusal.
        stored = [
            one
            for one in re.findall(r"Stored (\d+) chunks, .*?(\d+) refused", log)
            if one != ("0", "0")
        ]
        assert stored == [("0", "4"), ("4", "0"), ("4", "0")], (
            "chunks that were not read before the memory went are not stored"
        )


@slow
def test_two_models_of_equal_shape_at_one_path(world, models, tmp_path):
    with record.named(
        "one_path", "another model of equal shape at the same path misses", 600
    ) as told:
        path, text = tmp_path / "model", prompt("one path", 600)
        answers = []
        for seed in (3, 4):
            shutil.copytree(models("llama", seed), path, dirs_exist_ok=True)
            walk = Walk(world, tmp_path, path)
            (cold, warm), log = walk.run([ask(text), *walk.settled(), ask(text)])
            assert (cold["hit"], warm["hit"]) == (0, 512) and cold["tokens"] == warm["tokens"]
            answers.append(cold["tokens"])
        told(hits=warm["hit"], result="equal tokens")
        assert answers[0] != answers[1] and re.search(r"differs? .*weights", log)


@slow
# covers F-097
def test_adapters(world, models, tmp_path):
    """An adapter hits its own KV. Another adapter under the same name, number and path misses, and
    so does the model alone."""
    path = tmp_path / "adapter"
    setting = Setting(
        "lora",
        "LoRA; another adapter under the same name misses",
        llm={"enable_lora": True, "max_lora_rank": 8},
        ask={"lora": ["a", 1, str(path)]},
    )
    with record.of(setting) as told:
        answers = []
        for seed in (1, 2):
            shapes.make_adapter(path, seed)
            walk, (whole, _, _) = (
                walk_of(setting, world, tmp_path, models("llama")),
                prompts_of(setting),
            )
            results, log = walk.run(
                steps_of(setting, walk, [ask(whole, off=True), *walk.settled()])
            )
            assert "run without the cache" not in log
            told(result="equal tokens", **judge(setting, results))
            cold, without = results[2], results[-2]
            assert cold["tokens"] != without["tokens"], "the adapter must change the answer"
            answers.append(cold["tokens"])
        assert answers[0] != answers[1]


@slow
def test_an_image_in_the_prompt(world, models, tmp_path):
    """The engine's hash covers the image: another one under the same tokens misses."""
    setting = Setting(
        "image",
        "an image before the prompt (BLIP-2 shape)",
        llm={"skip_tokenizer_init": False, "limit_mm_per_prompt": {"image": 1}},
        ask={"image": 1},
        tokens=616,
        ahead=16,
    )
    with record.of(setting) as told:
        walk, (whole, _, _) = (
            walk_of(setting, world, tmp_path, shapes.make_image_model(tmp_path)),
            prompts_of(setting),
        )
        two = ask(whole, image=2)
        results, _ = walk.run(steps_of(setting, walk, [two, *walk.settled(), two, *walk.settled()]))
        told(result="equal tokens", **judge(setting, results))
        other, again = results[-3:-1]
        assert (other["hit"], again["hit"]) == (0, 512) and other["tokens"] == again[
            "tokens"
        ] != results[2]["tokens"]
