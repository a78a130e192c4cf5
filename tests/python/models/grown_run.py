"""offline_run.py with one more step, {"grow": tokens, "admin": larderd's admin socket}. The step
asks for the answer to these tokens and the engine's next token in three ways. "decoded": by the
engine that computed the tokens, in a step of one token. "at_once": the whole prompt in one step.
"loaded": the whole prompt from Larder, its last token computed anew. Each is a list of the log
probabilities of the likeliest tokens. "hit": the loaded tokens."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import offline_run  # noqa: E402

NEW_TOKENS = 8


def likeliest(output):
    return [
        sorted((one.logprob, token) for token, one in place.items()) for place in output.logprobs
    ]


def answer(llm, tokens, new_tokens, larder):
    from vllm import SamplingParams

    sampling = SamplingParams(
        max_tokens=new_tokens,
        temperature=0,
        ignore_eos=True,
        logprobs=3,
        extra_args=None if larder else {"kv_transfer_params": {"larder": "off"}},
    )
    (output,) = llm.generate([{"prompt_token_ids": tokens}], sampling, use_tqdm=False)
    offline_run.reset(llm, external=False)
    return output.outputs[0]


def grow(llm, step):
    first = answer(llm, step["grow"], NEW_TOKENS + 1, larder=False)
    grown = [*step["grow"], first.token_ids[0]]
    at_once = answer(llm, grown, NEW_TOKENS, larder=False)
    answer(llm, grown, 1, larder=True)
    offline_run.settle(step["admin"])
    before = offline_run.counters(llm)["hit"]
    loaded = answer(llm, grown, NEW_TOKENS, larder=True)
    return {
        "decoded": likeliest(first)[1:],
        "at_once": likeliest(at_once),
        "loaded": likeliest(loaded),
        "hit": offline_run.counters(llm)["hit"] - before,
    }


def run(llm, step):
    return grow(llm, step) if "grow" in step else runs(llm, step)


runs, offline_run.run = offline_run.run, run

if __name__ == "__main__":
    offline_run.main()
