"""A real subscriber to a real vLLM's KV events sees larderd's chunks come and go, like a
cache-aware router."""

import json
import threading
import time
import types

import msgspec
import pytest
import zmq
from engines import PATIENCE_S, Engine, prompt, start_larderd, wait_for
from vllm.distributed.kv_events import BlockRemoved, BlockStored, KVEventBatch

BLOCK, CHUNK = 128, 128


class Subscriber:
    """A router's knowledge: the blocks of this tier by hash, and every event of the tier in
    order."""

    def __init__(self, endpoint):
        self.there, self.events = {}, []
        self.engines_own = 0  # events of vLLM's own cache
        self._stop = threading.Event()
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.connect(endpoint)
        self._socket.setsockopt_string(zmq.SUBSCRIBE, "")
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        decoder = msgspec.msgpack.Decoder(type=KVEventBatch)
        while not self._stop.is_set():
            if self._socket.poll(100):
                for event in decoder.decode(self._socket.recv_multipart()[-1]).events:
                    self._take(event)

    def _take(self, event):
        if getattr(event, "ownership", None) != "larder":
            self.engines_own += 1
            return
        self.events.append(event)
        if isinstance(event, BlockStored):
            self.there.update((one, event) for one in event.block_hashes)
        else:
            for one in event.block_hashes:
                # KeyError ends the thread, and the test: the block was never there
                del self.there[one]

    def alive(self):
        return self._thread.is_alive()

    def stop(self):
        self._stop.set()
        self._thread.join()
        self._socket.close(linger=0)


@pytest.fixture(scope="module")
def world(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    endpoint = f"ipc://{folder}/events"
    config = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": endpoint,
        "topic": "kv",
    }
    arguments = [
        "--block-size",
        str(BLOCK),
        "--max-model-len",
        "1600",
        "--kv-events-config",
        json.dumps(config),
    ]
    subscriber = Subscriber(endpoint)
    with (
        start_larderd(folder, "16MiB") as larderd,
        Engine(model, larderd.socket, folder, *arguments) as engine,
    ):
        engine.wait_ready()
        engine.larderd = larderd
        yield types.SimpleNamespace(larderd=larderd, engine=engine, subscriber=subscriber)
    subscriber.stop()


def step_until(world, condition, what):
    """Events go out with steps: a short prompt is asked until the awaited events have come."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert world.subscriber.alive(), (
            "the subscriber got a removal of a block that was never stored"
        )
        assert time.monotonic() < deadline, what
        world.engine.ask(prompt(time.monotonic(), 8), 4)
        time.sleep(0.06)


def test_stored_chunks_are_announced_with_their_tokens(world):
    text = prompt("stored", 4 * CHUNK + 10)
    world.engine.store(text)
    wait_for(lambda: world.subscriber.engines_own > 0, PATIENCE_S, "hearing of vLLM's own cache")
    step_until(world, lambda: len(world.subscriber.events) >= 4, "four chunks")
    # By their place in the prompt: larderd may commit chunks in another order.
    chunks = [text[begin : begin + CHUNK] for begin in range(0, 4 * CHUNK, CHUNK)]
    stored = sorted(world.subscriber.events[:4], key=lambda event: chunks.index(event.token_ids))
    assert all(isinstance(event, BlockStored) and event.medium == "CPU" for event in stored)
    assert [token for event in stored for token in event.token_ids] == text[: 4 * CHUNK]
    parents = [event.parent_block_hash for event in stored]
    assert parents == [None, *(event.block_hashes[-1] for event in stored[:-1])]
    assert {event.block_size for event in stored} == {BLOCK}


def test_evicted_chunks_are_announced_as_removed(world):
    """64 chunks of 256 KiB fit at most: chunks evicted for room go, and the rest equals larderd's
    status."""
    for seed in range(24):
        world.engine.ask(prompt(f"fill {seed}", 4 * CHUNK + 1), 1)

    def same():
        return len(world.subscriber.there) == world.larderd.status()["memory"]["slots"]["committed"]

    step_until(world, same, "as many blocks as larderd has")
    assert any(isinstance(event, BlockRemoved) for event in world.subscriber.events)
    assert len(world.subscriber.there) <= 64


def test_a_cleared_cache_is_empty_for_the_router_too(world):
    world.engine.store(prompt("cleared", 2 * CHUNK + 1))
    step_until(world, lambda: world.subscriber.there, "something to clear")
    status, _ = world.larderd.request("POST", "/v1/clear")
    assert status == 200
    step_until(world, lambda: not world.subscriber.there, "an empty tier")
