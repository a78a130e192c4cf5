"""offline_run.py of an engine with adapters on a slow file system: reading their content takes
HANG_S. The file LARDER_TEST_ADAPTER_READ appears behind each read. One more step: {"longest_step":
true} gives the longest call of vLLM's scheduler so far, in seconds."""

import os
import pathlib
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import offline_run  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402

from larder.vllm import adapters  # noqa: E402

HANG_S = 20
longest = 0.0


def files_identity(paths):
    time.sleep(HANG_S)
    found = of_files(paths)
    pathlib.Path(os.environ["LARDER_TEST_ADAPTER_READ"]).touch()
    return found


def schedule(scheduler, *args, **more):
    global longest
    began = time.monotonic()
    output = of_vllm(scheduler, *args, **more)
    longest = max(longest, time.monotonic() - began)
    return output


def run(llm, step):
    return {"longest_s": longest} if "longest_step" in step else of_offline_run(llm, step)


of_files, adapters.files_identity = adapters.files_identity, files_identity
of_vllm, Scheduler.schedule = Scheduler.schedule, schedule
of_offline_run, offline_run.run = offline_run.run, run

if __name__ == "__main__":
    offline_run.main()
