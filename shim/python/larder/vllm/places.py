"""The places of an engine's ranks: each worker tells the scheduler's half how many layers of each KV
group its pipeline stage has. From that follow the parts of a chunk (one shard's pieces of one group)
that larderd keeps, and their bytes. Without a pipeline all ranks have the layers of all groups.

All clients of an engine tell larderd the same parts, before they open a namespace."""

from dataclasses import dataclass

from larder.vllm.groups import Unsupported


@dataclass(frozen=True)
class Place:
    """Of one worker."""

    shard: int
    replica: int  # among the workers of the shard
    layers: tuple[int, ...]  # of each of Larder's groups


def parts_kept(setup, places):
    """The parts that larderd keeps, for Client.set_parts()."""
    kept = bytearray(setup.shards.count * len(setup.groups))
    for place in places:
        for group, layers in enumerate(place.layers):
            if layers:
                kept[place.shard * len(setup.groups) + group] = 1
    return bytes(kept)


class Places:
    """In the scheduler's half. Has at most one entry for each worker. Owned by the scheduler's
    thread."""

    def __init__(self, setup):
        self._setup = setup
        self._told: dict[tuple, Place] = {}  # by shard and replica

    @property
    def matter(self):
        """Whether the scheduler's own configuration does not tell all places."""
        return self._setup.shards.stages > 1

    def hear(self, places):
        """places: of WorkerReport. Unsupported: two reports of one worker differ."""
        for place in places:
            if self._told.setdefault((place.shard, place.replica), place) != place:
                raise Unsupported(f"the workers of this engine differ in the KV layers of shard {place.shard}")

    def all(self):
        """The places of all workers; () where they do not matter; None as long as a worker has not
        told."""
        if not self.matter:
            return ()
        if len(self._told) < self._setup.shards.workers:
            return None
        return tuple(self._told[key] for key in sorted(self._told))

    def bytes_of(self, groups):
        """Of these groups, by their numbers: the bytes of a chunk in all shards, as far as workers
        have told. Replicas store once."""
        one = [group.page_bytes * group.blocks for group in self._setup.groups]
        layers = {place.shard: place.layers for place in self._told.values()}
        if not self.matter:
            layers = dict.fromkeys(range(self._setup.shards.count), [len(group.layers) for group in self._setup.groups])
        return sum(one[number] * counts[number] for counts in layers.values() for number in groups)
