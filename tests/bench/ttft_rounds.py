"""Rounds of the benches of time to first token: prompts, what counts as a warm round, and an engine
in the state of service."""

from __future__ import annotations

import concurrent.futures
import random
import time

from harness.bench import Void
from harness.larderd import Larderd
from harness.vllm_server import VllmServer
from larder import larderd_metrics
from larder.completions import Completion, reset_prefix_cache, stream_completion

NAME = "demo"
CONTINUATION = 8
VOCABULARY = 32000
CHUNK_TOKENS = 128  # one block of CPU vLLM
# 4,096 tokens of the demo's model are 48 MiB of the engine's 2 GiB of KV pages.
ROUNDS_TO_WRITE_ALL = 44


def whole_chunks(prompts: list[list[int]]) -> int:
    return sum(len(prompt) // CHUNK_TOKENS for prompt in prompts)


def stored_chunks(larderd: Larderd) -> int:
    return sum(space["chunks"] for space in larderd.status()["namespaces"])


def wait_stored(larderd: Larderd, label: str, wanted: int, timeout_s: float = 5) -> None:
    """The engine does not wait for larderd to commit what it stored. Raises Void where it never
    comes to `wanted` chunks."""
    deadline = time.monotonic() + timeout_s
    while (stored := stored_chunks(larderd)) < wanted:
        if time.monotonic() > deadline:
            raise Void(
                f"{label}: larderd holds {stored} of {wanted} chunks {timeout_s:g} s after the "
                "cold round"
            )
        time.sleep(0.05)


class Warm:
    """One warm round: what larderd counts from its making on.
    The engine's own prefix cache must be empty by then."""

    def __init__(self, larderd: Larderd, label: str, prompts: list[list[int]]):
        self.label, self.prompts = label, prompts
        self.share = larderd_metrics.Share(larderd.metrics)

    def check(self, timeout_s: float = 3) -> float:
        """Larder's share of the round in milliseconds. Raises Void unless every prompt was loaded
        as far as it has whole chunks."""
        wanted = whole_chunks(self.prompts) * CHUNK_TOKENS
        if not self.share.wait(len(self.prompts), wanted, timeout_s):
            raise Void(
                f"{self.label}: in a warm round {self.share.tokens_hit()} of {wanted} tokens hit, "
                f"and {self.share.loads()} of {len(self.prompts)} loads ended well"
            )
        return sum(self.share.milliseconds().values())


def token_ids(seed: int, count: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(3, VOCABULARY) for _ in range(count)]


def ask_all(server: VllmServer, prompts: list[list[int]]) -> tuple[list[float], list[list[int]]]:
    """TTFTs in seconds and continuations of requests sent at once."""
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(
            pool.map(lambda p: stream_completion(server.url, NAME, p, CONTINUATION), prompts)
        )
    return [a.ttft_s for a in answers], [a.token_ids for a in answers]


def own_hit(server: VllmServer, label: str, prompt: list[int]) -> Completion:
    """The answer where vLLM's own prefix cache has the whole chunks.
    REQUIRES: the prompt was just asked."""
    answer = stream_completion(server.url, NAME, prompt, CONTINUATION)
    if answer.cached_tokens != (wanted := whole_chunks([prompt]) * CHUNK_TOKENS):
        raise Void(
            f"{label}: to compare with, vLLM's own cache had {answer.cached_tokens} of {wanted} "
            "tokens"
        )
    return answer


def write_all_pages(
    server: VllmServer, larderd: Larderd, chunks: int = 4096 // CHUNK_TOKENS
) -> None:
    """An engine in service has written all of its KV pages. Some virtual machines take pages back
    that hold nothing but the zeros of their making, and a load of 96 MiB into such pages takes 45
    ms of processor time instead of 6. vLLM takes free blocks in turn. The prompt has one
    token more than whole chunks: a hybrid would compute its last chunk anew in each round."""
    prompt = token_ids(2, 4096 + 1)
    before = stored_chunks(larderd)
    stream_completion(server.url, NAME, prompt, 1)
    wait_stored(larderd, "the engine's pages", before + chunks)
    for _ in range(ROUNDS_TO_WRITE_ALL):
        reset_prefix_cache(server.url)
        stream_completion(server.url, NAME, prompt, 1)
