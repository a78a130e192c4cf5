"""G5: the time until the first layer of a load by layers is on its pages and verified, against the
whole load of the same chunks. Over a real larderd by the C ABI (larder_load_by_layer,
larder_wait_layer). On "cpu" the same over host memory, for tests.

Whole loads and loads by layers take turns, each onto overwritten pages. The first layer is compared
byte by byte at its report, while the rest is on its way, and all layers at the end."""

from __future__ import annotations

import hashlib
import random
import statistics
import time
from array import array
from dataclasses import dataclass

import torch

from harness import goals
from harness.bench import Void
from larder import Client
from larder.kv_pages import pages_of, stream_of

SLACK = 0.05
HASH_BYTES = 32
WAIT_MS, STORE_MS = 20_000, 5000
PATIENCE_S = 120


@dataclass(frozen=True)
class Scale:
    """Llama 3.1 8B, 15,104 tokens in bfloat16."""

    layers: int = 32
    page_bytes: int = 64 << 10
    chunk_blocks: int = 16
    chunks: int = 59
    rounds: int = 9
    unjudged: int = 2  # rounds until larderd's memory is registered with the GPU

    @property
    def bytes(self) -> int:
        return self.layers * self.page_bytes * self.chunk_blocks * self.chunks


class Pages:
    """Layers of pages that are stored once, and loaded as often as one likes."""

    def __init__(self, socket: str, device: str, scale: Scale):
        self.scale = scale
        self._on_gpu = torch.device(device).type == "cuda"
        blocks = scale.chunks * scale.chunk_blocks
        self.layers = [
            torch.empty((blocks, scale.page_bytes), dtype=torch.uint8, device=device).random_(256)
            for _ in range(scale.layers)
        ]
        self.expected = [layer.clone() for layer in self.layers]
        table = list(range(blocks))
        random.Random(5).shuffle(table)
        self._table = array("I", table).tobytes()
        self._hashes = b"".join(
            hashlib.sha256(str(number).encode()).digest() for number in range(scale.chunks)
        )
        self._stream = stream_of(self.layers)
        self.client = Client(socket, "bench first layer")
        text = (
            f"engine: bench first layer\npage_bytes: {scale.page_bytes}\nlayers: {scale.layers}\n"
        )
        self.client.set_namespace(
            text,
            "bench",
            16 * scale.chunk_blocks,
            [(scale.page_bytes, scale.layers, scale.chunk_blocks)],
        )
        pages = [
            pages_of(f"layer.{number}", tensor, scale.page_bytes)
            for number, tensor in enumerate(self.layers)
        ]
        self.client.register_pages(0, pages)
        if not self.client.wait_attached(60_000):
            raise Void(f"not attached: {self._log()}")

    def close(self) -> None:
        self.client.close()

    def _log(self) -> list[str]:
        return [" ".join(line) for line in iter(self.client.next_log, None)]

    def _order(self) -> None:
        if self._stream is not None:
            self.client.after_stream(self._stream())

    def _synchronize(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize()

    def store(self) -> None:
        """Again and again: larderd grants only touched memory."""
        deadline = time.monotonic() + PATIENCE_S
        while self.client.lookup(self._hashes, HASH_BYTES) < self.scale.chunks:
            if time.monotonic() > deadline:
                raise Void(f"not all was stored within {PATIENCE_S} s: {self._log()}")
            self._order()
            if self.client.store_begin(self._hashes, HASH_BYTES, self._table):
                self.client.store_finish(STORE_MS)
            time.sleep(0.05)  # commits are on their way

    def whole_s(self) -> float:
        ticket, begin = self._load(by_layer=False)
        seconds = self._end(ticket, begin)
        self._compare(range(self.scale.layers))
        return seconds

    def by_layer_s(self) -> tuple[float, float]:
        """Seconds to the first layer, and to the last."""
        ticket, begin = self._load(by_layer=True)
        there = self.client.wait_layer(ticket, 0, WAIT_MS)
        first = time.perf_counter() - begin
        if not there:
            raise Void(f"the first layer was not loaded within {WAIT_MS} ms: {self._log()}")
        self._compare([0])
        seconds = self._end(ticket, begin)
        self._compare(range(self.scale.layers))
        return first, seconds

    def _load(self, by_layer: bool) -> tuple[int, float]:
        for layer in self.layers:
            layer.zero_()
        self._synchronize()
        begin = time.perf_counter()
        self._order()
        return self.client.load(self._hashes, HASH_BYTES, self._table, by_layer=by_layer), begin

    def _end(self, ticket: int, begin: float) -> float:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for done in self.client.poll(100):
                seconds = time.perf_counter() - begin
                if done.ticket != ticket or not done.ok or done.bytes != self.scale.bytes:
                    raise Void(f"a load failed: {done}; {self._log()}")
                return seconds
        raise Void(f"a load was not reported within {PATIENCE_S} s: {self._log()}")

    def _compare(self, layers) -> None:
        for number in layers:
            if not torch.equal(self.layers[number], self.expected[number]):
                raise Void(f"layer {number} was reported with wrong bytes")


def measure(socket: str, device: str, scale: Scale = Scale()) -> list[dict]:
    pages = Pages(socket, device, scale)
    try:
        pages.store()
        rounds = [
            (pages.whole_s(), *pages.by_layer_s()) for _ in range(scale.unjudged + scale.rounds)
        ]
    finally:
        pages.close()
    return [row_of(scale, rounds[scale.unjudged :])]


def row_of(scale: Scale, rounds: list[tuple[float, float, float]]) -> dict:
    """rounds: seconds of a whole load, and by layers to the first one and to the last."""
    whole, first, by_layer = (statistics.median(one[i] for one in rounds) for i in range(3))
    return {
        "part": "G5",
        "layers": scale.layers,
        "bytes": scale.bytes,
        "whole_ms": 1e3 * whole,
        "first_layer_ms": 1e3 * first,
        "by_layer_ms": 1e3 * by_layer,
        "share": statistics.median(one[1] / one[0] for one in rounds),
        "share_goal": 1 / scale.layers + SLACK,
    }


def judge(rows: list[dict]) -> list[dict]:
    return [
        goals.goal("G5.first_layer_share", row["share"], "<=", round(row["share_goal"], 4))
        for row in rows
        if row["part"] == "G5" and "share" in row
    ]


def show(row: dict) -> str:
    return (
        f"{row['bytes'] / 1e9:.2f} GB in {row['layers']} layers: the first layer is usable after "
        f"{row['first_layer_ms']:.2f} ms, {row['share']:.3f} of a whole load's "
        f"{row['whole_ms']:.2f}; by layers the whole load takes {row['by_layer_ms']:.2f}"
    )
