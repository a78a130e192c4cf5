"""Stores name the parent of each chunk: the chunk before it in its prompt."""

import pytest

pytest.importorskip("vllm")

from fakes import Request, blocks, setup, split, step  # noqa: E402
from scheduler_fakes import chunk_keys, client, half, no_wait  # noqa: E402, F401
from worker_fakes import Client as WorkerClient  # noqa: E402

from larder.client import Client as RealClient  # noqa: E402
from larder.vllm.messages import Move, Part, StepWork  # noqa: E402
from larder.vllm.store_plan import STORE_RETRIES  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402

NONE = bytes(32)
TABLE = list(range(1, 17))


def stored(half, request, steps, table=TABLE):
    """[(key, parent)] of the chunks of a request that runs in these steps."""
    half.update_state_after_alloc(request, blocks(table), 0)
    found, computed = [], 0
    for count in steps:
        kind = "new" if computed == 0 else "cached"
        work = half.build_connector_meta(
            step(
                **{kind: [(request.request_id, computed, count)]},
                tables={request.request_id: table},
            )
        )
        for move in work.stores:
            (part,) = move.parts
            found += zip(split(part.hashes, 32), split(part.parents, 32))
            half.client.stored.update(split(part.hashes, 32))
        computed += count
    return found


def chain(request):
    keys = chunk_keys(request)
    return list(zip(keys, [NONE, *keys[:-1]]))


@pytest.mark.parametrize("steps", [[512], [64] * 8, [100, 28, 300, 84]])
def test_parents_are_named_in_one_step_and_over_several(half, steps):
    request = Request("r", range(512))
    assert stored(half, request, steps) == chain(request)


def test_the_parent_may_be_a_present_chunk(half, client):
    request = Request("r", range(512))
    client.stored.update(chunk_keys(request)[:2])
    assert stored(half, request, [512]) == chain(request)[2:]


def test_the_parent_behind_a_hole_is_an_earlier_chunk(half):
    request, table = Request("r", range(512)), [*TABLE[:4], 0, 0, 0, 0, *TABLE[8:]]
    keys = chunk_keys(request)
    assert stored(half, request, [128] * 4, table) == [
        (keys[0], NONE),
        (keys[2], keys[0]),
        (keys[3], keys[2]),
    ]


def test_the_parent_behind_refused_chunks_is_the_last_stored_one(half):
    half._stores.index_tells = False
    request, table = Request("r", range(640)), list(range(1, 21))
    half.update_state_after_alloc(request, blocks(table), 0)
    keys = chunk_keys(request)

    def run(**work):
        return half.build_connector_meta(step(tables={"r": table}, **work))

    run(new=[("r", 0, 256)])
    sent = run(cached=[("r", 256, 256)])
    for computed in range(512, 512 + STORE_RETRIES):
        half._stores.refused([sent.number])
        sent = run(cached=[("r", computed, 1)])
        assert split(sent.stores[0].parts[0].parents, 32) == keys[1:3]
    half._stores.refused([sent.number])
    (move,) = run(cached=[("r", 520, 120)]).stores
    assert move.parts[0].hashes == keys[4]
    assert move.parts[0].parents == keys[1]


def test_the_parent_during_retries_is_the_last_stored_chunk(half, monkeypatch):
    monkeypatch.setattr("larder.vllm.store_plan.RETRY_AFTER_S", 1000)
    half._stores.index_tells = False
    request, table = Request("r", range(640)), list(range(1, 21))
    half.update_state_after_alloc(request, blocks(table), 0)
    keys = chunk_keys(request)

    def run(**work):
        return half.build_connector_meta(step(tables={"r": table}, **work))

    run(new=[("r", 0, 256)])
    sent = run(cached=[("r", 256, 256)])
    half._stores.refused([sent.number])
    (move,) = run(cached=[("r", 512, 128)]).stores
    assert move.parts[0].hashes == keys[4]
    assert move.parts[0].parents == keys[1], "2 and 3 are not stored"


def test_parents_of_wrong_length_are_refused():
    with pytest.raises(ValueError, match="parents has 16 bytes, hashes 64"):
        RealClient.store_begin(None, bytes(64), 32, b"", parents=bytes(16))


class Recorder(WorkerClient):
    def __init__(self):
        super().__init__()
        self.links = []

    def store_begin(self, hashes, stride, pages, group=0, shard=0, ns=0, parents=None):
        self.links += [] if parents is None else zip(split(hashes, stride), split(parents, stride))
        self.without = parents is None
        return super().store_begin(hashes, stride, pages, group, shard, ns)


def part_of(names, parents=b""):
    return Part(0, b"".join(names), bytes(16 * len(names)), b"".join(parents))


def test_workers_name_parents_of_several_requests_in_one_call():
    recorder = Recorder()
    worker = LarderConnectorWorker(setup(), recorder)
    a, b, c = (bytes([n]) * 32 for n in (1, 2, 3))
    moves = [Move("x", [part_of([a, b], [NONE, a])]), Move("y", [part_of([c], [b])])]
    worker.bind_connector_metadata(StepWork(number=1, stores=moves, computes=True))
    assert recorder.links == [(a, NONE), (b, a), (c, b)]
    assert len(recorder.begun) == 1


def test_states_have_no_parents():
    recorder = Recorder()
    worker = LarderConnectorWorker(setup(), recorder)
    moves = [Move("x", [part_of([bytes(32)])])]
    worker.bind_connector_metadata(StepWork(number=1, stores=moves, computes=True))
    assert recorder.without


def test_each_writer_names_parents_of_its_own_chunks():
    names = [bytes([n]) * 32 for n in range(1, 40)]
    before = bytes([99]) * 32
    whole = part_of(names, [before, *names[:-1]])
    taken = [whole.of_writer(writer, 3, 32) for writer in range(3)]
    for part in taken:
        own = split(part.hashes, 32)
        assert split(part.parents, 32) == [before, *own[:-1]], "each parent is there in time"
    assert sorted(name for part in taken for name in split(part.hashes, 32)) == names


def test_writers_of_states_name_no_parents():
    names = [bytes([n]) * 32 for n in range(1, 40)]
    assert all(part_of(names).of_writer(writer, 3, 32).parents == b"" for writer in range(3))
