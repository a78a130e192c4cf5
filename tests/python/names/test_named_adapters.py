"""LoRA adapters are named by the files that vLLM loaded and by vLLM's settings for adapters."""

import shutil
from pathlib import Path

import pytest
from engine_life import alone, ask, live
from engines import prompt
from hanging_mount import CannotMount, HangingMount
from shapes import make_adapter

TEXT = prompt("adapters", 600)
SLOW, HANG_S = Path(__file__).with_name("slow_adapters_run.py"), 20
HANGING = Path(__file__).with_name("hanging_adapters_run.py")
DOWNLOADS = Path(__file__).with_name("downloads_run.py")
LORA = {"enable_lora": True, "max_lora_rank": 8}


@pytest.fixture
def adapter(tmp_path):
    return make_adapter(tmp_path / "adapter", 1)


def named(path, name="a", number=1):
    return {"lora": [name, number, str(path)]}


def test_the_engines_target_modules(world, models, adapter):
    asked = named(adapter)
    (all_modules,) = live(world, models("llama"), ask(TEXT, **asked), **LORA)
    one_module, without = live(
        world,
        models("llama"),
        ask(TEXT, **asked),
        alone(TEXT, **asked),
        lora_target_modules=["o_proj"],
        **LORA,
    )
    (again,) = live(world, models("llama"), ask(TEXT, **asked), **LORA)
    assert (one_module["hit"], again["hit"]) == (0, 512)
    assert one_module["tokens"] == without["tokens"] != all_modules["tokens"] == again["tokens"]


# covers F-088
def test_an_adapter_that_is_overwritten_between_its_loading_and_its_first_request(
    world, models, adapter, tmp_path
):
    """A training loop's habit. vLLM answers by the loaded files; a later engine has the new
    adapter."""
    new = make_adapter(tmp_path / "new", 2)
    asked = named(adapter)
    load = {"add_lora": asked["lora"]}
    old, old_alone, _ = live(
        world,
        models("llama"),
        load,
        {"copy": [str(new), str(adapter)]},
        ask(TEXT, **asked),
        alone(TEXT, **asked),
        ask(TEXT, **asked),
        **LORA,
    )
    later, later_alone, hit = live(
        world,
        models("llama"),
        load,
        ask(TEXT, **asked),
        alone(TEXT, **asked),
        ask(TEXT, **asked),
        **LORA,
    )
    assert (old["hit"], later["hit"], hit["hit"]) == (0, 0, 512)
    assert (
        old["tokens"]
        == old_alone["tokens"]
        != later["tokens"]
        == later_alone["tokens"]
        == hit["tokens"]
    )


# covers F-089
def test_an_adapter_that_vllm_lets_go_and_loads_again_from_other_files(
    world, models, adapter, tmp_path
):
    """One adapter at a time: each request of the other one evicts the first."""
    other, new = make_adapter(tmp_path / "other", 3), make_adapter(tmp_path / "new", 2)
    one, two = named(adapter), named(other, "b", 2)
    first, _, hit, _, second, second_alone, third = live(
        world, models("llama"),
        ask(TEXT, **one), ask(TEXT, **two), ask(TEXT, **one), ask(TEXT, **two),
        {"copy": [str(new), str(adapter)]}, ask(TEXT, **one), alone(TEXT, **one), ask(TEXT, **one),
        max_loras=1, max_cpu_loras=1, **LORA,
    )  # fmt: skip
    assert (first["hit"], hit["hit"]) == (0, 512)  # vLLM counts the third one before its load fails
    assert (
        hit["tokens"]
        == first["tokens"]
        != second["tokens"]
        == second_alone["tokens"]
        == third["tokens"]
    )
    copy = shutil.copytree(new, tmp_path / "copy")
    (same,) = live(world, models("llama"), ask(TEXT, **named(copy)), **LORA)
    assert same["tokens"] == second["tokens"]


# covers F-095
def test_kv_of_earlier_files_in_vllms_own_cache_is_not_stored_under_the_name_of_the_new_ones(
    world, models, adapter, tmp_path
):
    """vLLM's block hash has only the adapter's name and path, and vLLM itself documents that it
    serves old blocks. Other engines must not."""
    other, new = make_adapter(tmp_path / "other", 3), make_adapter(tmp_path / "new", 2)
    one, two = named(adapter), named(other, "b", 2)
    # until the new files may be looked at
    wait = alone(prompt("meanwhile", 900), max_tokens=700, keeps=True)
    old, _, _, _, stale = live(
        world, models("llama"),
        ask(TEXT, keeps=True, **one), ask(TEXT, keeps=True, **two),
        {"copy": [str(new), str(adapter)]},
        ask(TEXT, keeps=True, **one), wait, ask(TEXT, keeps=True, **one),
        max_loras=1, max_cpu_loras=1, **LORA,
    )  # fmt: skip
    assert (old["local"], stale["local"]) == (0, 512), "vLLM has the old KV"
    fresh, without, hit = live(
        world, models("llama"), ask(TEXT, **one), alone(TEXT, **one), ask(TEXT, **one), **LORA
    )
    assert (fresh["hit"], hit["hit"]) == (0, 512)
    assert fresh["tokens"] == without["tokens"] == hit["tokens"] != old["tokens"]


# covers F-091
def test_an_adapter_on_a_slow_file_system_holds_up_no_step(world, models, adapter, tmp_path):
    """Until its files are read the adapter's requests run without the cache."""
    read, asked = tmp_path / "read", named(adapter)
    plain, early, steps, first, hit = live(
        world, models("llama"),
        ask(TEXT), ask(TEXT, **asked), {"longest_step": True}, {"await": str(read)},
        ask(TEXT, **asked), ask(TEXT, **asked),
        script=SLOW, env={"LARDER_TEST_ADAPTER_READ": str(read)}, **LORA,
    )  # fmt: skip
    assert steps["longest_s"] < HANG_S / 2
    assert (plain["hit"], early["hit"], first["hit"], hit["hit"]) == (0, 0, 0, 512)
    assert early["tokens"] == first["tokens"] == hit["tokens"] != plain["tokens"]


# covers F-091
def test_an_adapters_folder_that_hangs_holds_up_no_step(world, models, adapter, tmp_path):
    """A real mount without an answer. vLLM has the adapter in memory, and goes on."""
    (tmp_path / "try").mkdir()
    try:
        HangingMount(tmp_path / "try").end()
    except CannotMount as reason:
        pytest.skip(str(reason))
    asked = named(adapter)
    steps = [
        {"add_lora": asked["lora"]}, {"mount": str(adapter)},
        ask(TEXT, **asked), ask(TEXT), {"longest_step": True}, {"unmount": True},
        alone(prompt("meanwhile", 900), max_tokens=300, **asked),  # beyond LOOK_AGAIN_S
        ask(TEXT, **asked), ask(TEXT, **asked),
    ]  # fmt: skip
    early, plain, steps, _, first, hit = live(
        world, models("llama"), *steps, script=HANGING, **LORA
    )
    assert steps["longest_s"] < 1
    assert (early["hit"], plain["hit"], first["hit"], hit["hit"]) == (0, 0, 0, 512)
    assert early["tokens"] == first["tokens"] == hit["tokens"] != plain["tokens"]


def test_an_adapter_that_vllm_downloads_at_its_first_request(world, models, adapter, tmp_path):
    """The first request alone runs without the cache: afterwards vLLM has told the folder."""
    asked = named("org/adapter")
    env = {"HF_HUB_CACHE": str(tmp_path / "cache"), "LARDER_TEST_HUB": str(adapter)}
    first, stored, hit, without = live(
        world, models("llama"),
        ask(TEXT, **asked), ask(TEXT, **asked), ask(TEXT, **asked), alone(TEXT, **asked),
        script=DOWNLOADS, env=env, **LORA,
    )  # fmt: skip
    assert (first["hit"], stored["hit"], hit["hit"]) == (0, 0, 512)
    assert first["tokens"] == stored["tokens"] == hit["tokens"] == without["tokens"]
    (later,) = live(world, models("llama"), ask(TEXT, **asked), script=DOWNLOADS, env=env, **LORA)
    assert (later["hit"], later["tokens"]) == (512, hit["tokens"]), "the folder is there before"
