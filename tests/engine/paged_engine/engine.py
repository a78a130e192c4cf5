"""The engine: one request at a time, prefilled in steps and decoded token by token, over paged KV.

The engine looks up its own prefix cache first, then Larder for the rest. If both together have the
whole prompt, the engine computes the last token again for its logits. Owned by one thread."""

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
    local_tokens: int  # tokens of the prompt from the engine's own prefix cache
    loaded_tokens: int
    stored_chunks: int
    ttft_s: float  # from the request with its block hashes to the first token
    step_s: list[float]  # of each token after the first


class Engine:
    def __init__(
        self,
        shape,
        device="cpu",
        dtype=torch.bfloat16,
        seed=0,
        blocks=64,
        block_size=16,
        step_tokens=1 << 14,
    ):
        """step_tokens: the most tokens of a prompt in one step."""
        self.shape, self.device, self.dtype, self.seed, self.step_tokens = (
            shape,
            device,
            dtype,
            seed,
            step_tokens,
        )
        self.kv = KvTensors(shape, blocks, block_size, device, dtype)
        self.pool = BlockPool(blocks)
        self.model = Model(shape, random_weights(shape, seed, device, dtype), self.kv)
        self.larder = None

    def attach(self, socket, chunk_tokens=256):
        """Uses Larder through this socket from now on. Returns at once, attached or not."""
        text = fingerprint_of(
            self.shape, self.seed, self.device, self.dtype, self.kv.block_size, chunk_tokens
        )
        self.larder = LarderLink(socket, text, self.shape.name, self.kv, chunk_tokens)
        return self.larder

    def close(self):
        if self.larder is not None:
            self.larder.close()
            self.larder = None

    def request(self, prompt):
        return Request.of(prompt, self.kv.block_size)

    def generate(self, prompt, new_tokens=1, larder=True, own=True):
        """larder, own: whether this request uses Larder and the engine's own prefix cache."""
        return self.run(self.request(prompt), new_tokens, self.larder if larder else None, own)

    def run(self, request, new_tokens=1, link=None, own=True):
        begin = time.perf_counter()
        self._place(request, new_tokens, own)
        try:
            logits, loaded = self._first_token(request, link, own)
            answer = Answer(
                [logits], [int(logits.argmax())], request.local_tokens, loaded, 0, 0.0, []
            )
            answer.ttft_s = time.perf_counter() - begin
            for _ in range(new_tokens - 1):
                self._decode(request, link, own, answer)
            answer.stored_chunks = link.end_stores() if link is not None else 0
            return answer
        finally:
            if link is not None:
                link.end_stores()  # the copies read the pages until then
            self.pool.free(request.table)

    def forget(self):
        """Forgets the own prefix cache and writes NaN over all KV. Later answers use only computed
        or loaded KV, and bytes that were not loaded show in the logits. On a GPU the NaN are only
        queued on the stream, so a load that does not wait for the stream loses its bytes."""
        self.pool.reset()
        self.kv.scribble()

    def synchronize(self):
        if torch.device(self.device).type == "cuda":
            torch.cuda.synchronize(self.device)

    def _place(self, request, new_tokens, own):
        """Takes blocks for the prompt and the new tokens."""
        size = self.kv.block_size
        if own:
            request.table = self.pool.hits(request.hashes[: request.prompt_tokens // size])
            request.cached_blocks = len(request.table)
        request.local_tokens = request.computed = len(request.table) * size
        try:
            request.table += self.pool.allocate(
                -(-(request.prompt_tokens + new_tokens) // size) - len(request.table)
            )
        except Exception:
            self.pool.free(request.table)
            raise

    def _first_token(self, request, link, own):
        """(logits behind the prompt, loaded tokens). After a failed load the engine computes the
        tokens and never looks them up again for this request."""
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
        """The logits behind the prompt. The first step waits for each layer of `loading` and for
        the end of the load. Its output counts only after the whole load has succeeded."""
        end = request.prompt_tokens
        request.computed = min(request.computed, end - 1)
        while request.computed < end:
            logits = self._step(
                request, min(self.step_tokens, end - request.computed), link, own, loading
            )
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
        first, last, stored_before = (
            request.computed,
            request.computed + count,
            request.stored_chunks,
        )
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
