"""KV that another connector of a MultiConnector loads within the step that computes with it.

vLLM learns only after the step that such a load has failed. Until then the step's requests, and
requests that hit their blocks in vLLM's own cache, compute with the former content of the blocks.
Nothing of these requests is stored: the checksum of a chunk would verify for ever. Larder's own
loads, and those of connectors that load between steps, end before a request computes.

Owned by the scheduler's thread."""


class Neighbours:
    def __init__(self, batches=1):
        """batches: how many steps vLLM begins before it reads the result of the first."""
        self._batches = batches
        self._left = 0  # steps that may begin before the last such load is known to be well

    def step(self, scheduler_output, tracked):
        """Marks the requests, of `tracked` by id, that begin in this step with KV that may not be
        theirs."""
        if getattr(scheduler_output, "has_sync_kv_loads", False):
            self._left = self._batches + 1
        if not self._left:
            return
        self._left -= 1
        new, cached = scheduler_output.scheduled_new_reqs, scheduler_output.scheduled_cached_reqs
        begun = [(one.req_id, one.num_computed_tokens) for one in new]
        computed = zip(cached.req_ids, cached.num_computed_tokens)
        begun += [one for one in computed if one[0] in cached.resumed_req_ids]
        for request_id, tokens in begun:
            if tokens and request_id in tracked:
                tracked[request_id].stale = True

    def failed(self, tracked):
        """vLLM has learnt that blocks are not as their names say. Whether its own cache may keep such
        blocks: those of a load within a step are in the cache before they are loaded, and vLLM does
        not take them out."""
        for one in tracked.values():
            one.stale = True
        return self._left > 0
