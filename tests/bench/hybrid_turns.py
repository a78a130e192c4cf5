"""A part of make bench-ttft: a hybrid (Qwen3-Next: recurrent states and full attention) beside the
demo's Llama, warm, in turns.

Both models have 12 layers, one hidden size and 12 KiB of KV a token: six of the hybrid's layers
have attention, with twice the KV heads, and six keep a state. A warm load of 4,096 tokens brings
equal bytes of KV, and one state (1.5 MiB) more. A round counts by the rules of ttft_bench.py: every
whole chunk was a hit, and the continuation equals that of a hit in vLLM's own cache. Each round
asks both engines, one after the other; the goal is the median of the rounds' ratios.

Each round then asks both engines once more, for a hit in vLLM's own cache. Without a load the
figure `ttft.hybrid_vs_llama_own_cache` is the part of the ratio that is vLLM's."""

from __future__ import annotations

import json
import operator
import os
import pathlib
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field

import ttft_rounds as ttft
from harness import goals
from harness.bench import Void
from harness.larderd import Larderd
from harness.vllm_server import REST_S, VllmServer
from larder.completions import reset_prefix_cache, stream_completion

LAYERS = 12
BLOCK = 256  # a multiple of the Llama's; vLLM would choose one by the processor's kernels
TOKENS = 4096 + 1
MOST_UNLIKE = 1.05  # bytes of the two arms' loads
SHAPE = dict(
    hidden_size=1024,
    intermediate_size=2816,
    num_hidden_layers=LAYERS,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=64,
    layer_types=["linear_attention", "full_attention"] * (LAYERS // 2),
    linear_num_value_heads=16,
    linear_num_key_heads=8,
    linear_key_head_dim=64,
    linear_value_head_dim=64,
    # vLLM's class wants one layer of experts. Two of them are as large as the other layers' MLP.
    mlp_only_layers=list(range(LAYERS - 1)),
    num_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=1408,
    shared_expert_intermediate_size=128,
    max_position_embeddings=32768,
    bos_token_id=1,
    eos_token_id=2,
    tie_word_embeddings=False,
    initializer_range=0.08,
)


def hybrid_model(demo: str, progress=print) -> str:
    """Path of the hybrid, with the tokenizer of the demo's model;
    made beside it where it is not there yet."""
    path = pathlib.Path(demo).resolve().parent / "bench-hybrid-1"
    if path.exists():
        return str(path)
    progress("making the hybrid: random weights (about 20 s, 400 MB)")
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    vocabulary = json.loads((pathlib.Path(demo) / "config.json").read_text())["vocab_size"]
    unfinished = tempfile.mkdtemp(prefix=f"{path}.")
    torch.manual_seed(0)
    config = AutoConfig.for_model("qwen3_next", vocab_size=vocabulary, **SHAPE)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(unfinished)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pathlib.Path(demo) / name, unfinished)
    os.rename(unfinished, path)
    return str(path)


def loaded_bytes(larderd: Larderd) -> float:
    return sum(
        value
        for name, value in larderd.metrics().items()
        if name.startswith("larder_loaded_bytes_total")
    )


@dataclass
class Arm:
    label: str
    server: VllmServer
    prompt: list[int]
    chunks: int  # that a cold prompt stores at least
    expected: list[int] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    share_ms: list[float] = field(default_factory=list)
    bytes: float = 0

    def cold(self, larderd: Larderd) -> float:
        before = ttft.stored_chunks(larderd)
        ttfts, _ = ttft.ask_all(self.server, [self.prompt])
        ttft.wait_stored(larderd, self.label, before + self.chunks)
        self.expected = ttft.own_hit(self.server, self.label, self.prompt).token_ids
        return ttfts[0]

    def turn(self, larderd: Larderd) -> None:
        time.sleep(REST_S)  # of the other engine
        reset_prefix_cache(self.server.url)
        before, warm_round = loaded_bytes(larderd), ttft.Warm(larderd, self.label, [self.prompt])
        (seconds,), (tokens,) = ttft.ask_all(self.server, [self.prompt])
        if tokens != self.expected:
            raise Void(
                f"{self.label}: the warm continuation differs from the one of a hit in vLLM's own "
                "cache"
            )
        self.share_ms.append(warm_round.check())
        self.bytes = loaded_bytes(larderd) - before
        self.warm.append(seconds)

    def own_turn(self) -> None:
        """A hit in vLLM's own cache, of the prompt that turn() has loaded there."""
        time.sleep(REST_S)
        self.own.append(ttft.own_hit(self.server, self.label, self.prompt).ttft_s)

    def row(self, cold_s: float) -> dict:
        warm_s = statistics.median(self.warm)
        print(
            f"  {self.label:<24} cold {cold_s:8.3f} s   warm {1e3 * warm_s:8.1f} ms (worst "
            f"{1e3 * max(self.warm):.1f})   "
            f"{cold_s / warm_s:6.0f}x   Larder {statistics.median(self.share_ms):.1f} ms   "
            f"{self.bytes / 2**20:.1f} MiB   "
            f"vLLM's own hit {1e3 * statistics.median(self.own):.1f} ms",
            flush=True,
        )
        return {
            "what": self.label,
            "cold_s": cold_s,
            "warm_s": warm_s,
            "warm_worst_s": max(self.warm),
            "own_hit_s": statistics.median(self.own),
            "larder_ms": statistics.median(self.share_ms),
            "mib": self.bytes / 2**20,
            "speedup": cold_s / warm_s,
        }


def take_turns(
    larderd: Larderd, llama: VllmServer, model: str, env: dict, folder: pathlib.Path, rounds: int
) -> tuple[list[dict], list[dict]]:
    """The rows of both arms, and the figures. llama: warmed up, with written pages."""
    arguments = ["--enable-prompt-tokens-details", "--block-size", str(BLOCK)]
    with VllmServer(
        "the hybrid's vLLM", model, ttft.NAME, env, folder / "vllm_hybrid.log", arguments=arguments
    ) as server:
        server.wait_ready(progress=print)
        for _ in range(2):
            stream_completion(server.url, ttft.NAME, ttft.token_ids(1, 40), 2)
        ttft.write_all_pages(server, larderd, chunks=TOKENS // BLOCK)
        prompt = ttft.token_ids(TOKENS + 1, TOKENS)
        arms = [
            Arm("Llama, in turns", llama, prompt, TOKENS // ttft.CHUNK_TOKENS),
            Arm("hybrid, in turns", server, prompt, TOKENS // BLOCK + 1),
        ]
        colds = [arm.cold(larderd) for arm in arms]
        for _ in range(rounds):
            for arm in arms:
                arm.turn(larderd)
            for arm in arms:
                arm.own_turn()
        rows = [arm.row(cold_s) for arm, cold_s in zip(arms, colds)]
    check_bytes(*(arm.bytes for arm in arms))
    return rows, figures(*arms)


def figures(llama: Arm, hybrid: Arm) -> list[dict]:
    """Medians of the rounds' ratios."""
    warm, own = (
        statistics.median(map(operator.truediv, of_hybrid, of_llama))
        for of_hybrid, of_llama in ((hybrid.warm, llama.warm), (hybrid.own, llama.own))
    )
    return [
        goals.goal("ttft.hybrid_vs_llama", warm, "<=", 1.2),
        goals.figure("ttft.hybrid_vs_llama_own_cache", own),
    ]


def check_bytes(llama: float, hybrid: float) -> None:
    """Raises Void where the loads are of unlike sizes: their times would compare nothing."""
    if not llama <= hybrid <= MOST_UNLIKE * llama:
        raise Void(
            f"hybrid, in turns: a warm load brings {hybrid / 2**20:.1f} MiB, and "
            f"{llama / 2**20:.1f} MiB in the Llama"
        )
