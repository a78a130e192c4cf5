"""The users of bench-serve: their requests, one after the other without a pause, and their results.

A scenario is a generator of prompts (token ids) for one user. The generator gets each answer, so
that a chat goes on from the tokens of its own arm. The same seed gives every arm the same users."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from larder.completions import stream_completion

ANSWER_TOKENS = 32
VOCABULARY = 32000
Prompts = Generator[list[int], list[int], None]


def some_tokens(source: random.Random, count: int) -> list[int]:
    return [source.randrange(3, VOCABULARY) for _ in range(count)]


def chat(source: random.Random, _shared: random.Random) -> Prompts:
    """Conversations of a user: 500 tokens at first, 120 more each turn behind the answer, a new
    conversation before 2,000 are full."""
    while True:
        conversation = some_tokens(source, 500)
        while len(conversation) <= 2000:
            answer = yield conversation
            conversation = conversation + answer + some_tokens(source, 120)


def document(source: random.Random, _shared: random.Random) -> Prompts:
    """A document of 1,500 tokens of the user's own, eight questions of 60 tokens, then another
    document."""
    while True:
        text = some_tokens(source, 1500)
        for _ in range(8):
            yield text + some_tokens(source, 60)


def system(source: random.Random, shared: random.Random) -> Prompts:
    """One system prompt of 800 tokens for all users, and messages of 100 to 600 tokens, each asked
    once."""
    prompt = some_tokens(shared, 800)
    while True:
        yield prompt + some_tokens(source, source.randrange(100, 600))


SCENARIOS: dict[str, Callable[[random.Random, random.Random], Prompts]] = {
    "chat": chat,
    "document": document,
    "system": system,
}


@dataclass
class Seen:
    """The results of the users of one slice."""

    seconds: float = 0.0
    ttfts: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    answer_tokens: int = 0
    broken: list[str] = field(default_factory=list)  # why a request got no whole answer


def run_users(url: str, model: str, scenario: str, users: int, seconds: float, seed: str) -> Seen:
    """Users that ask until the time is up. The time of a last request under way counts to its
    end."""
    seen, lock = Seen(), threading.Lock()
    begin = time.monotonic()

    def user(number: int) -> None:
        prompts = SCENARIOS[scenario](random.Random(f"{seed} {number}"), random.Random(seed))
        prompt = next(prompts)
        while time.monotonic() - begin < seconds:
            try:
                answer = stream_completion(url, model, prompt, ANSWER_TOKENS, timeout_s=300)
                fault = (
                    ""
                    if len(answer.token_ids) == ANSWER_TOKENS
                    else f"{len(answer.token_ids)} tokens, not {ANSWER_TOKENS}"
                )
            except Exception as error:  # a thread: its end would be silent
                fault = f"{type(error).__name__}: {error}"
            with lock:
                if fault:
                    seen.broken.append(fault)
                    return
                seen.ttfts.append(answer.ttft_s)
                seen.prompt_tokens += len(prompt)
                seen.answer_tokens += ANSWER_TOKENS
            prompt = prompts.send(answer.token_ids)

    threads = [threading.Thread(target=user, args=(number,)) for number in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen.seconds = time.monotonic() - begin
    return seen
