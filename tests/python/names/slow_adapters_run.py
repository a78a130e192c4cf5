"""offline_run.py of an engine with adapters on a slow file system: reading their content takes
HANG_S. The file LARDER_TEST_ADAPTER_READ appears behind each read. One more step: {"longest_step":
true} gives the longest call of vLLM's scheduler so far, in seconds."""

import os
import pathlib
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

import longest_step  # noqa: E402
import offline_run  # noqa: E402

from larder.vllm import adapters  # noqa: E402

HANG_S = 20


def files_identity(paths):
    time.sleep(HANG_S)
    found = of_files(paths)
    pathlib.Path(os.environ["LARDER_TEST_ADAPTER_READ"]).touch()
    return found


def run(llm, step):
    return (
        {"longest_s": longest_step.seconds} if "longest_step" in step else of_offline_run(llm, step)
    )


of_files, adapters.files_identity = adapters.files_identity, files_identity
of_offline_run, offline_run.run = offline_run.run, run

if __name__ == "__main__":
    offline_run.main()
