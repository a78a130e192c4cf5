"""offline_run.py with three more steps. {"mount": folder} makes the folder hang, by a FUSE mount
over it, until {"unmount": true}. {"longest_step": true} gives the longest call of vLLM's scheduler
since the last mount, in seconds."""

import sys
import time
from pathlib import Path

FOLDERS = Path(__file__).parents[1]
sys.path += [str(FOLDERS / "engine"), str(FOLDERS / "models")]

import offline_run  # noqa: E402
from hanging_mount import HangingMount  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402

mounts, longest = [], 0.0


def schedule(scheduler, *args, **more):
    global longest
    began = time.monotonic()
    output = of_vllm(scheduler, *args, **more)
    longest = max(longest, time.monotonic() - began)
    return output


def run(llm, step):
    global longest
    if "mount" in step:
        mounts.append(HangingMount(step["mount"]))
        longest = 0.0
    elif "unmount" in step:
        mounts.pop().end()
    elif "longest_step" in step:
        return {"longest_s": longest}
    else:
        return of_offline_run(llm, step)


of_vllm, Scheduler.schedule = Scheduler.schedule, schedule
of_offline_run, offline_run.run = offline_run.run, run

if __name__ == "__main__":
    try:
        offline_run.main()
    finally:
        for mount in mounts:
            mount.end()
