"""KV that another connector of a MultiConnector loads within the step that computes with the KV.

vLLM learns only after the step that such a load has failed. Until then the step's requests, and
requests that hit their blocks in vLLM's own cache, compute with the former content of the blocks.
Larder stores no KV of these requests: the checksum of a chunk would verify for ever. Larder's own
loads, and loads of connectors between steps, end before a request computes.

Owned by the scheduler's thread."""


class Neighbours:
    def __init__(self, batches=1):
        """batches: the steps that vLLM begins before the result of the first is read."""
        self._batches = batches
        self._left = 0  # steps that may begin before the last such load is known to be well

    def step(self, scheduler_output, tracked):
        """Marks the requests, of `tracked` by id, that begin in this step with KV of possibly
        another origin."""
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
        """vLLM has learnt that blocks do not match their names. Returns whether vLLM's own cache
        may keep such blocks. Blocks of a load within a step are in the cache before the load, and
        vLLM does not take the blocks out."""
        for one in tracked.values():
            one.stale = True
        return self._left > 0
