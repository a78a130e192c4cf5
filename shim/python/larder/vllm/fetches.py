"""Fetches of the scheduler's half: chunks of larderd's lower tiers are promoted before a request is
scheduled.

While a fetch, or the probe before it, runs, vLLM is told to ask again ("None"). vLLM then sets the
request aside and serves the others. The library counts the deadlines of both, so a dead or stopped
larderd delays no request for longer. Afterwards the request is looked up as usual: promoted chunks
are hits, the rest is computed. A request probes once and fetches once. Owned by the scheduler's
thread."""

from dataclasses import dataclass

from larder import _native as native
from larder.client import LarderError
from larder.lower_tiers import TierSpeed
from larder.vllm.fail_safe import late
from larder.vllm.keys import stride_of
from larder.vllm.tier_probes import TierProbes
from larder.vllm.cost_model import Plan

# The places of chunks at the look-up. shared: peers, the backend or a plug-in. larderd answers for
# these together.
TIERS = ("memory", "disk", "shared")
# The wait of a step without work for a fetch or a probe; see worker.IDLE_WAIT_MS.
IDLE_WAIT_MS = 2


@dataclass
class Running:
    """tickets: each with the number of chunks asked for; the second is that of a state. The first
    `there` chunks were in memory already. shared_chunks: of the planned chunks, those of peers,
    backend or plug-in; the others are on the disk. The fields behind `ended` are known at the end.
    """

    tickets: tuple
    there: int
    plan: Plan
    shared_chunks: int = 0
    ended: bool = False
    brought: int = 0  # the chunks by which the request's hit grows
    bytes: int = 0
    elapsed_s: float = 0.0
    reason: str = ""  # of native.FETCH_REASONS


class Fetches:
    def __init__(self, client, worth, shared, chunk_keys=1):
        """shared: SharedLoads, in which a request waits for the fetch of equal chunks by another
        one. chunk_keys: of a chunk of tokens, one for each shard and group."""
        self._client = client
        self._worth = worth
        self._shared = shared
        self._probes = TierProbes(client, worth, chunk_keys)
        self._fetches: dict[str, Running] = {}  # until the request has its holds, or ends
        self._decided: set[str] = set()
        # decided requests with chunks below, but without a fetch
        self._recomputed: set[str] = set()

    def runs(self, request_id):
        """Whether the request waits for a probe or a fetch."""
        if self._probes.runs(request_id):
            return True
        fetch = self._fetches.get(request_id)
        if fetch is None or fetch.ended:
            return False
        return not self._see(request_id, fetch, 0)

    def begin(self, request, space, first, hashes, there, local_tokens):
        """Returns whether the request waits: for its probe, its fetch, or a load of another
        request. hashes: of the chunks from number `first` on; the first `there` of these chunks are
        in memory. local_tokens: the tokens of the prompt in vLLM's own cache."""
        # One decision for each request: vLLM asks every step, and the speed changes meanwhile.
        if request.request_id in self._decided:  # mutation: fetch-once
            return False
        lacking_tokens = request.num_tokens - max(
            (first + there) * self._worth.chunk_tokens, local_tokens
        )
        below = self._client.tiers.speed()
        stride = stride_of(request)
        reachable = (
            self._client.tiers.reachable(hashes, stride, space.number)
            # A tier too slow to rely on counts as empty. larderd measures the tier in the
            # meantime.
            if below is not None and below.serving
            else there
        )
        found = None
        if below is not None and below.shared and reachable < len(hashes) // stride:
            if self._probes.begin(request, space, first, hashes, lacking_tokens):
                return True
            found = self._probes.found(request.request_id, first + there)
        end = there + found[0] if found else reachable
        if end > there and self._shared.join(
            request, space, hashes[: end * stride], stride, first + end, local_tokens, fetches=True
        ):
            return True
        plan = None if found is None else self._shared_plan(*found, lacking_tokens)
        if plan is None:
            # Waiting fetches of other requests share the same device, so they count in the
            # estimate.
            plan = self._worth.plan(
                below, reachable - there, lacking_tokens, self._waiting_chunks()
            )
        self._decided.add(request.request_id)
        if plan is None and reachable > there:
            self._recomputed.add(request.request_id)
        return (
            plan is not None
            and self._ask(  # mutation: ask-again-fetch
                request,
                space,
                hashes[: (there + plan.chunks) * stride],
                there,
                plan,
                # A plan may leave out the last chunks, which are the shared ones.
                # Chunks that came into memory since the probe are not in found[0].
                min(max(found[1].shared - (found[0] - plan.chunks), 0), plan.chunks)
                if plan.shared
                else 0,
            )
        )

    def _shared_plan(self, chunks, answer, lacking_tokens):
        """The Plan for the chunks that a probe has found, some in the backend, or None."""
        speed = TierSpeed(
            answer.read_bytes_per_s > 0, answer.read_latency_ns, answer.read_bytes_per_s
        )
        return self._worth.plan(speed, chunks, lacking_tokens, self._waiting_chunks(), shared=True)

    def fetch_of(self, request_id):
        """The request's Running, or None: nothing is fetched. Call this before end()."""
        return self._fetches.get(request_id)

    def tokens_by_tier(self, request_id, loaded_tokens):
        """The tokens of the request's load, by the tier where they were at the look-up; call this
        before end(). The fetched chunks are the last of the hit. The first chunk may begin in
        vLLM's own cache, so tokens from memory are the rest."""
        fetch = self._fetches.get(request_id)
        brought = 0 if fetch is None else fetch.brought
        if not brought:
            return dict(zip(TIERS, (loaded_tokens, 0, 0)))
        chunk_tokens = self._worth.chunk_tokens
        disk = min(brought, fetch.plan.chunks - fetch.shared_chunks)
        from_shared = min((brought - disk) * chunk_tokens, loaded_tokens)
        from_disk = min(disk * chunk_tokens, loaded_tokens - from_shared)
        return dict(zip(TIERS, (loaded_tokens - from_shared - from_disk, from_disk, from_shared)))

    def decision(self, request_id, loads):
        """The decision about the request; call this before end()."""
        if loads:
            return native.DECIDED_FETCH if request_id in self._fetches else native.DECIDED_LOAD
        more_below = request_id in self._recomputed or request_id in self._fetches
        return native.DECIDED_RECOMPUTE if more_below else native.DECIDED_ABSENT

    def end(self, request_id):
        """The request has its holds, or needs no hold."""
        fetch = self._fetches.pop(request_id, None)
        if fetch is not None:
            self._end(fetch.tickets)

    def reset(self):
        """The engine has another namespace and cannot hit the fetched chunks. Ends all fetches;
        otherwise larderd would keep the chunks in memory while the engine sleeps."""
        for request_id in tuple(self._fetches):
            self.end(request_id)

    def forget(self, request_id):
        """The request ended."""
        self.end(request_id)
        self._probes.forget(request_id)
        self._decided.discard(request_id)
        self._recomputed.discard(request_id)

    def rest(self):
        """Waits in a step without work for the end of one probe or fetch, so that larderd gets the
        processor."""
        if self._probes.rest(IDLE_WAIT_MS):
            return
        for request_id, fetch in self._fetches.items():
            if not fetch.ended:
                self._see(request_id, fetch, IDLE_WAIT_MS)
                return

    def _ask(self, request, space, hashes, there, plan, shared_chunks):
        """hashes: of the chunks to keep in memory. With states, the state of the last chunk too, in
        a fetch of its own. shared_chunks: of Running."""
        stride, tickets = stride_of(request), []
        states = [] if space.states is None else [(hashes[-stride:], space.states)]
        for asked, number in [(hashes, space.number), *states]:
            try:
                tickets.append(
                    (
                        self._client.tiers.fetch(asked, stride, plan.deadline_ms, number),
                        len(asked) // stride,
                    )
                )
            except LarderError as refused:
                # Half of a fetch would keep chunks in memory for no hit.
                self._end(tickets)  # mutation: fetch-both
                # tries again when other fetches have ended
                if refused.status == native.RESOURCE_EXHAUSTED:
                    self._decided.discard(request.request_id)
                return False
        self._fetches[request.request_id] = Running(tuple(tickets), there, plan, shared_chunks)
        self._shared.begin(request.request_id, space, hashes, stride, plan.deadline_s, fetched=True)
        late.info(
            "Reqid: %s, Total tokens %d, Larder hit tokens: %d, to fetch: %d within %d ms "
            "(estimated %.1f ms, computing them %s)",
            request.request_id,
            request.num_tokens,
            there * self._worth.chunk_tokens,
            plan.chunks * self._worth.chunk_tokens,
            plan.deadline_ms,
            plan.estimate_s * 1e3,
            "unknown" if plan.compute_s is None else f"{plan.compute_s * 1e3:.0f} ms",
        )
        return True

    def _see(self, request_id, fetch, wait_ms):
        """Whether the fetch has ended; then notes the result."""
        done = [self._client.tiers.fetch_poll(ticket, wait_ms) for ticket, _ in fetch.tickets]
        answered = [one for one in done if one is not None]
        # Without the one, a hit up to a state has no use for the other.
        short = fetch.plan.offer is not None and any(
            one is not None and one.chunks < asked for one, (_, asked) in zip(done, fetch.tickets)
        )
        if len(answered) < len(done) and not short:  # mutation: fetch-short
            return False
        fetch.ended = True
        brought = 0 if short else self._brought(fetch, done)  # mutation: fetch-whole
        fetch.brought = brought
        # The tickets run side by side, so the slower one is the time of the fetch.
        elapsed_s = fetch.elapsed_s = max(one.elapsed_s for one in answered)
        fetch.bytes = sum(one.bytes for one in answered)
        fetch.reason = next((one.reason for one in answered if not one.complete), "done")
        self._worth.ended(
            fetch.plan, brought, elapsed_s, short or any(one.late for one in answered)
        )  # mutation: fetch-short-loss
        if brought:
            self._shared.came(request_id)
        else:
            self._shared.end(request_id)
        late.info(
            "Fetched %d of %d chunks, %d bytes for request %s in %.1f ms%s",
            brought,
            fetch.plan.chunks,
            fetch.bytes,
            request_id,
            elapsed_s * 1e3,
            "" if fetch.reason == "done" else f" ({fetch.reason})",
        )
        return True

    @staticmethod
    def _brought(fetch, done):
        """The chunks by which the request's hit grows."""
        if fetch.plan.offer is not None:  # a hit needs all chunks up to the state, and the state
            return fetch.plan.chunks
        ((_, asked),) = fetch.tickets
        return max(min(done[0].chunks, asked) - fetch.there, 0)

    def _end(self, tickets):
        for ticket, _ in tickets:
            self._client.tiers.fetch_end(ticket)

    def _waiting_chunks(self):
        return sum(fetch.plan.chunks for fetch in self._fetches.values() if not fetch.ended)
