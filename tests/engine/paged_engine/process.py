"""The engine as a separate process: requests are JSON lines on standard input, answers are JSON
lines on standard output.

python -m paged_engine.process '{"shape": "tiny_llama", "socket": ..., "device": "cpu", ...}'

A request is {"prompt": [...], "new_tokens": 1, "larder": true, "own": true}, or {"forget": true}.
With "die": "loading" the process kills itself by SIGKILL during its load, because another process
cannot hit that moment. If the load ends first, the process answers as usual, and the test may ask
again."""

import hashlib
import json
import os
import signal
import sys

import torch

from .engine import Engine
from .shapes import SHAPES


def answer_of(engine, asked):
    if asked.get("forget"):
        engine.forget()
        return {"forgotten": True}
    if asked.get("die") == "loading":
        engine.larder.on_loading = lambda: _die(engine)
    answer = engine.generate(
        asked["prompt"],
        asked.get("new_tokens", 1),
        asked.get("larder", True),
        asked.get("own", True),
    )
    return {
        "logits": [
            hashlib.sha256(one.cpu().numpy().tobytes()).hexdigest() for one in answer.logits
        ],
        "tokens": answer.tokens,
        "local_tokens": answer.local_tokens,
        "loaded_tokens": answer.loaded_tokens,
        "stored_chunks": answer.stored_chunks,
        "layers_early": engine.larder.last_layers_early,
        "log": engine.larder.log_lines(),
    }


def _die(engine):
    if engine.larder.loads_running:
        os.kill(os.getpid(), signal.SIGKILL)


def _say(what):
    print(json.dumps(what), flush=True)


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(1)  # equal order of sums, and so equal bits, in every process
    socket, chunk_tokens, store_wait_ms = (
        options.pop(name) for name in ("socket", "chunk_tokens", "store_wait_ms")
    )
    by_layer = options.pop("by_layer", True)
    engine = Engine(
        SHAPES[options.pop("shape")],
        dtype=getattr(torch, options.pop("dtype", "bfloat16")),
        **options,
    )
    link = engine.attach(socket, chunk_tokens)
    link.by_layer = by_layer
    link.store_wait_ms = store_wait_ms
    _say({"attached": link.wait_attached()})
    for line in sys.stdin:
        _say(answer_of(engine, json.loads(line)))
    engine.close()


if __name__ == "__main__":
    main()
