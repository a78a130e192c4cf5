"""The engine: one request at a time, prefilled in steps and decoded token by token, over paged KV.

Its own prefix cache is asked first, then Larder for what that does not have. Where all of a prompt was found, its last token is computed
again, since its logits are needed. Owned by one thread."""

import time
from dataclasses import dataclass

import torch

from .block_pool import BlockPool
from .kv_tensors import KvTensors
from .larder_link import LarderLink
from .loading import LoadFailed
from .model import Model
from .namespace import fingerprint_of
from .request import Request
from .weights import random_weights


@dataclass
class Answer:
    logits: list[torch.Tensor]  # of each new token, on the engine's device
    tokens: list[int]
    local_tokens: int  # of the prompt, by the engine's own prefix cache
    loaded_tokens: int
    stored_chunks: int
    ttft_s: float  # from the request with its block hashes to its first token
    step_s: list[float]  # of each token after the first


class Engine:
    def __init__(self, shape, device="cpu", dtype=torch.bfloat16, seed=0, blocks=64, block_size=16, step_tokens=1 << 14):
        """step_tokens: a prompt is computed so many tokens at a time."""
        self.shape, self.device, self.dtype, self.seed, self.step_tokens = shape, device, dtype, seed, step_tokens
        self.kv = KvTensors(shape, blocks, block_size, device, dtype)
        self.pool = BlockPool(blocks)
        self.model = Model(shape, random_weights(shape, seed, device, dtype), self.kv)
        self.larder = None

    def attach(self, socket, chunk_tokens=256):
        """Larder by this socket from here on. Waits for nothing."""
        text = fingerprint_of(self.shape, self.seed, self.device, self.dtype, self.kv.block_size, chunk_tokens)
        self.larder = LarderLink(socket, text, self.shape.name, self.kv, chunk_tokens)
        return self.larder

    def close(self):
        if self.larder is not None:
            self.larder.close()
            self.larder = None

    def request(self, prompt):
        return Request.of(prompt, self.kv.block_size)

    def generate(self, prompt, new_tokens=1, larder=True, own=True):
        """larder, own: whether this request uses the one cache and the other."""
        return self.run(self.request(prompt), new_tokens, self.larder if larder else None, own)

    def run(self, request, new_tokens=1, link=None, own=True):
        begin = time.perf_counter()
        self._place(request, new_tokens, own)
        try:
            logits, loaded = self._first_token(request, link, own)
            answer = Answer([logits], [int(logits.argmax())], request.local_tokens, loaded, 0, 0.0, [])
            answer.ttft_s = time.perf_counter() - begin
            for _ in range(new_tokens - 1):
                self._decode(request, link, own, answer)
            answer.stored_chunks = link.end_stores() if link is not None else 0
            return answer
        finally:
            if link is not None:
                link.end_stores()  # their pages are read until then
            self.pool.free(request.table)

    def forget(self):
        """Forgets every prefix of its own, and scribbles over all KV: what an answer uses from here on was computed or loaded. On a GPU the
        scribbling is only queued, so that a load that did not wait for the stream would lose its bytes to it."""
        self.pool.reset()
        self.kv.scribble()

    def synchronize(self):
        if torch.device(self.device).type == "cuda":
            torch.cuda.synchronize(self.device)

    def _place(self, request, new_tokens, own):
        """Blocks for the prompt and what follows."""
        size = self.kv.block_size
        if own:
            request.table = self.pool.hits(request.hashes[: request.prompt_tokens // size])
            request.cached_blocks = len(request.table)
        request.local_tokens = request.computed = len(request.table) * size
        try:
            request.table += self.pool.allocate(-(-(request.prompt_tokens + new_tokens) // size) - len(request.table))
        except Exception:
            self.pool.free(request.table)
            raise

    def _first_token(self, request, link, own):
        """(logits behind the prompt, tokens loaded). What could not be loaded is computed, and never looked up again."""
        loading = self._load(request, link)
        if loading is not None:
            try:
                if not link.by_layer:
                    loading.end()
                request.computed = loading.tokens
                logits = self._prefill(request, link, own, loading if link.by_layer else None)
                return logits, loading.tokens - request.local_tokens
            except LoadFailed:
                request.load_failed = True
                request.computed = request.local_tokens
        return self._prefill(request, link, own), 0

    def _load(self, request, link):
        hit = link.hit_tokens(request) if link is not None else 0
        if hit <= request.local_tokens:
            return None
        loading = link.load(request, hit)
        request.load_failed = loading is None
        return loading

    def _prefill(self, request, link, own, loading=None):
        """The logits behind the prompt. The first step waits for each layer of `loading`, and for its end."""
        end = request.prompt_tokens
        request.computed = min(request.computed, end - 1)
        while request.computed < end:
            logits = self._step(request, min(self.step_tokens, end - request.computed), link, own, loading)
            loading = None
        return logits

    def _decode(self, request, link, own, answer):
        begin = time.perf_counter()
        request.append(answer.tokens[-1])
        logits = self._step(request, 1, link, own)
        answer.logits.append(logits)
        answer.tokens.append(int(logits.argmax()))
        answer.step_s.append(time.perf_counter() - begin)

    def _step(self, request, count, link, own, loading=None):
        first, last, stored_before = request.computed, request.computed + count, request.stored_chunks
        begun = link is not None and link.begin_store(request, last)
        try:
            logits = self._forward(request, first, last, loading)
        except LoadFailed:
            link.abandon_store(request, stored_before)
            raise
        if begun:
            link.submit_store()
        request.computed = last
        if own:
            full = last // self.kv.block_size
            for number in range(request.cached_blocks, full):
                self.pool.cache(request.table[number], request.hashes[number])
            request.cached_blocks = max(full, request.cached_blocks)
        return logits

    def _forward(self, request, first, last, loading):
        tokens = request.tokens[first:last]
        if loading is None:
            return self.model.forward(tokens, first, request.table)
        logits = self.model.forward(tokens, first, request.table, loading.wait_layer)
        loading.end()
        return logits
