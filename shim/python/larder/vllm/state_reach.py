"""The ends that a hit can have in an engine with recurrent states: places with a state in memory or
below. Owned by the scheduler's thread."""

from dataclasses import dataclass

# The ends that are considered for one request, from the last on.
MOST_ENDS = 8


@dataclass(frozen=True)
class End:
    chunks: int  # before the state
    in_memory: bool  # the state is


@dataclass(frozen=True)
class ProbedStates:
    """The answer of a probe of states: bit i tells of the state behind chunk `first` + i."""

    first: int
    bits: int


class StateReach:
    def __init__(self, client):
        self._client = client

    def ends(self, hashes, stride, space, first, reach, beyond, probed=None):
        """The Ends inside the first `reach` chunks with more than `beyond` chunks, the last first.
        hashes: of the chunks from number `first` on. probed: a ProbedStates. REQUIRES: beyond >=
        first."""
        found, end = [], reach
        while end > beyond and len(found) < MOST_ENDS:  # mutation: ends-most
            end = self._last(hashes[: (end - first) * stride], stride, space, first, probed)
            if end > beyond:
                one = hashes[(end - 1 - first) * stride : (end - first) * stride]
                found.append(End(end, self._client.lookup(one, stride, space.states) == 1))
            end -= 1
        return found

    def _last(self, hashes, stride, space, first, probed):
        """The last end inside the chunks of `hashes`; `first`: there is no such end."""
        end = first
        if probed is not None:
            inside = max(first + len(hashes) // stride - probed.first, 0)
            end = max(first, probed.first + (probed.bits & (1 << inside) - 1).bit_length())
        behind = hashes[(end - first) * stride :]  # mutation: ends-behind-told
        return (
            end + self._client.tiers.last_reachable(behind, stride, space.states) if behind else end
        )
