"""Questions and output of both demos."""

from __future__ import annotations

import pathlib
import time

from harness.vllm_server import VllmServer
from larder import report
from larder.completions import stream_completion

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PROMPT_TOKENS = 4096 + 5
SERVED_NAME = "demo"
# KV for little more than one prompt, so that the engine has written all its pages, like an engine
# in service. Some hosts of virtual machines reclaim pages that only have the zeros of their
# allocation; a load into such pages takes up to five times as long.
SMALL_KV = ["--max-model-len", "4608", "--num-gpu-blocks-override", "40"]


class Steps:
    """Prints numbered steps with the time since the start."""

    def __init__(self):
        self.started = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)


def ask(server: VllmServer, prompt: str):
    return stream_completion(server.url, SERVED_NAME, prompt, report.CONTINUATION)


def warm_up(server: VllmServer) -> None:
    """Other, short prompts without Larder: the first request after a start costs 0.2 s more than
    the next. The prompts are longer than a chunk, so that the engine knows its computing speed,
    like an engine in service. Until then the engine waits at most 250 ms for chunks of a
    backend."""
    for number in range(2):
        stream_completion(
            server.url,
            SERVED_NAME,
            f"{number} " + 48 * "Larder keeps what was computed. ",
            2,
            kv_transfer_params={"larder": "off"},
        )
