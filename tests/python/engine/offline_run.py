"""offline_run.py JOB: one vLLM without a server walks through the steps of a JSON job and prints "RESULT [...]", one entry a step.

Steps: {"ask": tokens, "max_tokens": n} gives {"tokens", "hit"}; {"reset": true} empties vLLM's own prefix cache; {"zero": arena file}
zeroes every byte that is stored."""

import json
import os
import sys


def zero(path):
    with open(path, "r+b") as arena:
        block = bytes(1 << 20)
        for _ in range(os.path.getsize(path) // len(block)):
            arena.write(block)


def external_hits(llm):
    return sum(int(m.value) for m in llm.get_metrics() if m.name == "vllm:external_prefix_cache_hits")


def run(llm, step):
    from vllm import SamplingParams

    if "zero" in step:
        return zero(step["zero"])
    if "reset" in step:
        return llm.reset_prefix_cache()
    before = external_hits(llm)
    sampling = SamplingParams(max_tokens=step.get("max_tokens", 8), temperature=0, ignore_eos=True)
    output = llm.generate([{"prompt_token_ids": step["ask"]}], sampling, use_tqdm=False)[0]
    return {"tokens": list(output.outputs[0].token_ids), "hit": external_hits(llm) - before}


def main():
    from vllm import LLM
    from vllm.config import KVTransferConfig

    job = json.loads(sys.argv[1])
    connector = KVTransferConfig(**job["connector"], kv_connector_extra_config=job["extra"])
    options = {"enforce_eager": True, "seed": 0, "max_model_len": 2048, "disable_log_stats": False, **job["llm"]}
    llm = LLM(model=job["model"], kv_transfer_config=connector, **options)
    print("RESULT " + json.dumps([run(llm, step) for step in job["steps"]]), flush=True)


if __name__ == "__main__":  # vLLM's processes import this file
    main()
