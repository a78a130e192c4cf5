"""two_engines_run.py JOB: engines made, asked and ended in one process, as in a notebook; writes
the answers to the file named in the job.

Each step: {"make": name, options of LLM()}, {"end": name}, or {"ask": name, "tokens": [...]} with
"off", as in offline_run.py. Prints the answers in order, and the number of first tokens that
Larder's series in this process have counted as hits."""

import gc
import json
import sys
from pathlib import Path

import prometheus_client
from offline_run import reset, settle


def make(job, options):
    from vllm import LLM
    from vllm.config import KVTransferConfig

    common = {
        "enforce_eager": True,
        "seed": 0,
        "max_model_len": 2048,
        "disable_log_stats": False,
        "dtype": "float32",
    }
    return LLM(
        model=job["model"],
        kv_transfer_config=KVTransferConfig(**job["connector"]),
        **{**common, **job["llm"], **options},
    )


def answer(llm, step, admin):
    from vllm import SamplingParams

    extra = {"kv_transfer_params": {"larder": "off"}} if step.get("off") else None
    sampling = SamplingParams(max_tokens=16, temperature=0, ignore_eos=True, extra_args=extra)
    (output,) = llm.generate([{"prompt_token_ids": step["tokens"]}], sampling, use_tqdm=False)
    settle(admin)
    reset(llm, external=False)
    return list(output.outputs[0].token_ids)


def hits():
    samples = [
        sample for metric in prometheus_client.REGISTRY.collect() for sample in metric.samples
    ]
    return sum(
        one.value
        for one in samples
        if one.name == "larder_engine_first_token_seconds_count" and one.labels["cache"] == "hit"
    )


def main():
    job, engines, answers = json.loads(sys.argv[1]), {}, []
    for step in job["steps"]:
        if "make" in step:
            engines[step["make"]] = make(job, step.get("options", {}))
        elif "end" in step:
            del engines[step["end"]]
            gc.collect()
        else:
            answers.append(answer(engines[step["ask"]], step, job["extra"]["admin"]))
    Path(job["results"]).write_text(json.dumps({"answers": answers, "hits": hits()}))


if __name__ == "__main__":  # vLLM's processes import this file
    main()
