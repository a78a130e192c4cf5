"""Notes the longest call of vLLM's scheduler in this process, in `seconds`."""

import time

from vllm.v1.core.sched.scheduler import Scheduler

seconds = 0.0
_of_vllm = Scheduler.schedule


def _schedule(scheduler, *args, **more):
    global seconds
    began = time.monotonic()
    output = _of_vllm(scheduler, *args, **more)
    seconds = max(seconds, time.monotonic() - began)
    return output


Scheduler.schedule = _schedule
