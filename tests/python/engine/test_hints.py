"""Hints of requests over HTTP to a real vLLM: the answer names the tiers, released prompts leave
memory first, and kept prompts stay."""

import json
import re
import types

import pytest
from engines import PATIENCE_S, Engine, prompt, start_larderd, wait_for

from larder.server import Server

CHUNK, TOKENS = 128, 2000
WHOLE = TOKENS // CHUNK * CHUNK  # 15 chunks of 256 KiB
MEMORY, FILL = "24MiB", 6  # slots for 95 chunks: FILL prompts are 90
LOW, RELEASE, KEEP = {"priority": "low"}, {"release": True}, {"keep": "10m"}
TEMPLATE = "{% for one in messages %}{{ one.content }}{% endfor %}"


@pytest.fixture(scope="module")
def world(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hints")
    (folder / "disk").mkdir()
    (folder / "template").write_text(TEMPLATE)
    larderd = start_larderd(
        folder,
        MEMORY,
        extra=f"disk:\n  path: {folder}/disk\n  size: 1GiB\n  write: through\n",
    )
    with Engine(
        model,
        folder / "larder.sock",
        folder,
        "--enable-prompt-tokens-details",
        "--chat-template",
        str(folder / "template"),
    ) as engine:
        engine.wait_ready()
        engine.larderd = larderd
        engine.store(prompt("speed", TOKENS))  # now the engine knows its computing speed
        yield types.SimpleNamespace(engine=engine, larderd=larderd)
    larderd.stop()


def complete(world, text, hints=None, path="/v1/completions", reset=True, **params):
    """The response, with vLLM's own cache empty before."""
    if reset:
        world.engine.reset()
    body = {"model": "tiny", "max_tokens": 1, "temperature": 0}
    body |= (
        {"messages": [{"role": "user", "content": text}]} if "chat" in path else {"prompt": text}
    )
    if hints is not None or params:
        body["kv_transfer_params"] = {**params, **({} if hints is None else {"larder": hints})}
    with Server(world.engine.url).request("POST", path, body, 120) as response:
        return json.load(response)


def served(response):
    return response["kv_transfer_params"]["larder"]["served"]


def by_tier(world, text):
    """(tokens of memory, tokens of the disk)."""
    one = served(complete(world, text, {}))
    assert one["shared"] == 0 and one["cached_tokens"] == one["memory"] + one["disk"]
    return one["memory"], one["disk"]


def cached(response):
    return response["usage"]["prompt_tokens_details"]["cached_tokens"]


def stored(world, seed, hints=None):
    """A new prompt, in memory and on the disk."""
    text = prompt(seed, TOKENS)
    before = world.larderd.status()["disk"]["chunks"]
    complete(world, text, hints)
    wait_for(
        lambda: world.larderd.status()["disk"]["chunks"] >= before + WHOLE // CHUNK,
        PATIENCE_S,
        "writing to the disk",
    )
    return text


@pytest.fixture
def full(world, request):
    """FILL - 1 prompts, the oldest first, which fill the memory but for one prompt."""
    return [stored(world, f"{request.node.name} {number}") for number in range(FILL - 1)]


def test_the_answer_names_tokens_of_memory(world):
    text = prompt("memory", TOKENS)
    cold = complete(world, text, {})
    assert served(cold) == {"cached_tokens": 0, "memory": 0, "disk": 0, "shared": 0}
    warm = complete(world, text, {}, x={"y": 1})
    assert served(warm) == {"cached_tokens": WHOLE, "memory": WHOLE, "disk": 0, "shared": 0}
    assert set(warm["kv_transfer_params"]) == {"larder"}
    assert (cached(cold), cached(warm)) == (0, WHOLE)
    assert warm["choices"][0]["text"] == cold["choices"][0]["text"]


def test_tokens_of_vllms_own_cache_are_vllms_alone(world):
    text = prompt("own", TOKENS)
    complete(world, text)
    own = complete(world, text, {}, reset=False)
    assert served(own)["cached_tokens"] == 0 and cached(own) == WHOLE


def test_a_request_without_hints_has_no_answer(world):
    text = prompt("no hints", TOKENS)
    assert complete(world, text).get("kv_transfer_params") is None
    assert complete(world, text, x=1).get("kv_transfer_params") is None
    assert complete(world, text, "off").get("kv_transfer_params") is None


def test_chats_have_answers_too(world):
    text = "one two three four five six seven " * 60
    complete(world, text, {}, "/v1/chat/completions")
    warm = complete(world, text, {}, "/v1/chat/completions")
    assert served(warm)["memory"] == cached(warm) >= CHUNK


def test_a_released_prompt_leaves_first_and_comes_from_the_disk(world, full):
    released = stored(world, "released", RELEASE)
    stored(world, "next")
    memory, disk = by_tier(world, full[0])
    assert (memory, disk) == (WHOLE, 0), "older, and still in memory"
    memory, disk = by_tier(world, released)
    assert memory < WHOLE and memory + disk == WHOLE, "the tail has left"


def test_a_prompt_of_low_priority_leaves_behind_the_head_that_others_stored(world, full):
    newest = full[-1]
    head = newest[: 10 * CHUNK]
    world.engine.reset()
    complete(world, head + prompt("low", 5 * CHUNK + 40), LOW)
    stored(world, "next to low")
    assert by_tier(world, full[0]) == (WHOLE, 0)
    assert by_tier(world, newest) == (WHOLE, 0), "its head is in the other prompt, too"


def kept_chunks(world):
    return world.larderd.status()["memory"]["keep"]["chunks"]


def test_a_kept_prompt_outlives_a_flood_until_its_release(world):
    kept, other = stored(world, "kept", KEEP), stored(world, "not kept")
    wait_for(lambda: kept_chunks(world) == WHOLE // CHUNK, PATIENCE_S, "the keep")
    for number in range(FILL):
        stored(world, f"flood {number}")
    assert by_tier(world, kept) == (WHOLE, 0)
    assert by_tier(world, other) == (0, WHOLE), "as old, and only on the disk"
    complete(world, kept, RELEASE)
    wait_for(lambda: kept_chunks(world) == 0, PATIENCE_S, "the release")


# covers F-476
def test_wrong_hints_are_named_and_cost_no_hit(world):
    text = prompt("wrong", TOKENS)
    complete(world, text)
    response = complete(world, text, {**RELEASE, "priority": "lo"})
    fault = "larder.priority is 'lo', not \"normal\" or \"low\""
    assert response["kv_transfer_params"]["larder"]["fault"] == fault
    assert served(response)["memory"] == WHOLE
    wait_for(lambda: fault in world.engine.log.read_text(errors="replace"), PATIENCE_S, "a line")
    wait_for(lambda: wrong_hints(world) == 1, PATIENCE_S, "vLLM's metrics")


def wrong_hints(world):
    with Server(world.engine.url).request("GET", "/metrics") as response:
        text = response.read().decode()
    return sum(
        float(value)
        for value in re.findall(r"^larder_engine_wrong_hints_total\{.*\} (\S+)$", text, re.M)
    )
