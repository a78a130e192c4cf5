"""Part "calls" of bench-rivals: lookup, store and retrieve from Python on the caches' own clients,
and the caches' idle memory. No engine.

Both move the same bytes between the same kind of pages: 12 layers, blocks of 128 tokens, chunks of
256, 12 KiB a token. LMCache's side is the client of LMCache's own `lmcache bench server`, polled
without pauses. Larder's lookup gets the block hashes, which vLLM has anyway. LMCache's lookup gets
the tokens, and the server hashes the tokens. A store counts until a lookup would find the chunks. A
retrieve counts until the bytes are in the pages; Larder has then verified the bytes, LMCache has
not. Before a retrieve, the pages are zeroed; afterwards, every byte is compared, untimed."""

from __future__ import annotations

import hashlib
import statistics
import struct
import time

import numpy
import torch
from larder import Client
from lmcache.cli.commands.bench.server_bench import client as lmcache_bench
from lmcache.cli.commands.bench.server_bench import helpers
from lmcache.cli.commands.bench.server_bench.config import BenchConfig
from rivals_arms import LmcacheServer, both, resident_bytes, threads
from rivals_ttft import Void

LAYERS, BLOCK_TOKENS, CHUNK_TOKENS = 12, 128, 256
PAGE_BYTES = BLOCK_TOKENS * 4 * 64 * 2 * 2  # heads, head size, K and V, bfloat16
MOST_TOKENS = 16384
BLOCKS = MOST_TOKENS // BLOCK_TOKENS
SIZES = [512, MOST_TOKENS]
ROUNDS = 9
LOOKUPS = 20  # a round, of LMCache; Larder makes a hundred times as many
# prompts of 16k tokens stored first, so that no timed round pays for untouched memory: 3 of 4 GiB
FILL = 15
PATIENCE_S = 10


def block_hash(prompt: int, chunk: int) -> bytes:
    """As even as an engine's, which larderd hashes no second time."""
    return hashlib.sha256(struct.pack("<QQ", prompt, chunk)).digest()[:16]


class Pages:
    """KV pages whose contents tell their places. words: one array a layer, of 64-bit words, the
    last axis within a block."""

    def __init__(self, words: list[numpy.ndarray], block_axis: int):
        self.words, self.axis = words, block_axis
        self.base = [layer.copy() for layer in words]

    def _part(self, layer: numpy.ndarray, blocks: int) -> numpy.ndarray:
        return layer[:blocks] if self.axis == 0 else layer[:, :blocks]

    def _stamp(self, prompt: int, number: int, shape: tuple) -> numpy.ndarray:
        return (
            numpy.arange(numpy.prod(shape), dtype=numpy.int64) + (number << 32) + (prompt << 44)
        ).reshape(shape)

    def write(self, prompt: int, blocks: int) -> None:
        for number, (layer, base) in enumerate(zip(self.words, self.base)):
            part = self._part(layer, blocks)
            part[...] = self._part(base, blocks)
            part[..., 0] = self._stamp(prompt, number, part.shape[:-1])

    def clear(self, blocks: int) -> None:
        for layer in self.words:
            self._part(layer, blocks)[...] = 0

    def check(self, prompt: int, blocks: int, who: str) -> None:
        for number, (layer, base) in enumerate(zip(self.words, self.base)):
            part, wanted = self._part(layer, blocks), self._part(base, blocks)
            if not numpy.array_equal(
                part[..., 0], self._stamp(prompt, number, part.shape[:-1])
            ) or not numpy.array_equal(part[..., 1:], wanted[..., 1:]):
                raise Void(f"{who}: wrong bytes in layer {number} of prompt {prompt}")


class LarderCalls:
    name = "larder"

    def __init__(self, socket: str):
        words = [
            numpy.random.default_rng(layer).integers(1, 1 << 62, (BLOCKS, PAGE_BYTES // 8))
            for layer in range(LAYERS)
        ]
        self.pages = Pages(words, block_axis=0)
        self.client = Client(socket, "bench rivals")
        group = (PAGE_BYTES, LAYERS, CHUNK_TOKENS // BLOCK_TOKENS)
        self.client.set_namespace("bench rivals, made-up pages", "bench", CHUNK_TOKENS, [group])
        self.client.register_pages(
            0, [(layer.ctypes.data, PAGE_BYTES, PAGE_BYTES, BLOCKS) for layer in words]
        )
        if not self.client.wait_attached(10_000):
            raise Void("larderd does not answer")

    def close(self) -> None:
        self.client.close()

    @staticmethod
    def _ids(tokens: int) -> bytes:
        return numpy.arange(tokens // BLOCK_TOKENS, dtype=numpy.uint32).tobytes()

    @staticmethod
    def _hashes(prompt: int, tokens: int) -> list[bytes]:
        return [block_hash(prompt, chunk) for chunk in range(tokens // CHUNK_TOKENS)]

    def store(self, prompt: int, tokens: int) -> float:
        hashes, ids = b"".join(self._hashes(prompt, tokens)), self._ids(tokens)
        begin = time.perf_counter()
        self.client.store_begin(hashes, 16, ids)
        stored = self.client.store_finish(1000 * PATIENCE_S)
        while self.client.lookup(hashes, 16) < tokens // CHUNK_TOKENS:
            if time.perf_counter() - begin > PATIENCE_S:
                raise Void(
                    f"larder: prompt {prompt} is not there {PATIENCE_S} s after its store: {stored}"
                )
        return time.perf_counter() - begin

    def lookups(self, prompt: int, tokens: int) -> list[float]:
        hashes, times = self._hashes(prompt, tokens), []
        for _ in range(100 * LOOKUPS):
            begin = time.perf_counter()
            found = self.client.lookup(b"".join(hashes), 16)
            times.append(time.perf_counter() - begin)
            if found != len(hashes):
                raise Void(f"larder: {found} of {len(hashes)} chunks found")
        return times

    def retrieve(self, prompt: int, tokens: int) -> float:
        hashes, ids = b"".join(self._hashes(prompt, tokens)), self._ids(tokens)
        begin = time.perf_counter()
        self.client.load(hashes, 16, ids)
        while not (ended := self.client.poll()):
            time.sleep(0.0001)
        seconds = time.perf_counter() - begin
        if not ended[0].ok:
            raise Void(f"larder: prompt {prompt} was not loaded: {ended[0].reason}")
        return seconds


class LmcacheCalls:
    name = "lmcache"

    def __init__(self, server: LmcacheServer):
        spec = f"(2,{BLOCKS},{BLOCK_TOKENS},4,64):bfloat16:{LAYERS}"
        config = BenchConfig(
            server.url,
            "",
            "cpu",
            "engine_driven",
            1,
            False,
            MOST_TOKENS,
            spec,
            BLOCKS,
            BLOCK_TOKENS,
        )
        self.client = lmcache_bench.ServerBenchClient(config, lambda line: None)
        self.client.start()
        tensors = self.client._workers[0].kv_caches.values()
        self.pages = Pages(
            [tensor.view(torch.int64).view(2, BLOCKS, -1).numpy() for tensor in tensors],
            block_axis=1,
        )
        self.asked = 0

    def close(self) -> None:
        self.client.close()

    def _request(self, prompt: int, tokens: int):
        self.asked += 1
        return lmcache_bench.RequestContext(
            prompt,
            f"bench-{self.asked}",
            "bench",
            (prompt,) + (9906,) * tokens,
            tokens,
            tokens // CHUNK_TOKENS,
            CHUNK_TOKENS,
            0,
            tokens // BLOCK_TOKENS,
        )

    def store(self, prompt: int, tokens: int) -> float:
        request = self._request(prompt, tokens)
        begin = time.perf_counter()
        result = self.client.store(request, 0, tokens)
        seconds = time.perf_counter() - begin
        self.client.end_session(request)
        if not result.succeeded:
            raise Void(f"lmcache: prompt {prompt} was not stored")
        return seconds

    def _look_up(self, request, tokens: int) -> float:
        rpc = self.client._require_started()
        key = helpers._make_key(request.token_ids, request.request_id, start=0, end=tokens)
        begin = time.perf_counter()
        helpers._send_lookup(rpc, key)
        found = helpers._poll_prefetch_status(rpc, key.request_id, max_polls=1000, poll_interval=0)
        seconds = time.perf_counter() - begin
        if found != tokens // CHUNK_TOKENS:
            raise Void(f"lmcache: {found} of {tokens // CHUNK_TOKENS} chunks found")
        return seconds

    def _retrieve(self, request, tokens: int) -> float:
        begin = time.perf_counter()
        result = self.client.retrieve(request, 0, tokens)
        seconds = time.perf_counter() - begin
        self.client.end_session(request)
        if not result.succeeded:
            raise Void(f"lmcache: prompt {request.sequence_id} was not retrieved")
        return seconds

    def lookups(self, prompt: int, tokens: int) -> list[float]:
        times = []
        for _ in range(LOOKUPS):
            request = self._request(prompt, tokens)
            times.append(self._look_up(request, tokens))
            self._retrieve(request, tokens)  # gives back the locks of the lookup
        return times

    def retrieve(self, prompt: int, tokens: int) -> float:
        request = self._request(prompt, tokens)
        self._look_up(request, tokens)
        return self._retrieve(request, tokens)


def one_round(calls, prompt: int, tokens: int) -> dict[str, list[float]]:
    blocks = tokens // BLOCK_TOKENS
    calls.pages.write(prompt, blocks)
    store = calls.store(prompt, tokens)
    lookups = calls.lookups(prompt, tokens)
    calls.pages.clear(blocks)
    retrieve = calls.retrieve(prompt, tokens)
    calls.pages.check(prompt, blocks, calls.name)
    return {"store": [store], "lookup": lookups, "retrieve": [retrieve]}


def idle_row(arms: dict) -> dict:
    row = {"part": "calls", "what": "idle memory"}
    for name, arm in arms.items():
        row |= {
            f"{name}_mb": resident_bytes(arm.cache) / 1e6,
            f"{name}_threads": threads(arm.cache),
        }
    row["factor"] = row["lmcache_mb"] / row["larder_mb"]
    print(
        f"  idle memory without that of the cache: Larder {row['larder_mb']:.1f} MB in "
        f"{row['larder_threads']} threads, "
        f"LMCache {row['lmcache_mb']:.0f} MB in {row['lmcache_threads']}, "
        f"factor {row['factor']:.0f}",
        flush=True,
    )
    return row


def measure(both_calls: list, tokens: int, first_prompt: int) -> list[dict]:
    rounds: dict[str, list[dict]] = {calls.name: [] for calls in both_calls}
    for number in range(ROUNDS):
        for calls in (both_calls, both_calls[::-1])[number % 2]:
            rounds[calls.name].append(one_round(calls, first_prompt + number, tokens))
    rows = []
    for what in ("lookup", "store", "retrieve"):
        row = {"part": "calls", "what": f"{what} {tokens}"}
        for name, measured in rounds.items():
            row[f"{name}_ms"] = 1e3 * statistics.median(
                statistics.median(each[what]) for each in measured
            )
            row[f"{name}_worst_ms"] = 1e3 * max(max(each[what]) for each in measured)
        row["factor"] = row["lmcache_ms"] / row["larder_ms"]
        rows.append(row)
        print(
            f"  {row['what']:<15} Larder {row['larder_ms']:9.4f} ms, LMCache "
            f"{row['lmcache_ms']:8.3f} ms, factor {row['factor']:.2f}",
            flush=True,
        )
    return rows


def fill(both_calls: list) -> dict:
    """Stores of 16k tokens into unused memory, shown in a row of their own."""
    row = {"part": "calls", "what": f"first stores {MOST_TOKENS}"}
    times: dict[str, list[float]] = {calls.name: [] for calls in both_calls}
    for prompt in range(FILL):
        for calls in both_calls:
            calls.pages.write(prompt, BLOCKS)
            times[calls.name].append(calls.store(prompt, MOST_TOKENS))
    row |= {f"{name}_ms": 1e3 * statistics.median(values) for name, values in times.items()}
    row["factor"] = row["lmcache_ms"] / row["larder_ms"]
    print(
        f"  {row['what']} (untouched memory) Larder {row['larder_ms']:.1f} ms, LMCache "
        f"{row['lmcache_ms']:.1f} ms",
        flush=True,
    )
    return row


def run(_model: str) -> list[dict]:
    with both("calls") as arms:
        time.sleep(2)
        rows = [idle_row(arms)]
        both_calls = [LarderCalls(arms["larder"].cache.socket), LmcacheCalls(arms["lmcache"].cache)]
        try:
            rows.append(fill(both_calls))
            arms["larder"].cache.request("POST", "/v1/clear")
            arms["lmcache"].cache.clear()
            for number, tokens in enumerate(SIZES):
                rows += measure(both_calls, tokens, 1000 * (number + 1))
        finally:
            for calls in both_calls:
                calls.close()
    return rows
