"""offline_run.py of an engine that sleeps, as vLLM does on GPUs alone. vLLM's CPU worker gets the
GPU worker's calls of the sleep backend and of the connector. The backend gets an allocator that
overwrites the KV tensors, asleep and awake. The rest runs unchanged, from LLM.sleep() to the
backend or the hooks. Weights stay.

More steps: {"sleep": level} falls asleep and wakes up. {"sleep_within": tokens, ...} does so (mode
"keep") after a request's first token, and gives the answer of the request."""

import ctypes
import inspect
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import offline_run  # noqa: E402
from vllm import device_allocator  # noqa: E402
from vllm.distributed.kv_transfer import get_kv_transfer_group  # noqa: E402
from vllm.platforms.cpu import CpuPlatform  # noqa: E402
from vllm.v1.worker.cpu_worker import CPUWorker  # noqa: E402
from vllm.v1.worker.gpu_worker import Worker as GPUWorker  # noqa: E402


class KvMemory:
    def __init__(self, tensors):
        assert tensors, "vLLM's runner keeps its KV tensors elsewhere"
        self.tensors = tensors

    def sleep(self, offload_tags):
        self.fill(0xFF)  # NaN
        print("KV memory is away", flush=True)

    def wake_up(self, tags=None):
        self.fill(0x3C)  # leftovers of other programs: small numbers

    def fill(self, byte):
        for storage in (tensor.untyped_storage() for tensor in self.tensors):
            ctypes.memset(storage.data_ptr(), byte, storage.nbytes())


def sleep(worker, level=1):
    device_allocator.get_mem_allocator_instance = lambda: KvMemory(worker.model_runner.kv_caches)
    tell_connector("unregister_kv_caches")
    worker.sleep_mode_backend.suspend(level)


def wake_up(worker, tags=None):
    worker.sleep_mode_backend.resume(tags)
    tell_connector("restore_kv_caches")


def tell_connector(hook):
    """As vLLM's GPU worker does from 0.33 on."""
    if hook in inspect.getsource(GPUWorker):
        getattr(get_kv_transfer_group(), hook)()


NAP_S = 1.0  # longer than a store takes that is held back (LARDER_TEST_SLOW_STORES_MS)
# In each of vLLM's processes, which import this file.
CpuPlatform.is_sleep_mode_available = lambda platform: True
CPUWorker.sleep, CPUWorker.wake_up = sleep, wake_up


def nap(llm, level, mode):
    llm.sleep(level=level, mode=mode)
    time.sleep(NAP_S)
    llm.wake_up()


def sleep_within(llm, step):
    from vllm import SamplingParams

    engine, prompt = llm.llm_engine, {"prompt_token_ids": step["sleep_within"]}
    engine.add_request(
        "sleeps",
        prompt,
        SamplingParams(max_tokens=step["max_tokens"], temperature=0, ignore_eos=True),
    )
    while not engine.step():
        pass
    nap(llm, 1, "keep")
    outputs = []
    while engine.has_unfinished_requests():
        outputs += engine.step()
    return {"tokens": list(outputs[-1].outputs[0].token_ids)}


def run(llm, step):
    if "sleep" in step:
        return nap(llm, step["sleep"], "abort")
    if "sleep_within" in step:
        return sleep_within(llm, step)
    return of_offline_run(llm, step)


of_offline_run, offline_run.run = offline_run.run, run

if __name__ == "__main__":
    offline_run.main()
