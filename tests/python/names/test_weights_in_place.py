"""Weights that change in a running engine, which vLLM tells no connector."""

import shutil
import signal
import threading
from pathlib import Path

import pytest
from engine_life import alone, ask, live
from engines import prompt, start_larderd
from harness.redis import Missing, RedisServer

TEXT, OTHER = prompt("in place", 600), prompt("in place, another", 600)
EXTERNAL = {"reset": "external"}
PATIENCE_S = 60
ASLEEP = Path(__file__).parents[1] / "models" / "asleep_run.py"


# covers F-074
def test_weights_replaced_in_place_with_vllms_default_reset(world, models, tmp_path):
    """The old KV is not served under the new weights, and KV of the new weights not to engines of
    the old files."""
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
    assert (hit["hit"], hit["tokens"]) == (512, before["tokens"]), (
        "earlier chunks serve the engines of the old files"
    )


# covers F-075
def test_each_reset_has_a_namespace_of_its_own_and_empties_no_other(world, models):
    answers = live(
        world, models("llama"), ask(TEXT), EXTERNAL, ask(TEXT), ask(TEXT), EXTERNAL, ask(TEXT)
    )
    assert [answer["hit"] for answer in answers] == [0, 0, 512, 0]
    assert len({str(answer["tokens"]) for answer in answers}) == 1
    (other,) = live(world, models("llama"), ask(TEXT))
    assert other["hit"] == 512, "the resets of one engine cost another engine no chunk"


def redis_of(folder):
    try:
        return RedisServer(folder / "redis")
    except Missing as why:
        pytest.skip(str(why))


# covers F-075
def test_the_resets_of_one_engine_leave_a_shared_backend_as_it_is(models, tmp_path):
    """Two nodes share one Redis. Weights replaced on one node (a reset) take no chunk from the
    other."""
    redis = redis_of(tmp_path)

    def node(name):
        return start_larderd(
            tmp_path / name, extra=f"backend:\n  url: {redis.url}\n  prefix: shared\n"
        )

    with redis, node("one") as one, node("other") as other, node("third") as third:
        live(one, models("llama"), ask(TEXT))
        one.wait_until(lambda: one.status()["backend"]["chunks"] >= 4, PATIENCE_S)
        before = redis.wait_settled(4)
        speed = alone(prompt("speed", 1500))  # the cost of a fetch is compared with this
        _, shared, new, newer = live(
            other, models("llama"), speed, ask(TEXT), EXTERNAL, ask(TEXT), EXTERNAL, ask(TEXT)
        )
        assert [answer["hit"] for answer in (shared, new, newer)] == [512, 0, 0]
        assert redis.keys() >= before
        _, again = live(third, models("llama"), speed, ask(TEXT))
        assert (again["hit"], again["tokens"]) == (512, shared["tokens"]), (
            "a reset removes no chunk of others"
        )


# covers F-075
def test_a_reset_while_redis_is_stopped_and_a_sleep(models, tmp_path):
    """A reset cannot tell Redis that earlier chunks are gone, and the larderd that knows ends. A
    sleep takes no chunk from others."""
    redis = redis_of(tmp_path)
    extra = f"backend:\n  url: {redis.url}\n  prefix: shared\n"
    stored, stopped, was_reset, back = (
        tmp_path / name for name in ("stored", "stopped", "reset", "back")
    )
    larderds, wrong = [start_larderd(tmp_path / "node", name=tmp_path.name, extra=extra)], []

    def disturb():
        try:
            larderds[0].wait_until(stored.exists, 400)
            redis.wait_settled(8)
            redis.child.send_signal(signal.SIGSTOP)
            stopped.touch()
            larderds[0].wait_until(was_reset.exists, PATIENCE_S)
            larderds[0].kill()
            redis.child.send_signal(signal.SIGCONT)
            larderds.append(start_larderd(tmp_path / "node", name=tmp_path.name, extra=extra))
            back.touch()
        except Exception as error:
            wrong.append(error)

    thread = threading.Thread(target=disturb)
    thread.start()
    speed = alone(prompt("speed", 1500))  # the cost of a fetch is compared with this
    try:
        first, asleep, _, after = live(
            larderds[0], models("llama"),
            ask(TEXT), {"sleep": 1}, ask(TEXT), {"touch": str(stored)}, {"await": str(stopped)},
            EXTERNAL, {"touch": str(was_reset)}, {"await": str(back)}, speed, ask(TEXT),
            script=ASLEEP, enable_sleep_mode=True,
        )  # fmt: skip
        thread.join()
        assert (first["hit"], asleep["hit"], after["hit"]) == (0, 0, 0) and not wrong
        assert first["tokens"] == asleep["tokens"] == after["tokens"]
        _, other = live(larderds[1], models("llama"), speed, ask(TEXT))
        assert (other["hit"], other["tokens"]) == (512, first["tokens"]), (
            "neither the sleep nor the reset takes a chunk from others"
        )
    finally:
        for process in (*larderds, redis):
            process.stop()
