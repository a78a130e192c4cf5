"""Fetches of an engine with recurrent states: the chunks of attention up to a state, and the state.

A hit ends with a state, so a fetch brings all chunks up to one state or is of no use. Of the states
in memory and below, the cost model chooses one. Two fetches bring the state: one of the chunks, one
of the state alone. Both also name the chunks in memory, and keep the chunks there. Owned by the
scheduler's thread."""

from larder.vllm.fetches import Fetches
from larder.vllm.keys import stride_of
from larder.vllm.state_reach import StateReach

# The chunks of one fetch: kMaxKeysPerFetch of shim/protocol/limits.h.
MOST_CHUNKS = 1024


class StateFetches(Fetches):
    def __init__(self, client, worth, shared, chunk_keys=1):
        super().__init__(client, worth, shared, chunk_keys)
        self._reach = StateReach(client)

    def begin(self, request, space, first, hashes, there, local_tokens):
        """As of Fetches; `there`: the chunks of attention in memory."""
        if request.request_id in self._decided:
            return False
        stride, below = stride_of(request), self._client.tiers.speed()
        hits = first + self._client.last(hashes[: there * stride], stride, space.states)
        lacking_tokens = request.num_tokens - max(hits * self._worth.chunk_tokens, local_tokens)
        hashes = hashes[: MOST_CHUNKS * stride]  # mutation: ends-bound
        ends = []
        if below is not None and below.serving:
            reach = first + self._client.tiers.reachable(hashes, stride, space.number)
            ends = self._reach.ends(hashes, stride, space, first, reach, hits)
        ways, shared_chunks = [(below, ends, False)], 0
        if (
            below is not None
            and below.shared
            and not (ends and ends[0].chunks == first + len(hashes) // stride)
        ):
            if self._probes.begin(request, space, first, hashes, lacking_tokens):
                return True
            found = self._probes.found_states(request.request_id, first)
            if found is not None:
                shared_chunks = found.shared_chunks
                ways.insert(
                    0,
                    (
                        found.speed,
                        self._reach.ends(
                            hashes, stride, space, first, found.reach, hits, found.probed
                        ),
                        True,
                    ),
                )
        offers = [
            ([self._offer(end, hits, first, there) for end in ends], speed, shared)
            for speed, ends, shared in ways
        ]
        # Of a fetch that another request makes, the bytes count for no wait of this one.
        joined = self._plan(offers, lacking_tokens, 0)
        if joined is not None and self._shared.join(
            request,
            space,
            self._chunks(hashes, stride, first, joined),
            stride,
            joined.offer.end,
            local_tokens,
            fetches=True,
        ):
            return True
        self._decided.add(request.request_id)
        plan = self._plan(offers, lacking_tokens, self._waiting_bytes())
        if plan is not None:
            return self._ask(
                request,
                space,
                self._chunks(hashes, stride, first, plan),
                hits - first,
                plan,
                min(shared_chunks, plan.chunks) if plan.shared else 0,
            )
        if any(some for some, _, _ in offers):
            self._recomputed.add(request.request_id)
        return False

    def _offer(self, end, hits, first, there):
        return self._worth.offer(end.chunks, hits, first + there, end.in_memory)

    def _plan(self, offers, lacking_tokens, waiting_bytes):
        plans = (
            self._worth.plan_ends(speed, some, lacking_tokens, waiting_bytes, shared)
            for some, speed, shared in offers
        )
        return next((plan for plan in plans if plan is not None), None)

    @staticmethod
    def _chunks(hashes, stride, first, plan):
        """The hashes of the chunks from number `first` up to the end of the plan."""
        return hashes[: (plan.offer.end - first) * stride]

    def _waiting_bytes(self):
        return sum(
            fetch.plan.offer.read_bytes for fetch in self._fetches.values() if not fetch.ended
        )
