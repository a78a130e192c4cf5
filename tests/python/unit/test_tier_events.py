"""KV events of the tier against fakes: announced after the chunk's arrival, reported removed after
its loss, and bounded."""

import types

import pytest

pytest.importorskip("vllm")

from fakes import Client, Request, setup  # noqa: E402
from vllm.distributed.kv_events import MEDIUM_CPU, BlockRemoved, BlockStored  # noqa: E402
from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash  # noqa: E402

from larder.vllm import tier_events  # noqa: E402
from larder.vllm.keys import chunk_hashes  # noqa: E402
from larder.vllm.spaces import Space  # noqa: E402

SPACE = Space(0)


def shown(hashes):
    """The form of events."""
    return [maybe_convert_block_hash(one) for one in hashes]


def keys_of(request, chunks):
    return chunk_hashes(setup(), request, 0, chunks, ())


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class World:
    """Chunks of 128 tokens in blocks of 32."""

    def __init__(self):
        self.client, self.clock = Client(), Clock()
        self.events = tier_events.TierEvents(setup(), self.client, self.clock)

    def request(self, tokens=256, seed=0, **fields):
        made = Request("r", range(seed, seed + tokens), **fields)
        return made

    def later(self, seconds=1.0):
        self.clock.now += seconds
        return self.events.take()


@pytest.fixture
def world():
    return World()


def test_a_chunk_is_announced_once_present(world):
    request = world.request()
    world.events.note(request, SPACE, 0, keys_of(request, 2))
    assert world.later() == []
    world.client.stored.add(request.block_hashes[3])
    (stored,) = world.later()
    assert isinstance(stored, BlockStored)
    assert (
        stored.block_hashes == shown(request.block_hashes[:4]) and stored.parent_block_hash is None
    )
    assert stored.token_ids == request.tokens[:128] and stored.block_size == 32
    assert (stored.medium, stored.ownership, stored.locality) == (MEDIUM_CPU, "larder", "LOCAL")
    world.client.stored.add(request.block_hashes[7])
    (second,) = world.later()
    assert [second.parent_block_hash] == shown(request.block_hashes[3:4])
    assert second.token_ids == request.tokens[128:]
    assert world.later() == []


def test_evicted_chunks_are_reported_removed_once(world):
    request = world.request(512)
    keys = request.block_hashes[3::4]
    world.client.stored.update(keys)
    world.events.note(request, SPACE, 0, keys_of(request, 4))
    assert len(world.later()) == 4
    world.client.stored -= {keys[1], keys[3]}
    gone = world.later()
    assert all(isinstance(event, BlockRemoved) for event in gone)
    assert [event.block_hashes for event in gone] == [
        shown(request.block_hashes[4:8]),
        shown(request.block_hashes[12:16]),
    ]
    assert {(event.medium, event.ownership) for event in gone} == {(MEDIUM_CPU, "larder")}
    assert world.later() == []
    world.client.stored.add(keys[1])
    world.events.note(request, SPACE, 1, keys[1])
    assert [type(event) for event in world.later()] == [BlockStored]


def test_chunks_never_stored_are_abandoned(world):
    request = world.request()
    world.events.note(request, SPACE, 0, keys_of(request, 2))
    assert world.later(tier_events.PENDING_S + 1) == []
    world.client.stored.update(request.block_hashes)
    assert world.later() == []


def test_known_chunks_are_not_announced_again(world):
    request = world.request(128)
    world.client.stored.update(request.block_hashes)
    for _ in range(3):
        world.events.note(request, SPACE, 0, keys_of(request, 1))
    assert len(world.later()) == 1
    world.events.note(request, SPACE, 0, keys_of(request, 1))
    assert world.later() == []


def test_chunks_forgotten_over_the_limit_are_reported_removed(world, monkeypatch):
    monkeypatch.setattr(tier_events, "MOST_ANNOUNCED", 2)
    request = world.request(512)
    world.client.stored.update(request.block_hashes)
    world.events.note(request, SPACE, 0, keys_of(request, 4))
    events = world.later()
    assert [type(event) for event in events] == [BlockStored] * 4 + [BlockRemoved] * 2
    assert [event.block_hashes for event in events[4:]] == [
        shown(request.block_hashes[:4]),
        shown(request.block_hashes[4:8]),
    ]


def test_pending_announcements_are_bounded(world, monkeypatch):
    monkeypatch.setattr(tier_events, "MOST_PENDING", 3)
    request = world.request(1280)
    world.client.stored.update(request.block_hashes)
    world.events.note(request, SPACE, 0, keys_of(request, 10))
    assert len(world.later()) == 3


def test_namespaces_are_told_apart(world):
    adapter = types.SimpleNamespace(adapter_id=7, name="poet")
    request = world.request(128, lora_request=adapter)
    world.client.stored.add((3, request.block_hashes[3]))
    world.events.note(request, SPACE, 0, keys_of(request, 1))
    assert world.later() == []
    world.events.note(request, Space(3, "adapter: x\n"), 0, keys_of(request, 1))
    (stored,) = world.later()
    assert (stored.lora_id, stored.lora_name) == (7, "poet")


def test_steps_that_follow_at_once_cost_nothing(world):
    request = world.request(128)
    world.events.note(request, SPACE, 0, keys_of(request, 1))
    assert world.events.take() == []
    world.client.stored.update(request.block_hashes)
    world.client.fail = "lookup"  # the chunk would be asked for
    assert world.events.take() == []


def test_only_an_engine_that_publishes_events_has_them():
    asked = types.SimpleNamespace(
        kv_events_config=types.SimpleNamespace(enable_kv_cache_events=True)
    )
    assert tier_events.wanted(asked)
    asked.kv_events_config.enable_kv_cache_events = False
    assert not tier_events.wanted(asked)
    assert not tier_events.wanted(types.SimpleNamespace(kv_events_config=None))


def test_a_chunk_with_a_picture_is_looked_for_by_its_key_and_told_by_vllms_hashes(world):
    request = world.request()
    keys = chunk_hashes(setup(), request, 0, 2, ((130, b"name"),))
    assert keys[:32] == request.block_hashes[3] and keys[32:] != request.block_hashes[7]
    world.client.stored.update([keys[:32], request.block_hashes[7]])
    world.events.note(request, SPACE, 0, keys)
    (first,) = world.later()
    world.client.stored.add(keys[32:])
    (second,) = world.later()
    assert [*first.block_hashes, *second.block_hashes] == shown(request.block_hashes)
    assert second.parent_block_hash == first.block_hashes[-1]
