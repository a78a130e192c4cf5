"""A worker's answers to the scheduler's look-ups (rank_lookups): the number of chunks in its own
larderd.

The worker fetches missing chunks from the lower tiers if the scheduler finds the fetch worthwhile.
The answer then comes at the end of the fetch. Owned by the worker's thread."""

from larder.client import LarderError


class RankAnswers:
    def __init__(self, client):
        self._client = client
        self._running = {}  # by RankLookup.number: (ticket, RankLookup, number of the namespace)
        self._answers: dict[int, tuple] = {}

    def __bool__(self):
        return bool(self._running)

    def ask(self, lookup, number):
        """number: of the namespace."""
        chunks = self._client.lookup(lookup.hashes, lookup.stride, number)
        missing = lookup.hashes[chunks * lookup.stride :]
        below = self._client.lower_tiers() if missing and lookup.deadline_ms else None
        if below is not None and below.serving:
            try:
                ticket = self._client.fetch(missing, lookup.stride, lookup.deadline_ms, number)
            except LarderError:  # over a bound, or larderd is away
                pass
            else:
                self._running[lookup.number] = ticket, lookup, number
                return
        self.answer(lookup, chunks)

    def answer(self, lookup, chunks):
        self._answers[lookup.number] = 1, chunks

    def reset(self):
        """Ends the fetches: larderd holds their chunks no longer. The memory answers."""
        for ticket, lookup, number in self._running.values():
            self._client.fetch_end(ticket)
            self.answer(lookup, self._client.lookup(lookup.hashes, lookup.stride, number))
        self._running.clear()

    def wait(self, wait_ms):
        """Waits for one fetch, in a step without work, so that larderd gets the processor."""
        for ticket, _, _ in self._running.values():
            self._client.fetch_poll(ticket, wait_ms)
            return

    def take(self):
        """The answers since the last call, for WorkerReport.answers."""
        for ticket, lookup, number in tuple(self._running.values()):
            if self._client.fetch_poll(ticket) is not None:
                del self._running[lookup.number]
                self.answer(lookup, self._client.lookup(lookup.hashes, lookup.stride, number))
                self._client.fetch_end(ticket)
        answers, self._answers = self._answers, {}
        return answers
