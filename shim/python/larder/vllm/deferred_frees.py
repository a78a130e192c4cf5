"""Which requests' blocks copies may still read: stores end after the step that began them, and until then vLLM must not give the blocks to
others.

Owned by the scheduler's thread. A request that ends meanwhile keeps its blocks until every worker has reported it (KVConnectorBase_V1's
request_finished, get_finished); of one that is preempted, whose blocks go at once, the workers are told before anything is written."""


class DeferredFrees:
    def __init__(self, workers):
        """workers: how many report each step."""
        self._workers = workers
        self._last = 0
        self._steps = {}  # number: [workers that have not reported it, request ids]
        self._kept = set()  # ended; vLLM keeps their blocks
        self._told = []  # of these, those that the workers are to be told of

    def stores(self, request_ids):
        """The number of a step that stores for them."""
        self._last += 1
        self._steps[self._last] = [self._workers, set(request_ids)]
        return self._last

    def ended(self, steps):
        """steps: number of a step whose copies have ended: how many workers say so. The numbers that all workers have reported now."""
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
        """Those of them that are still read. They are nobody's concern here any more."""
        read = tuple(name for name in request_ids if self._is_read(name))
        for _, names in self._steps.values():
            names.difference_update(read)
        return read

    def keeps(self, request_id):
        """The request has ended. Whether vLLM has to keep its blocks."""
        if not self._is_read(request_id):  # mutation: ended-keeps-blocks
            return False
        self._kept.add(request_id)
        self._told.append(request_id)
        return True

    def take_told(self):
        """Requests whose end the workers do not know yet, and whose copies they are to report."""
        told, self._told = tuple(self._told), []
        return told

    def free(self, request_ids):
        """vLLM was told that nobody reads them."""
        self._kept.difference_update(request_ids)

    @property
    def waits(self):
        """Whether blocks will come free that vLLM need not take from a running request."""
        return bool(self._kept)

    def _is_read(self, request_id):
        return any(request_id in names for _, names in self._steps.values())
