"""offline_run.py with three more steps. {"mount": folder} makes the folder hang, by a FUSE mount
over it, until {"unmount": true}. {"longest_step": true} gives the longest call of vLLM's scheduler
since the last mount, in seconds."""

import sys
from pathlib import Path

FOLDERS = Path(__file__).parents[1]
sys.path += [str(FOLDERS / "engine"), str(FOLDERS / "models")]

import longest_step  # noqa: E402
import offline_run  # noqa: E402
from hanging_mount import HangingMount  # noqa: E402

mounts = []


def run(llm, step):
    if "mount" in step:
        mounts.append(HangingMount(step["mount"]))
        longest_step.seconds = 0.0
    elif "unmount" in step:
        mounts.pop().end()
    elif "longest_step" in step:
        return {"longest_s": longest_step.seconds}
    else:
        return of_offline_run(llm, step)


of_offline_run, offline_run.run = offline_run.run, run

if __name__ == "__main__":
    try:
        offline_run.main()
    finally:
        for mount in mounts:
            mount.end()
