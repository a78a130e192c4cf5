"""forks_run.py: vLLM, imported once. Each line of its input is a job of offline_run.py with `env`
and `log`. A forked process walks through the job, and a line of the output is its exit status. An
engine starts in half the time so."""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # importing vLLM prints

import offline_run  # noqa: E402

for module in (
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.models.llama",
    "larder.vllm.connector",
):
    importlib.import_module(module)


def walk(job):
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(job["env"])
    try:
        offline_run.main(job)
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os._exit(walk(json.loads(line)))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
