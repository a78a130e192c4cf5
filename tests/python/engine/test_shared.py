"""Prefill and decode apart: two served engines, each over a larderd of its own, and one shared
Redis. The first engine computes and stores, the second loads KV that it never computed, with equal
tokens. If either engine is lost, the prompt is computed.

The proxy is the example for users (shim/python/examples/prefill_decode.py)."""

import importlib.util
import os
import signal
import threading
import time
import types

import pytest
from engines import (
    OFF,
    PATIENCE_S,
    SLACK_S,
    Engine,
    answers,
    committed_chunks,
    prompt,
    start_larderd,
    timed,
    wait_for,
)
from harness.redis import Missing, RedisServer

from larder import completions

CHUNK = 128
# a second of computing: on a busy machine a probe takes milliseconds, and may cost a fiftieth
TOKENS = 5000
WHOLE = TOKENS // CHUNK * CHUNK  # 39 chunks of 256 KiB


@pytest.fixture(scope="module")
def world(root, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    world = types.SimpleNamespace(folder=folder, model=model, chunks=0)
    try:
        world.redis = RedisServer(folder / "redis")
    except Missing as why:
        pytest.skip(str(why))
    with (
        world.redis,
        node(world, "prefill") as world.prefill_larderd,
        node(world, "decode") as world.decode_larderd,
        Engine(model, world.prefill_larderd.socket, folder, role="kv_producer") as world.prefill,
        Engine(model, world.decode_larderd.socket, folder, role="kv_consumer") as world.decode,
    ):
        for engine, larderd in (
            (world.prefill, world.prefill_larderd),
            (world.decode, world.decode_larderd),
        ):
            engine.wait_ready()
            engine.larderd = larderd
            engine.ask(prompt("speed", TOKENS), **OFF)  # now the engine knows its computing speed
        world.example = load(root / "shim" / "python" / "examples" / "prefill_decode.py")
        with proxy(world, world.prefill, world.decode) as world.url:
            yield world


def node(world, name):
    """A larderd of its own name and folder; two larderd share by the prefix."""
    extra = f"backend:\n  url: {world.redis.url}\n  prefix: shared\n"
    return start_larderd(world.folder / name, extra=extra)


def load(path):
    spec = importlib.util.spec_from_file_location("prefill_decode", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class proxy:
    def __init__(self, world, prefill, decode):
        self._server = world.example.serve(prefill.url, decode.url, 0)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}
        )

    def __enter__(self):
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def apart(world, text, url=None):
    """(answer by way of the proxy, tokens that the decode engine loaded), with empty caches of both
    engines."""
    world.prefill.reset()
    world.decode.reset()
    before = world.decode.hits()
    answer = completions.stream_completion(url or world.url, "tiny", text, 8, timeout_s=120)
    return answer, world.decode.hits() - before


def fetched(engine):
    """Chunks that each fetch brought."""
    time.sleep(1)  # vLLM's log is written half a second late
    return [int(count) for count in engine.logged(r"Fetched (\d+) of \d+ chunks")]


def looked(engine):
    time.sleep(1)
    return len(engine.logged("Looked: "))


def put(world, seed, tokens=TOKENS):
    """A prompt that the prefill engine has computed, and Redis has."""
    text = prompt(seed, tokens)
    before = world.redis.keys()
    world.prefill.store(text, 1)
    world.redis.wait_settled(before + tokens // CHUNK)
    return text


def check(answer, hit, expected):
    assert hit not in (0, WHOLE) or answer == expected[hit == WHOLE]


def loaded(world, text):
    """Whether all of the prompt, which is only in Redis, came from Redis. On a busy machine Redis
    may be late."""
    expected = answers(world.decode, text)
    before = sum(fetched(world.decode))
    answer, hit = world.decode.ask_and_count(text)
    check(answer, hit, expected)
    return hit == WHOLE and sum(fetched(world.decode)) - before == WHOLE // CHUNK


def test_chunks_computed_on_one_node_are_loaded_on_the_other(world):
    def across(attempt=iter(range(100))):
        return loaded(world, put(world, f"across {next(attempt)}"))

    wait_for(across, PATIENCE_S, "loading the other engine's chunks")
    text, ttfts = put(world, "timed"), []
    for fields in (OFF, {}, {}):
        world.decode.reset()
        ttfts.append(completions.stream_completion(world.decode.url, "tiny", text, 8, **fields))
    cold, warm, again = ttfts
    print(
        f"TTFT computed {cold.ttft_s:.3f} s, from Redis {warm.ttft_s:.3f} s, "
        f"from memory {again.ttft_s:.3f} s"
    )


def test_the_prompt_is_computed_once(world):
    def once(attempt=iter(range(100))):
        text = prompt(f"once {next(attempt)}", TOKENS)
        expected = answers(world.decode, text)
        answer, hit = apart(world, text)
        check(answer.token_ids, hit, expected)
        return hit == WHOLE

    wait_for(once, PATIENCE_S, "the decode engine loading all that the prefill engine computed")


def test_a_prefill_engine_loads_nothing_and_a_decode_engine_stores_nothing(world):
    text = put(world, "roles")
    assert world.prefill.ask_and_count(text, 1)[1] == 0
    before = committed_chunks(world.decode_larderd), world.redis.keys()
    world.decode.alone(prompt("not stored", TOKENS))
    world.decode.reset()
    world.decode.ask(prompt("not stored", TOKENS))
    assert (committed_chunks(world.decode_larderd), world.redis.keys()) == before


def test_an_unknown_prompt_is_probed_once_and_computed(world):
    text = prompt("nobody", TOKENS)
    alone = world.decode.alone(text)
    before = looked(world.decode)
    assert world.decode.ask_and_count(text) == (alone, 0)
    assert looked(world.decode) - before <= 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_backend_is_a_recompute(world, how):
    texts = [put(world, f"lost {how} {i}") for i in range(3)]
    alone = [world.decode.alone(text) for text in texts]
    computing_s = min(timed(world.decode.alone, text)[1] for text in texts)
    os.kill(world.redis.child.pid, how)
    try:
        for text, expected in zip(texts, alone):
            world.decode.reset()
            answer, took_s = timed(world.decode.ask, text)
            assert took_s < 2 * computing_s + SLACK_S
            assert answer == expected
    finally:
        if how == signal.SIGSTOP:
            os.kill(world.redis.child.pid, signal.SIGCONT)
        else:
            world.redis.restart()

    def used_again(attempt=iter(range(100))):
        return loaded(world, put(world, f"back {how} {next(attempt)}"))

    wait_for(used_again, 2 * PATIENCE_S, "using the backend again")


def test_a_lost_prefill_engine_is_a_recompute(world):
    text = prompt("no prefill", TOKENS)
    alone = world.decode.alone(text)
    absent = types.SimpleNamespace(url="http://127.0.0.1:9")
    with proxy(world, absent, world.decode) as url:
        assert apart(world, text, url)[0].token_ids == alone


def test_a_lost_decode_engine_is_a_recompute(world):
    text = prompt("no decode", TOKENS)
    alone = world.decode.alone(text)
    absent = types.SimpleNamespace(url="http://127.0.0.1:9")
    with proxy(world, world.prefill, absent) as url:
        assert apart(world, text, url)[0].token_ids == alone


def test_both_on_one_larderd(world):
    with Engine(
        world.model, world.prefill_larderd.socket, world.folder, role="kv_consumer"
    ) as other:
        other.wait_ready()
        other.larderd = world.prefill_larderd
        text = prompt("one larderd", TOKENS)
        _, expected = answers(other, text)
        with proxy(world, world.prefill, other) as url:
            world.prefill.reset()
            other.reset()
            answer = completions.stream_completion(url, "tiny", text, 8, timeout_s=120)
            assert (answer.token_ids, other.hits()) == (expected, WHOLE)


# covers F-127
def test_no_hook_ever_failed(world):
    assert not world.prefill.logged(r"Larder is off") and not world.decode.logged(r"Larder is off")
