"""Fetches of an engine with recurrent states: the chunks of attention up to a state, and that state.

A hit ends with a state, so a fetch brings all chunks up to one state or is of no use. Of the states
in memory and below, the cost model chooses one. Two fetches bring it: one of the chunks, one of the
state alone. Both name what is in memory too, and keep it there. Owned by the scheduler's thread."""

from larder.vllm.fetches import Fetches
from larder.vllm.keys import stride_of
from larder.vllm.state_reach import StateReach


class StateFetches(Fetches):
    def __init__(self, client, worth, shared):
        super().__init__(client, worth, shared)
        self._reach = StateReach(client)

    def begin(self, request, space, first, hashes, there, local_tokens):
        """As of Fetches; `there`: the chunks of attention in memory."""
        if request.request_id in self._decided:
            return False
        stride, below = stride_of(request), self._client.lower_tiers()
        hits = first + self._client.last(hashes[: there * stride], stride, space.states)
        lacking_tokens = request.num_tokens - max(hits * self._worth.chunk_tokens, local_tokens)
        ends = []
        if below is not None and below.serving:
            reach = first + self._client.reachable(hashes, stride, space.number)
            ends = self._reach.ends(hashes, stride, space, first, reach, hits)
        ways = [(below, ends, False)]
        if below is not None and below.shared and not (ends and ends[0].chunks == first + len(hashes) // stride):
            if self._probes.begin(request, space, first, hashes, lacking_tokens):
                return True
            found = self._probes.found_states(request.request_id, first)
            if found is not None:
                ways.insert(0, (found.speed, self._reach.ends(hashes, stride, space, first, found.reach, hits, found.told), True))
        if self._joins(request, space, first, hashes, {end.chunks for _, ends, _ in ways for end in ends}, local_tokens):
            return True
        self._decided.add(request.request_id)
        for speed, ends, shared in ways:
            offers = [self._worth.offer(end.chunks, hits, first + there, end.in_memory) for end in ends]
            plan = self._worth.plan_ends(speed, offers, lacking_tokens, self._waiting_bytes(), shared)
            if plan is not None:
                return self._ask(request, space, hashes[: (plan.offer.end - first) * stride], hits - first, plan)
            if offers:
                self._recomputed.add(request.request_id)
        return False

    def _joins(self, request, space, first, hashes, ends, local_tokens):
        """Whether another request fetches or loads the chunks up to one of the ends."""
        stride = stride_of(request)
        return any(
            self._shared.join(request, space, hashes[: (end - first) * stride], stride, end, local_tokens, fetches=True)
            for end in sorted(ends, reverse=True)
        )

    def _waiting_bytes(self):
        return sum(fetch.plan.offer.read_bytes for fetch in self._fetches.values() if not fetch.ended)
