"""The places of an engine's ranks: each worker tells the scheduler's half how many layers of each
KV group its pipeline stage has, and which larderd it uses. From that follow the parts of a chunk
(one shard's pieces of one group) that each larderd keeps, and their bytes. Without a pipeline all
ranks have the layers of all groups; on one machine all use one larderd.

All clients of an engine tell their larderd its parts, before they open a namespace."""

from dataclasses import dataclass

from larder.vllm.groups import Unsupported


OTHER_LARDERD = (
    "its workers use another larderd than its scheduler, which is served with --nnodes alone: "
    "with Ray, all ranks must run beside the scheduler"
)


@dataclass(frozen=True)
class Place:
    """Of one worker."""

    shard: int
    replica: int  # among the workers of the shard
    layers: tuple[int, ...]  # of each of Larder's groups
    larderd: str = ""  # of hosts.larderd_of()


def parts_kept(setup, places, larderd):
    """The parts that this larderd keeps, for Client.set_parts()."""
    kept = bytearray(setup.shards.count * len(setup.groups))
    for place in places:
        for group, layers in enumerate(place.layers):
            if layers and place.larderd == larderd:  # mutation: parts-elsewhere
                kept[place.shard * len(setup.groups) + group] = 1
    return bytes(kept)


def writer_of(places, mine):
    """(number, count) among the workers of the shard with one larderd,
    which take turns to store."""
    peers = sorted(
        place.replica
        for place in places
        if (place.shard, place.larderd) == (mine.shard, mine.larderd)
    )
    return peers.index(mine.replica), len(peers)


class Places:
    """In the scheduler's half. Has at most one entry for each worker. Owned by the scheduler's
    thread."""

    def __init__(self, setup, larderd=""):
        """larderd: the scheduler's, of hosts.larderd_of()."""
        self._setup, self._larderd = setup, larderd
        self._told: dict[tuple, Place] = {}  # by shard and replica
        self._larderd_told = False

    @property
    def matter(self):
        """Whether the scheduler's own configuration does not tell all places."""
        return self._setup.shards.stages > 1 or self._setup.spread

    @property
    def several(self):
        """Whether the ranks, as far as they are known, use several larderds."""
        return self.matter and any(place.larderd != self._larderd for place in self._told.values())

    def hear(self, places):
        """places: of WorkerReport. Unsupported: two reports of one worker differ."""
        for place in places:
            if self._told.setdefault((place.shard, place.replica), place) != place:
                raise Unsupported(
                    "the workers of this engine differ in the KV layers, or in the larderd, "
                    f"of shard {place.shard}"
                )

    def all(self):
        """The places of all workers; () where they do not matter; None as long as a worker has not
        told. Unsupported: the scheduler's half cannot serve these."""
        if not self.matter:
            return ()
        if len(self._told) < self._setup.shards.workers:
            return None
        if self.several:
            self._check()
        return tuple(self._told[key] for key in sorted(self._told))

    def tell_larderd(self, client):
        """Tells the scheduler's larderd its parts, once. Call before a namespace is opened. Whether
        it did."""
        places = self.all()
        if not places or self._larderd_told:
            return False
        client.set_parts(parts_kept(self._setup, places, self._larderd))
        self._larderd_told = True
        return True

    def _check(self):
        if not self._setup.spread:
            raise Unsupported(OTHER_LARDERD)
        if self._setup.states:
            raise Unsupported(
                "recurrent states of an engine on several machines are not served yet"
            )
        if not any(
            place.shard == 0 and place.larderd == self._larderd for place in self._told.values()
        ):
            raise Unsupported(
                "the first rank of this engine uses another larderd than its scheduler: give both "
                "the same socket on one machine"
            )

    def bytes_of(self, groups):
        """Of these groups, by their numbers: the bytes of a chunk in all shards, as far as workers
        have told. Replicas store once."""
        one = [group.page_bytes * group.blocks for group in self._setup.groups]
        layers = {place.shard: place.layers for place in self._told.values()}
        if not self.matter:
            layers = dict.fromkeys(
                range(self._setup.shards.count), [len(group.layers) for group in self._setup.groups]
            )
        return sum(one[number] * counts[number] for counts in layers.values() for number in groups)
