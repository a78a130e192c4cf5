"""The engine process of G6 (gpu_attach.py): KV pages on the GPU, an allocation a layer, that
larderd copies in.

python gpu_attach_engine.py '{"arms": ..., "layers": 32, "page_bytes": 65536, "chunk_blocks": 16,
"chunks": 8, "by_hand": false}' says {"ready": true} and answers JSON lines: {"attach": SOCKET},
{"move": n} (n stores and loads of all chunks, compared byte by byte), {"detach": true}, and
{"busy": true}, which stores and loads until the process is killed. by_hand: each allocation is
mapped by hand, and larderd opens the allocation by a descriptor."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import sys
import time
from array import array

from gpu_arms import Arms, ArmsError
from harness.bench import Void
from larder import Client

HASH_BYTES = 32
STORE_MS, PATIENCE_S = 5000, 60


class Engine:
    def __init__(self, arms: Arms, fields: list, page_bytes: int, chunk_blocks: int, chunks: int):
        self.arms, self.fields = arms, fields
        self.page_bytes, self.chunk_blocks, self.chunks = page_bytes, chunk_blocks, chunks
        table = list(range(chunks * chunk_blocks))
        random.Random(6).shuffle(table)
        self._table = array("I", table).tobytes()
        self._bytes = len(fields) * page_bytes * len(table)
        self._number = 0
        self.client = None

    def attach(self, socket: str) -> float:
        """Milliseconds from the registration of the pages until larderd copies. ArmsError: the
        reason why larderd does not copy."""
        self.client = Client(socket, "bench attach")
        text = f"engine: bench attach\npage_bytes: {self.page_bytes}\nlayers: {len(self.fields)}\n"
        self.client.set_namespace(
            text,
            "bench",
            16 * self.chunk_blocks,
            [(self.page_bytes, len(self.fields), self.chunk_blocks)],
        )
        count = self.chunks * self.chunk_blocks
        self.client.register_pages(
            0, [(field.pages, self.page_bytes, self.page_bytes, count) for field in self.fields]
        )
        begin = time.perf_counter()
        said = []
        while time.perf_counter() - begin < PATIENCE_S:
            line = self.client.next_log()
            if line is None:
                time.sleep(0.0002)
                continue
            said.append(line[1])
            if "larderd copies for this engine" in line[1]:
                return 1e3 * (time.perf_counter() - begin)
            if "larderd does not copy" in line[1]:
                raise ArmsError(line[1])
        raise ArmsError(f"larderd did not copy for this engine within {PATIENCE_S} s: {said[-1:]}")

    def detach(self) -> None:
        self.client.close()
        self.client = None

    def round(self) -> None:
        """All chunks stored under new names, and loaded onto overwritten pages."""
        self._number += 1
        hashes = b"".join(
            hashlib.sha256(f"{id(self)} {time.time_ns()} {self._number} {i}".encode()).digest()
            for i in range(self.chunks)
        )
        self.client.after_stream(None)
        if not self.client.store_begin(hashes, HASH_BYTES, self._table):
            raise Void(f"a store was refused: {self._log()}")
        stored = self.client.store_finish(STORE_MS)
        if stored.stored != self.chunks:
            raise Void(f"{stored.stored} of {self.chunks} chunks were stored: {self._log()}")
        deadline = time.monotonic() + PATIENCE_S
        while self.client.lookup(hashes, HASH_BYTES) < self.chunks:  # commits are on their way
            if time.monotonic() > deadline:
                raise Void("the stored chunks cannot be looked up")
            time.sleep(0.001)
        for field in self.fields:
            field.scribble()
        ticket = self.client.load(hashes, HASH_BYTES, self._table)
        while time.monotonic() < deadline:
            for done in self.client.poll(100):
                if done.ticket != ticket or not done.ok or done.bytes != self._bytes:
                    raise Void(f"a load failed: {done}; {self._log()}")
                for field in self.fields:
                    field.check()
                return
        raise Void("a load was not reported")

    def _log(self) -> list[str]:
        return [" ".join(line) for line in iter(self.client.next_log, None)]


def answer(engine: Engine, asked: dict) -> dict:
    if "attach" in asked:
        return {"ms": engine.attach(asked["attach"])}
    if "detach" in asked:
        engine.detach()
    for _ in range(asked.get("move", 0)):
        engine.round()
    return {"chunks": asked.get("move", 0) * engine.chunks}


def serve(engine: Engine) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            told = answer(engine, asked)
        except ArmsError as error:
            told = {"not_measured": str(error)}
        except Void as error:
            told = {"void": str(error)}
        print(json.dumps(told), flush=True)
        while "busy" in asked:
            engine.round()


def main() -> None:
    options = json.loads(sys.argv[1])
    arms = Arms(options["arms"])
    page_bytes, chunk_blocks, chunks, by_hand = (
        options[name] for name in ("page_bytes", "chunk_blocks", "chunks", "by_hand")
    )
    chunk_bytes = page_bytes * chunk_blocks
    with contextlib.ExitStack() as fields:
        try:
            layers = [
                fields.enter_context(
                    arms.field(
                        chunk_bytes * chunks, page_bytes, chunk_bytes, slots=False, by_hand=by_hand
                    )
                )
                for _ in range(options["layers"])
            ]
        except ArmsError as error:
            return print(json.dumps({"not_measured": str(error)}), flush=True)
        print(json.dumps({"ready": True}), flush=True)
        serve(Engine(arms, layers, page_bytes, chunk_blocks, chunks))


if __name__ == "__main__":
    main()
