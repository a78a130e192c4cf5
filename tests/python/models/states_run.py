"""offline_run.py of an engine with several groups of Larder, for controls. A load leaves a part out
or takes the state of another prompt, and the answer must change.

More steps: {"clear": true} zeroes vLLM's KV tensors. {"load": PART} sets the form of the later
loads: "all", "tokens" (no state), "states" (no KV of tokens), or a list of the loaded groups.
"another" takes the state of this engine's first load instead of the right one.

With LARDER_TEST_MAMBA2, Mamba2 layers take the specification of other layers. vLLM 0.32's own
specification asks for states from inside a step, which vLLM's scan for CPUs does not return (vLLM
issue 54504). The first prefill over the end of a block would end the engine."""

import ctypes
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import offline_run  # noqa: E402

from larder.vllm import cost_model  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402

HOW = {"load": "all", "first": None}
TENSORS = []


def orders_of(half, move):
    for hashes, stride, pages, group, shard, number in of_larder(half, move):
        state = half.setup.groups[group].state
        if state:
            HOW["first"] = HOW["first"] or hashes
        if HOW["load"] == ("tokens" if state else "states") or (
            isinstance(HOW["load"], list) and group not in HOW["load"]
        ):
            continue
        yield (
            HOW["first"] if state and HOW["load"] == "another" else hashes,
            stride,
            pages,
            group,
            shard,
            number,
        )


def register(half, kv_caches, vllm_config=None):
    TENSORS.extend(kv_caches.values())
    return registers(half, kv_caches, vllm_config)


def clear():
    for storage in (tensor.untyped_storage() for tensor in TENSORS):
        ctypes.memset(storage.data_ptr(), 0, storage.nbytes())


def run(llm, step):
    if "clear" in step:
        return clear()  # not by collective_rpc(), which may change weights
    if "load" in step:
        HOW["load"] = step["load"]
        return None
    return of_offline_run(llm, step)


# A fetch that must hit is made and waited for, however fast the model and however busy the machine.
cost_model.UNKNOWN_DEADLINE_S = cost_model.UNKNOWN_PROBE_DEADLINE_S = offline_run.PATIENCE_S
cost_model.LoadOrRecompute.measured = lambda *measured, **more: None

of_larder, LarderConnectorWorker._orders_of = LarderConnectorWorker._orders_of, orders_of
registers, LarderConnectorWorker.register_kv_caches = (
    LarderConnectorWorker.register_kv_caches,
    register,
)
of_offline_run, offline_run.run = offline_run.run, run

if os.environ.get("LARDER_TEST_MAMBA2"):
    from vllm.model_executor.layers.mamba.mamba_mixer2 import MambaMixer2

    del MambaMixer2.get_kv_cache_spec

if __name__ == "__main__":
    offline_run.main()
