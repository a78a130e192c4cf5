"""The requests whose blocks copies may still read. A store ends after the step that began the
store; until then vLLM must not give the blocks to other requests.

A request that ends meanwhile keeps its blocks until every worker has reported the request
(KVConnectorBase_V1's request_finished, get_finished). A preempted request loses its blocks at
once; the workers hear of it before any block is written. Owned by the scheduler's thread."""


class DeferredFrees:
    def __init__(self, workers):
        """workers: the number of workers that report each step."""
        self._workers = workers
        self._last = 0
        self._steps = {}  # number: [workers without a report so far, request ids]
        self._kept = set()  # ended; vLLM keeps their blocks
        self._reported = []  # the part of _kept that the workers do not know yet
        self._next = []  # requests of _kept that the next step may store for

    def stores(self, request_ids):
        """The number of a step that stores for these requests."""
        self._last += 1
        self._steps[self._last] = [self._workers, set(request_ids)]
        return self._last

    def ended(self, steps):
        """steps: {number of a step: workers whose copies of the step have ended}. Returns the
        numbers that all workers have reported by now."""
        done = []
        for number, workers in steps.items():
            step = self._steps.get(number)
            if step is None:
                continue
            step[0] -= workers
            if step[0] <= 0:
                del self._steps[number]
                done.append(number)
        return done

    def preempted(self, request_ids):
        """The preempted requests with blocks under a copy. This class forgets these requests."""
        read = tuple(name for name in request_ids if self._is_read(name))
        for _, names in self._steps.values():
            names.difference_update(read)
        return read

    def keeps(self, request_id, next_step=False):
        """The request has ended. Returns whether vLLM has to keep the request's blocks. next_step:
        the next step may store for the request."""
        if not next_step and not self._is_read(request_id):  # mutation: ended-keeps-blocks
            return False
        self._kept.add(request_id)
        (self._next if next_step else self._reported).append(request_id)
        return True

    def take_told(self):
        """Ended requests that the workers do not know yet. The workers must report the end of the
        requests' copies. Call this once a step. A request that this step stores for is told in the
        next step: the worker would otherwise report the request before its store begins."""
        reported, self._reported = self._reported, self._next  # mutation: tail-told-late
        self._next = []
        return tuple(reported)

    def free(self, request_ids):
        """vLLM was told that no worker reads the blocks of these requests."""
        self._kept.difference_update(request_ids)

    @property
    def waits(self):
        """Whether ended requests still keep blocks, which vLLM gets without a preemption."""
        return bool(self._kept)

    def _is_read(self, request_id):
        return any(request_id in names for _, names in self._steps.values())
