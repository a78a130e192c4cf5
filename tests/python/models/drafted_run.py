"""offline_run.py of an engine with a drafter. Each answer also has "proposed", the drafts of each
step, "accepted", the number of accepted drafts, and "drafted", the number of steps of requests with
drafts.

More steps, for controls: {"rule": "off"} makes keys that do not cover the next tokens and stores
all draft KV. {"rule": "keys"} makes right keys and stores all draft KV. {"drafts": "zero"} zeroes
the pages of draft layers at the end of a load, before the request computes. {"rule": "on"} and
{"drafts": "kept"} end these. {"ask_many": [number, tokens]} is an "ask_all" of random prompts,
always the same."""

import random
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import offline_run  # noqa: E402

from larder.vllm import keys  # noqa: E402
from larder.vllm.draft_kv import DraftKv  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402

OF_TARGET = re.compile(r"model\.layers\.[0-3]\.")  # the tiny targets have four layers
HOW = {"rule": "on", "drafts": "kept"}
TENSORS, PROPOSED = [], []


def register(half, kv_caches, vllm_config=None):
    TENSORS.extend(tensor for name, tensor in kv_caches.items() if not OF_TARGET.match(name))
    assert TENSORS, sorted(kv_caches)
    return registers(half, kv_caches, vllm_config)


def update(half, output):
    if HOW["drafts"] == "zero" and output.finished_recving:
        for tensor in TENSORS:  # of a storage that other layers may share
            tensor.zero_()
    return updates(half, output)


def key(block_hash, tokens):
    return block_hash if HOW["rule"] == "off" else exact_key(block_hash, tokens)


def spoil(drafts, life, begin, end):
    if HOW["rule"] == "on":
        spoils(drafts, life, begin, end)


def note_drafts(scheduler):
    """Notes the drafts that vLLM's scheduler gets."""
    for name in ("update_draft_token_ids", "update_draft_token_ids_in_output"):
        told = getattr(scheduler, name)

        def noting(drafts, *more, told=told):
            PROPOSED.append([list(tokens) for tokens in drafts.draft_token_ids])
            return told(drafts, *more)

        setattr(scheduler, name, noting)


def prompts(number, tokens):
    generator = random.Random(1)
    return [[generator.randrange(3, 1000) for _ in range(tokens)] for _ in range(number)]


def run(llm, step):
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    if "update_draft_token_ids" not in vars(scheduler):
        note_drafts(scheduler)
    if set(step) <= set(HOW):
        HOW.update(step)
        return None
    if "ask_many" in step:
        step = {**step, "ask_all": prompts(*step["ask_many"])}
    PROPOSED.clear()
    result = of_offline_run(llm, step)
    return {**result, "proposed": list(PROPOSED)} if isinstance(result, dict) else result


registers, LarderConnectorWorker.register_kv_caches = (
    LarderConnectorWorker.register_kv_caches,
    register,
)
updates, LarderConnectorScheduler.update_connector_output = (
    LarderConnectorScheduler.update_connector_output,
    update,
)
exact_key, keys.key_behind = keys.key_behind, key
spoils, DraftKv._spoil = DraftKv._spoil, spoil
of_offline_run, offline_run.run = offline_run.run, run
offline_run.COUNTED |= {
    "accepted": "vllm:spec_decode_num_accepted_tokens",
    "drafted": "vllm:spec_decode_num_drafts",
}

if __name__ == "__main__":
    offline_run.main()
