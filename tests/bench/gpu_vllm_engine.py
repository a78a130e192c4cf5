"""A vLLM of gpu_vllm_bench.py as a process of its own: requests as JSON lines on standard input, an
answer to each on standard output.

gpu_vllm_engine.py '{"model": ..., "connector": {...}, "llm": {...}}'. {"prompt": tokens} gives the
seconds to the first token, and the number of prompt tokens not computed ("cached"). Also the part
of these tokens from the engine's own cache ("local"; vLLM 0.24 loses the count of other tokens in a
step with one request). {"reset": true} empties the engine's own cache, after all reads of the
cache."""

from __future__ import annotations

import json
import os
import sys
import time

RESET_S = 60
LOCAL = "vllm:prefix_cache_hits"


def local_tokens(llm) -> int:
    return sum(int(one.value) for one in llm.get_metrics() if one.name == LOCAL)


def ask(llm, tokens: list[int]) -> dict:
    from vllm import SamplingParams

    sampling, before = (
        SamplingParams(max_tokens=1, temperature=0, ignore_eos=True),
        local_tokens(llm),
    )
    begin = time.perf_counter()
    (output,) = llm.generate([{"prompt_token_ids": tokens}], sampling, use_tqdm=False)
    seconds = time.perf_counter() - begin
    return {
        "ttft_s": seconds,
        "cached": output.num_cached_tokens,
        "local": local_tokens(llm) - before,
    }


def reset(llm) -> dict:
    deadline = time.monotonic() + RESET_S
    while not llm.reset_prefix_cache():
        if time.monotonic() > deadline:
            raise TimeoutError("vLLM's prefix cache could not be reset")
        time.sleep(0.01)
    return {}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # vLLM prints
    from vllm import LLM
    from vllm.config import KVTransferConfig

    job = json.loads(sys.argv[1])
    llm = LLM(
        model=job["model"], kv_transfer_config=KVTransferConfig(**job["connector"]), **job["llm"]
    )
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        asked = json.loads(line)
        print(
            json.dumps(reset(llm) if asked.get("reset") else ask(llm, asked["prompt"])),
            file=answers,
        )


if __name__ == "__main__":  # vLLM's processes import this file
    main()
