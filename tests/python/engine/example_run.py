"""example_run.py ADMIN_SOCKET CHUNKS EXAMPLE ARGUMENT...: runs an example for offline use,
unchanged, with one wait. vLLM's own prefix cache is emptied only after larderd has committed CHUNKS
chunks. An example that asks again at once may be faster than its stores on a busy machine, and
would compute."""

import sys
import time
from pathlib import Path

# which has stores wait for a busy larderd; vLLM's processes import this file
from offline_run import PATIENCE_S, status_of


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE_S} s")
        time.sleep(0.02)


def committed(admin_socket):
    """Chunks, ever."""
    return status_of(admin_socket)["memory"]["chunks_committed"]


def wait_before_resets(admin_socket, chunks):
    from vllm import LLM

    reset, before = LLM.reset_prefix_cache, committed(admin_socket)

    def when_stored(llm):
        wait_for(
            lambda: committed(admin_socket) >= before + chunks, f"{chunks} chunks are committed"
        )
        # stores that were just committed may keep blocks for a step
        wait_for(lambda: reset(llm), "vLLM's prefix cache is emptied")

    LLM.reset_prefix_cache = when_stored


if __name__ == "__main__":
    wait_before_resets(sys.argv[1], int(sys.argv[2]))
    sys.argv = sys.argv[3:]
    exec(compile(Path(sys.argv[0]).read_text(), sys.argv[0], "exec"), {"__name__": "__main__"})
