"""LowerTiers: the calls of a client about the tiers below memory and the shared backend.

Thread-safe, like the library. Only fetch_poll() and probe_poll() wait, wait_ms at most."""

import ctypes
from collections import namedtuple

from larder import _native as native

# Figures of 0 are not measured yet. shared: larderd also fetches from a backend, which probe()
# asks.
TierSpeed = namedtuple(
    "TierSpeed", "serving read_latency_ns read_bytes_per_s shared", defaults=(False,)
)
Fetched = namedtuple("Fetched", "chunks complete late reason bytes elapsed_s")
# there: of probe_each(); bit i tells that a fetch finds chunk i.
Probed = namedtuple(
    "Probed",
    "chunks shared late reason read_latency_ns read_bytes_per_s elapsed_s there",
    defaults=(0,),
)


class LowerTiers:
    """Client.tiers. Hashes are as in Client."""

    def __init__(self, client, check):
        """client: the c_void_p of the Client, null after its close(). check: Client._check."""
        self._lib, self._client, self._check = native.library(), client, check

    def speed(self):
        """The speed of the tiers below memory; None if larderd has no such tier."""
        below = native.LowerTiers()
        if self._lib.larder_get_lower_tiers(self._client, below) != native.OK or not below.present:
            return None
        return TierSpeed(
            bool(below.serving), below.read_latency_ns, below.read_bytes_per_s, bool(below.shared)
        )

    def reachable(self, hashes, stride, ns=0):
        """The number of chunks, from the first on, in memory or below, as shared memory shows."""
        return self._lib.larder_reachable(self._client, native.hashes(hashes, stride, ns))

    def last_reachable(self, hashes, stride, ns=0):
        """The last chunk in memory or below, counted from 1, by shared memory; 0: no chunk."""
        return self._lib.larder_last_reachable(self._client, native.hashes(hashes, stride, ns))

    def fetch(self, hashes, stride, deadline_ms, ns=0):
        """Asks larderd to promote chunks into memory and to keep the chunks until fetch_end().
        Returns a ticket. LarderError: larderd cannot be asked."""
        ticket = ctypes.c_uint64()
        status = self._lib.larder_fetch(
            self._client, native.hashes(hashes, stride, ns), deadline_ms, ticket
        )
        self._check("larder_fetch", status)
        return ticket.value

    def fetch_poll(self, ticket, wait_ms=0):
        """The result, or None while the fetch runs; waits wait_ms at most. The result of an unknown
        ticket has no chunks."""
        result = native.FetchResult()
        if self._lib.larder_fetch_poll(self._client, ticket, wait_ms, result) != native.OK:
            return Fetched(0, False, False, "no such fetch", 0, 0.0)
        if result.running:
            return None
        reason = native.FETCH_REASONS[min(result.reason, len(native.FETCH_REASONS) - 1)]
        late = result.reason in (native.FETCH_LATE, native.FETCH_FAILED)
        return Fetched(
            result.chunks, result.reason == 0, late, reason, result.bytes, result.elapsed_us / 1e6
        )

    def fetch_end(self, ticket):
        """Frees the kept chunks, or cancels a running fetch."""
        self._lib.larder_fetch_end(self._client, ticket)

    def probe(self, hashes, stride, deadline_ms, ns=0):
        """Asks how many chunks fetch() would find, also in the backend. Returns a ticket.
        LarderError: larderd cannot be asked."""
        return self._probe("larder_probe", hashes, stride, deadline_ms, ns)

    def probe_each(self, hashes, stride, deadline_ms, ns=0):
        """The same for chunks that count one by one, such as states: the result has each chunk in
        `there`. `chunks` of the result is the last chunk that a fetch finds, counted from 1. The
        speed is the speed of a fetch of this chunk alone. LarderError also for a larderd older than
        protocol 1.7."""
        return self._probe("larder_probe_each", hashes, stride, deadline_ms, ns)

    def _probe(self, name, hashes, stride, deadline_ms, ns):
        ticket = ctypes.c_uint64()
        self._check(
            name,
            getattr(self._lib, name)(
                self._client, native.hashes(hashes, stride, ns), deadline_ms, ticket
            ),
        )
        return ticket.value

    def probe_poll(self, ticket, wait_ms=0):
        """The result, or None while the probe runs; waits wait_ms at most. The result of an unknown
        ticket has no chunks."""
        result = native.ProbeResult()
        if self._lib.larder_probe_poll(self._client, ticket, wait_ms, result) != native.OK:
            return Probed(0, 0, False, "no such probe", 0, 0, 0.0)
        if result.running:
            return None
        reason = native.PROBE_REASONS[min(result.reason, len(native.PROBE_REASONS) - 1)]
        late, elapsed_s = result.reason == native.PROBE_LATE, result.elapsed_us / 1e6
        there = int.from_bytes(result.there, "little")
        return Probed(
            result.chunks,
            result.shared,
            late,
            reason,
            result.read_latency_ns,
            result.read_bytes_per_s,
            elapsed_s,
            there,
        )

    def probe_end(self, ticket):
        """Cancels the probe, or frees the ticket of the probe."""
        self._lib.larder_probe_end(self._client, ticket)
