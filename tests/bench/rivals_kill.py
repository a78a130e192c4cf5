"""Part "kill" of bench-rivals: the cache's server is killed with SIGKILL under one user's traffic,
and is back after one second.

The user asks one prompt again and again. Each time the engine's own cache is reset before, so that
only the server can give a hit. Larder's engines hit in mapped memory while larderd is down, too.
"used again" is the first hit that follows a miss, stored into the new server. Without any miss, it
is the first hit after the return of the server. LMCache's clients wait up to 300 s for a dead
server: a request ends after RIVALS_KILL_BOUND_S (default 45), and is then a lower bound."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

from harness.larderd import Larderd
from larder.completions import hit_tokens, reset_prefix_cache, stream_completion
from larder.server import ServerError
from rivals_arms import BUILD, NAME, Arm, LmcacheServer, both, start_larderd
from rivals_ttft import CONTINUATION, Asked, Void, token_ids

PROMPT = token_ids(1, 512)
BEFORE_S, DOWN_S, AFTER_S = 4.0, 1.0, 12.0
BOUND_S = float(os.environ.get("RIVALS_KILL_BOUND_S", "45"))


@dataclass
class Answer:
    begin: float  # time.monotonic()
    seconds: float
    hit: int
    broken: str = ""  # the reason for a void answer

    @property
    def end(self) -> float:
        return self.begin + self.seconds


class Traffic(threading.Thread):
    """Asks in a loop until stop(), or until an answer does not come. Read `answers` after
    stop()."""

    def __init__(self, engine: Asked, expected: list[int]):
        super().__init__(daemon=True)
        self.engine, self.expected = engine, expected
        self.answers: list[Answer] = []
        self._end = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._end.is_set() and not (self.answers and self.answers[-1].broken):
            self.answers.append(self._ask())

    def _ask(self) -> Answer:
        url = self.engine.server.url
        begin = time.monotonic()
        try:
            reset_prefix_cache(url)
            before = hit_tokens(url)[1]
            begin = time.monotonic()
            tokens = stream_completion(url, NAME, PROMPT, CONTINUATION, timeout_s=BOUND_S).token_ids
            seconds = time.monotonic() - begin
            hit = int(hit_tokens(url)[1] - before)
        # TypeError: a stopped engine has no metrics
        except (ServerError, OSError, TypeError) as error:
            return Answer(begin, time.monotonic() - begin, 0, str(error) or type(error).__name__)
        return Answer(
            begin,
            seconds,
            hit,
            "" if tokens == self.expected else "another answer than the cold one",
        )

    def stop(self, patience_s: float) -> None:
        """A request without an end after patience_s stays without an answer."""
        self._end.set()
        self.join(patience_s)


def started_again(arm: Arm):
    """The same server once more: same name, same socket or ports."""
    old = arm.cache
    if isinstance(old, Larderd):
        return start_larderd(BUILD / "rivals", old.shm_name, log_name="larderd-again.log")
    return LmcacheServer(BUILD / "rivals", old.shm_name, old.ports, log_name="lmcache-again.log")


def kill_under(arm: Arm, model: str) -> dict:
    with arm.engine(model, "kill") as server:
        engine = Asked(arm, server)
        server.wait_ready(progress=print)
        engine.warm_up()
        cold = stream_completion(server.url, NAME, PROMPT, CONTINUATION)
        time.sleep(2)  # both store behind the answer
        traffic = Traffic(engine, cold.token_ids)
        time.sleep(BEFORE_S)
        killed = time.monotonic()
        arm.cache.kill()
        time.sleep(DOWN_S)
        back = time.monotonic()
        with started_again(arm):
            time.sleep(AFTER_S)
            traffic.stop(BOUND_S + 5)
        stopped = time.monotonic()
    return row_of(arm.name, cold.total_s, traffic.answers, killed, back, stopped)


def row_of(
    name: str, cold_s: float, answers: list[Answer], killed: float, back: float, stopped: float
) -> dict:
    wrong = [answer for answer in answers if answer.broken.startswith("another")]
    if wrong:
        raise Void(f"{name}: after the kill came {wrong[0].broken}")
    if not any(answer.hit and answer.end < killed for answer in answers):
        raise Void(f"{name}: nothing hit before the kill")
    unanswered = [answer for answer in answers if answer.broken]
    after = [answer for answer in answers if answer.end >= killed]
    since = [answer for answer in after if answer.begin >= back]
    misses = [answer.begin for answer in since if not answer.hit]
    hits = [answer for answer in since if answer.hit and answer.begin >= min(misses, default=back)]
    return {
        "part": "kill",
        "what": name,
        "cold_s": cold_s,
        "slowest_s": max((answer.seconds for answer in after), default=stopped - killed),
        "unanswered": unanswered[0].broken if unanswered else "",
        "rehit_s": hits[0].end - back if hits else None,
        "looked_s": stopped - back,
        "answers_after": [
            [round(answer.begin - killed, 2), round(answer.seconds, 3), answer.hit]
            for answer in after
        ],
    }


def tell(row: dict) -> None:
    slowest = (
        f">= {row['slowest_s']:.0f} s, stopped"
        if row["unanswered"]
        else f"{row['slowest_s']:.2f} s"
    )
    again = (
        f"{row['rehit_s']:.2f} s after the restart"
        if row["rehit_s"] is not None
        else f"not within {row['looked_s']:.0f} s"
    )
    print(
        f"  killed, down for 1 s, {row['what']:<8} slowest answer {slowest} (cold "
        f"{row['cold_s']:.2f} s); hits again {again}"
        + (f"; {row['unanswered']}" if row["unanswered"] else ""),
        flush=True,
    )


def run(model: str) -> list[dict]:
    rows = []
    with both("kill") as arms:
        for arm in arms.values():
            rows.append(kill_under(arm, model))
            tell(rows[-1])
    return rows
