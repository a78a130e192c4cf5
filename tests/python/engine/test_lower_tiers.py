"""One served engine over a larderd with too little memory. Prompts come back from the disk, with
equal tokens, also after larderd was restarted without its memory. No engine waits for a slow or
stopped disk."""

import glob
import os
import signal
import time
import types

import pytest
from engines import (
    PATIENCE_S,
    SLACK_S,
    Engine,
    committed_chunks,
    prompt,
    start_larderd,
    timed,
    wait_for,
)
from harness.throttle import STALLED, Throttle, Unavailable

from larder import completions
from larder.server import ServerError

CHUNK = 128
TOKENS = 2000
WHOLE = TOKENS // CHUNK * CHUNK  # 15 chunks of 256 KiB
# Slots for 95 chunks and their digests; the others are 105.
MEMORY, MEMORY_BYTES, OTHERS = "24MiB", 24 << 20, 7


@pytest.fixture(scope="module")
def world(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("below")
    (folder / "disk").mkdir()
    world = types.SimpleNamespace(folder=folder, name=f"larder-below-{os.getpid()}")
    world.start = lambda: start(world)
    with Engine(model, folder / "larder.sock", folder) as engine:
        engine.wait_ready()
        world.engine = engine
        world.start()
        engine.store(prompt("speed", TOKENS))  # now the engine knows its computing speed
        yield world
    world.larderd.stop()


def start(world):
    # Through: stored chunks are soon on the disk, whatever the memory has room for.
    world.larderd = world.engine.larderd = start_larderd(
        world.folder,
        MEMORY,
        world.name,
        f"disk:\n  path: {world.folder}/disk\n  size: 1GiB\n  write: through\n",
    )
    wait_for(
        lambda: len(world.larderd.status()["sessions"]["attached"]) == 2, PATIENCE_S, "attaching"
    )


@pytest.fixture
def engine(world):
    return world.engine


def on_disk(world):
    return world.larderd.status()["disk"]["chunks"]


def store_below(world, seed):
    """A prompt on the disk and not in memory, and its answer. Chunks that left memory unwritten,
    because the disk was still stopped, are stored again."""
    text = prompt(seed, TOKENS)
    alone = world.engine.alone(text)
    wanted = on_disk(world) + (1 + OTHERS) * (WHOLE // CHUNK)

    def all_written():
        assert world.engine.store(text) == alone
        push_out(world, seed)
        time.sleep(0.5)
        return on_disk(world) >= wanted

    wait_for(all_written, PATIENCE_S, "writing to the disk")
    return text, alone


def push_out(world, seed):
    for text in others(seed):
        world.engine.store(text, 1)


def others(seed):
    return [prompt(f"{seed} other {i}", TOKENS) for i in range(OTHERS)]


def fetched(engine):
    """Chunks that each fetch brought."""
    time.sleep(1)  # vLLM's log is written half a second late
    return [int(count) for count in engine.logged(r"Fetched (\d+) of \d+ chunks")]


def from_disk(world, text, alone):
    """Whether all of the prompt, which is not in memory, came from the disk. On a busy machine the
    disk may be late: then the prompt is computed, in memory, and evicted again. After a partial hit
    the engine computes in other steps, and with such weights the answer may change. vLLM alone
    gives the same answer with that part in its own cache."""
    before = sum(fetched(world.engine))
    answer, hit = world.engine.ask_and_count(text)
    assert answer == alone or hit not in (0, WHOLE)
    if hit == WHOLE and sum(fetched(world.engine)) - before == WHOLE // CHUNK:
        return True
    push_out(world, "again")
    return False


def test_chunks_evicted_from_memory_are_loaded_from_disk(world, engine):
    text, alone = store_below(world, "plain")
    wait_for(lambda: from_disk(world, text, alone), PATIENCE_S, "the prompt from the disk")
    before = fetched(engine)
    assert engine.ask_and_count(text) == (alone, WHOLE), "and now from memory"
    assert fetched(engine) == before


def test_ten_times_the_memory_comes_from_the_disk(world, engine):
    text, alone = store_below(world, "many")
    texts = [(text, 8, alone)] + [(other, 1, None) for other in others("many")]
    deadline, began = time.monotonic() + 3 * PATIENCE_S, sum(fetched(engine))
    while (sum(fetched(engine)) - began) * (256 << 10) < 10 * MEMORY_BYTES:
        assert time.monotonic() < deadline, "too little comes from the disk"
        for tokens, count, expected in texts * 4:
            answer, hit = engine.ask_and_count(tokens, count)
            assert expected in (None, answer) or hit not in (0, WHOLE)
    wait_for(lambda: world.larderd.status()["holds"] == 0, PATIENCE_S, "giving up the holds")


def test_a_larderd_without_its_memory_has_its_disk(world, engine):
    """As after a restart of the whole machine."""
    text, alone = store_below(world, "restart")
    world.larderd.stop()
    for name in glob.glob(f"/dev/shm/{world.name}*"):
        os.unlink(name)
    world.start()
    wait_for(lambda: from_disk(world, text, alone), PATIENCE_S, "the prompt from the disk")


@pytest.fixture
def throttle(world):
    try:
        with Throttle(world.larderd.child.pid, world.folder / "disk") as throttle:
            yield throttle
    except Unavailable as why:
        pytest.skip(str(why))


# covers F-046, F-146
def test_a_stopped_disk_costs_one_deadline_once(world, engine, throttle):
    texts = [store_below(world, f"stopped {i}") for i in range(3)]
    computing_s = min(timed(engine.alone, text)[1] for text, _ in texts)
    before = fetched(engine)
    throttle.reads(STALLED)
    engine.larderd = None  # chunks under a read stay granted: no test waits for the reads here
    _, first_s = timed(check, engine, *texts[0])
    assert first_s < 2 * computing_s + SLACK_S
    check(engine, *texts[1])
    check(engine, *texts[2])
    assert [count for count in fetched(engine)[len(before) :] if count] == []
    assert len(fetched(engine)) - len(before) <= 1, (
        "a disk that is known to stand is not waited for"
    )
    throttle.reads(0)
    engine.larderd = world.larderd
    text, alone = store_below(world, "moving again")
    wait_for(lambda: from_disk(world, text, alone), 2 * PATIENCE_S, "using the disk again")


def check(engine, text, alone):
    engine.reset()
    assert engine.ask(text) == alone


# covers F-046
def test_a_stopped_larderd_is_waited_for_no_longer_than_a_deadline(world, engine):
    text, alone = store_below(world, "asleep")
    _, computing_s = timed(engine.alone, text)
    committed_chunks(world.larderd)
    os.kill(world.larderd.child.pid, signal.SIGSTOP)
    try:
        engine.larderd = None
        _, took_s = timed(check, engine, text, alone)
        assert took_s < 2 * computing_s + SLACK_S
    finally:
        os.kill(world.larderd.child.pid, signal.SIGCONT)
        engine.larderd = world.larderd
    wait_for(lambda: engine.ask_and_count(text) == (alone, WHOLE), PATIENCE_S, "hitting again")


def test_an_abort_while_a_fetch_runs_leaves_nothing_behind(world, engine):
    text, alone = store_below(world, "aborted")
    engine.reset()
    os.kill(world.larderd.child.pid, signal.SIGSTOP)
    try:
        with pytest.raises((OSError, ServerError)):
            completions.stream_completion(engine.url, "tiny", text, 8, timeout_s=0.05)
    finally:
        os.kill(world.larderd.child.pid, signal.SIGCONT)
    wait_for(lambda: engine.ask_and_count(text)[0] == alone, PATIENCE_S, "answering")
    wait_for(lambda: world.larderd.status()["holds"] == 0, PATIENCE_S, "giving up the holds")


# covers F-127
def test_no_hook_ever_failed(engine):
    assert not engine.logged(r"Larder is off")
