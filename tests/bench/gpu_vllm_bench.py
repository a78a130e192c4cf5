"""make bench-gpu, V: time to first token in a real vLLM on a GPU: computed, loaded from larderd,
loaded by vLLM's own offloading to the same node's memory, and from the engine's own cache.

Llama 3.1 8B's shape with vLLM's dummy weights in bfloat16 and prompts of 15,104 tokens (59 chunks
of 256). Both engines stand on the GPU at once, and answer in turns. Each round has a new prompt:
computed, then with the engine's own cache empty, then once more. A round counts only if the whole
prompt came from the place named by the row. Larder verifies every loaded byte; tests/python/models
checks the answers. `ceiling`: bytes by the rate of one large copy, and the time of a full hit in
the engine's own cache. Needs a Python with vLLM and a GPU; else the bench reports that there was no
measurement. Environment: LARDERD, LARDER_LIBRARY, LARDER_COMMIT."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import random
import statistics
import sys
import time
from contextlib import ExitStack
from typing import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "engine"))

from engine_process import Died, EngineProcess
from harness import goals
from harness.bench import Void, line_of
from harness.bench import run as run_bench
from harness.larderd import Larderd
from harness.process import ProcessError
from harness.vllm_server import engine_env
from paged_engine.shapes import LLAMA_8B, Shape

BUILD = ROOT / "build" / "bench"
CHUNK_TOKENS = 256
TOKENS = 59 * CHUNK_TOKENS
# until larderd's memory is registered with the GPU, and after work that is slow only once
ROUNDS, UNJUDGED = 7, 2
PROMPTS_IN_MEMORY = 6
SETTLE_S, TOUCH_S = 30, 120
NATIVE_S = 1.0  # until vLLM's own offloading has stored: no signal tells
MIB = 1 << 20


def model_of(shape: Shape, folder: pathlib.Path) -> pathlib.Path:
    """The files that vLLM needs for a model of one shape without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocab,
        "rope_theta": shape.rope_theta,
        "rms_norm_eps": shape.norm_eps,
        "max_position_embeddings": 131072,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def connectors(memory: int) -> dict[str, dict]:
    larder = {
        "kv_connector": "LarderConnector",
        "kv_connector_module_path": "larder.vllm",
        "kv_role": "kv_both",
    }
    native = {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use": memory, "block_size": CHUNK_TOKENS},
    }
    return {"larder": larder, "native": native}


def started(
    name: str, connector: dict, model: pathlib.Path, kv_bytes: int, larderd: Larderd
) -> EngineProcess:
    llm = {
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "seed": 0,
        "max_model_len": 16384,
        "max_num_batched_tokens": 16384,
        "kv_cache_memory_bytes": kv_bytes,
        "gpu_memory_utilization": 0.3,
        "disable_log_stats": False,
        "attention_config": {"backend": os.environ.get("GPU_VLLM_ATTENTION", "FLASH_ATTN")},
    }
    job = {"model": str(model), "connector": connector, "llm": llm}
    program = (str(pathlib.Path(__file__).with_name("gpu_vllm_engine.py")),)
    return EngineProcess(
        BUILD / f"gpu-vllm-{name}.log",
        program,
        engine_env(larderd.socket, os.environ["LARDER_LIBRARY"]),
        **job,
    )


def round_of(
    engine: EngineProcess, tokens: list[int], stored: Callable[[], None]
) -> dict[str, float]:
    """Seconds to the first token by where the prompt came from."""
    whole = len(tokens) // CHUNK_TOKENS * CHUNK_TOKENS
    cold = engine.ask(tokens)
    if cold["cached"]:
        raise Void(f"a new prompt was hit: {cold}")
    engine.ask(tokens[: CHUNK_TOKENS // 2])  # vLLM's own offloading stores in the steps that follow
    stored()
    engine.ask(reset=True)
    warm, own = engine.ask(tokens), engine.ask(tokens)
    if warm["local"] or warm["cached"] < whole or own["local"] < whole:
        raise Void(
            f"of {len(tokens)} tokens {warm['cached']} were not computed, {warm['local']} of these "
            f"were in the engine's own cache; then {own}"
        )
    return {"cold": cold["ttft_s"], "warm": warm["ttft_s"], "own": own["ttft_s"]}


class Arm:
    """One engine, and its rounds. A void round ends this arm, and not the other one."""

    def __init__(self, name: str, engine: EngineProcess, stored: Callable[[], None]):
        self.name, self.failed, self.rounds = name, "", []
        self._engine, self._stored = engine, stored

    def wait_ready(self, prompt: list[int]) -> None:
        """Ready, after one answer: in vLLM 0.24 the workers' first answer tells the layout of KV,
        so the engine stores no earlier KV."""
        self._tried(self._engine.read)
        self._tried(lambda: self._engine.ask(prompt))

    def ask(self, prompt: list[int], judged: bool) -> None:
        one = self._tried(lambda: round_of(self._engine, prompt, self._stored))
        if one:
            print(
                f"  V {self.name:<7} "
                + ", ".join(f"{key} {1e3 * value:.1f} ms" for key, value in one.items())
                + ("" if judged else " (not judged)"),
                flush=True,
            )
        if one and judged:
            self.rounds.append(one)

    def _tried(self, work: Callable[[], dict]) -> dict | None:
        if self.failed:
            return None
        try:
            return work()
        except (Void, Died, ProcessError) as error:
            self.failed = line_of(error)
            return None

    def row(self) -> dict:
        if self.failed:
            return {"part": "V", "by": self.name, "failed": self.failed}
        medians = {
            f"{key}_s": statistics.median(one[key] for one in self.rounds) for key in self.rounds[0]
        }
        return {
            "part": "V",
            "by": self.name,
            **medians,
            "warm_worst_s": max(one["warm"] for one in self.rounds),
        }


def measured(shape: Shape, tokens: int) -> list[dict]:
    from gpu_ceilings import copy_bytes_per_s, device_line

    machine, rate, size = device_line("cuda"), copy_bytes_per_s("cuda"), shape.kv_bytes(tokens, 2)
    memory = PROMPTS_IN_MEMORY * size
    with ExitStack() as stack:
        larderd = stack.enter_context(
            Larderd(
                os.environ["LARDERD"],
                BUILD / "gpu-vllm",
                f"larder-bench-{os.getpid()}",
                f"{memory // MIB}MiB",
            )
        )
        larderd.wait_ready()
        larderd.wait_touched(TOUCH_S)
        model = model_of(shape, BUILD / "gpu-vllm" / "model")
        arms = [
            Arm(
                name,
                stack.enter_context(started(name, connector, model, 5 * size // 2, larderd)),
                (lambda: larderd.wait_settled(SETTLE_S))
                if name == "larder"
                else lambda: time.sleep(NATIVE_S),
            )
            for name, connector in connectors(memory).items()
        ]
        numbers = random.Random(7)
        for arm in arms:
            arm.wait_ready([numbers.randrange(3, shape.vocab) for _ in range(CHUNK_TOKENS)])
        for number in range(UNJUDGED + ROUNDS):
            # of a prompt of whole chunks vLLM computes the last token anew
            prompt = [numbers.randrange(3, shape.vocab) for _ in range(tokens + 1)]
            for arm in arms[:: -1 if number % 2 else 1]:
                arm.ask(prompt, number >= UNJUDGED)
    common = {
        "shape": shape.name,
        "tokens": tokens,
        "bytes": size,
        "device": machine,
        "copy_gb_s": rate / 1e9,
    }
    rows = [{**arm.row(), **common} for arm in arms]
    return [
        {**row, "ceiling_s": size / rate + row["own_s"]} if "own_s" in row else row for row in rows
    ]


def judge(rows: list[dict]) -> list[dict]:
    by = {row["by"]: row for row in rows if "warm_s" in row}
    verdict = [
        goals.figure(f"V.{name}.cold_over_warm", row["cold_s"] / row["warm_s"])
        for name, row in by.items()
    ]
    verdict += [
        goals.figure(f"V.{name}.warm_over_ceiling", row["warm_s"] / row["ceiling_s"])
        for name, row in by.items()
    ]
    if len(by) == 2:
        verdict.append(
            goals.figure("V.native_over_larder", by["native"]["warm_s"] / by["larder"]["warm_s"])
        )
        verdict.append(
            goals.figure(
                "V.cold_larder_over_native", by["larder"]["cold_s"] / by["native"]["cold_s"]
            )
        )
    return verdict


def main() -> int:
    begun, path, commit = (
        time.monotonic(),
        BUILD / "gpu_vllm.json",
        os.environ.get("LARDER_COMMIT", ""),
    )
    if missing := not_here():
        print(f"not measured: V ({missing})")
        return 0
    rows = [{**row, "commit": commit} for row in measured(LLAMA_8B, TOKENS)]
    for row in rows:
        show(row)
    goals.conclude(path, "gpu_vllm", rows, judge(rows), begun)
    return int(any("failed" in row for row in rows))


def not_here() -> str:
    """The missing equipment of this machine, or an empty text."""
    if importlib.util.find_spec("vllm") is None:
        return f"no vLLM in {sys.executable}"
    import torch

    return "" if torch.cuda.is_available() else "no CUDA device: torch.cuda.is_available() is false"


def show(row: dict) -> None:
    if "failed" in row:
        print(f"  V {row['by']:<7} FAILED: {row['failed']}", flush=True)
        return
    print(
        f"  V {row['by']:<7} {row['tokens']} tokens, {row['bytes'] / 1e9:.2f} GB: computed "
        f"{1e3 * row['cold_s']:.1f} ms, loaded {1e3 * row['warm_s']:.1f} (worst "
        f"{1e3 * row['warm_worst_s']:.1f}), own cache {1e3 * row['own_s']:.1f}, ceiling "
        f"{1e3 * row['ceiling_s']:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    run_bench("bench-gpu", main)
