"""Stages of a pipeline that have no layer of some KV group, and ranks with other larderds: what
workers tell, what larderd is told, what is moved."""

import logging
import pickle
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

import torch  # noqa: E402
from fakes import NAMED, Client, Request, ended, group, setup, step  # noqa: E402
from scheduler_fakes import store_all  # noqa: E402
from worker_fakes import Client as WorkerClient  # noqa: E402
from worker_fakes import completion, part  # noqa: E402

from larder.vllm.groups import Shards, Unsupported  # noqa: E402
from larder.vllm.hosts import larderd_of  # noqa: E402
from larder.vllm.messages import Move, StepWork, WorkerReport  # noqa: E402
from larder.vllm.places import Place, Places, parts_kept, writer_of  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402
from larder.vllm.worker import LarderConnectorWorker  # noqa: E402

FULL, WINDOW = group(0), group(1, window=33)
# Gemma 3 at two stages: the first has windows alone.
HERE = larderd_of(setup())
FIRST, SECOND = Place(0, 0, (0, 3), HERE), Place(1, 0, (1, 2), HERE)


def stages(full=("l.5",), window=("l.0", "l.1", "l.2"), **changes):
    groups = group(0, layers=full), group(1, window=33, layers=window)
    return setup(groups=groups, shards=Shards(stages=2), **changes)


def told(*places):
    return ended(meta=WorkerReport(places=frozenset(places)))


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def half(client):
    return LarderConnectorScheduler(
        stages(full=()),
        client,
        SimpleNamespace(poll=NAMED.poll, warn_of_silent_workers=lambda: None),
    )


# covers F-286
def test_the_scheduler_opens_its_namespace_once_every_stage_has_told_its_layers(half, client):
    request = Request("r", range(300))
    store_all(client, request)
    assert half.get_num_new_matched_tokens(request, 0) == (0, False)
    half.update_connector_output(told(FIRST))
    assert half.get_num_new_matched_tokens(request, 0) == (0, False) and client.namespaces == []
    half.update_connector_output(told(SECOND))
    assert half.get_num_new_matched_tokens(request, 0) == (256, True)
    assert client.parts == [bytes([0, 1, 1, 1])] and len(client.namespaces) == 1
    work = pickle.loads(
        pickle.dumps(half.build_connector_meta(step(new=[("r", 0, 10)], tables={"r": ([1], [2])})))
    )
    assert work.places == (FIRST, SECOND)
    assert half._worth._chunk_bytes == 4096 * 4 * 1 + 4096 * 1 * 5, (
        "of the layers of both stages, not of the first twice"
    )


def test_reports_of_one_worker_that_differ_turn_the_cache_off(half, caplog):
    half.update_connector_output(told(FIRST))
    with caplog.at_level(logging.WARNING):
        half.update_connector_output(told(Place(0, 0, (1, 3), HERE)))
    assert (
        half.off
        == "the workers of this engine differ in the KV layers, or in the larderd, of shard 0"
    )


def test_without_a_pipeline_no_stage_is_awaited():
    places = Places(setup(shards=Shards(ranks=4, replicas=2)))
    assert places.all() == () and places.bytes_of([0]) == 2 * 4 * 4096


def test_every_replica_is_waited_for():
    places = Places(stages(), HERE)
    places._setup = setup(groups=(FULL, WINDOW), shards=Shards(2, 2, 2))
    places.hear([FIRST, SECOND, Place(0, 1, (0, 3), HERE)])
    assert places.all() is None
    places.hear([Place(1, 1, (1, 2), HERE)])
    assert len(places.all()) == 4 and places.bytes_of([0]) == 4 * 4096


def over_two(ranks=2, replicas=1, **changes):
    """The setup of an engine of two nodes, and the places of its ranks,
    half of them on the other node."""
    one = setup(shards=Shards(ranks=ranks, replicas=replicas), spread=True, **changes)
    numbers = [one.shards.of(0, rank) for rank in range(ranks)]
    return one, [
        Place(*number, (1,), "there" if rank * 2 >= ranks else HERE)
        for rank, number in enumerate(numbers)
    ]


# covers F-288
def test_each_larderd_keeps_the_parts_of_its_own_ranks():
    one, places = over_two(ranks=4)
    assert (parts_kept(one, places, HERE), parts_kept(one, places, "there")) == (
        bytes([1, 1, 0, 0]),
        bytes([0, 0, 1, 1]),
    )


def test_replicas_share_the_stores_of_their_own_larderd():
    one, places = over_two(ranks=4, replicas=4)
    assert parts_kept(one, places, HERE) == parts_kept(one, places, "there") == bytes([1])
    assert [writer_of(places, place) for place in places] == [(0, 2), (1, 2), (0, 2), (1, 2)]


def test_a_scheduler_without_the_first_rank_beside_it_has_a_reason():
    one, places = over_two()
    elsewhere = Places(one, "a third larderd")
    elsewhere.hear(places)
    with pytest.raises(
        Unsupported, match="the first rank of this engine uses another larderd than its scheduler"
    ):
        elsewhere.all()


# covers F-055
def test_stages_that_ray_runs_elsewhere_are_refused():
    places = Places(stages(), HERE)
    places.hear([FIRST, replace(SECOND, larderd="there")])
    with pytest.raises(Unsupported, match="with Ray, all ranks must run beside the scheduler"):
        places.all()


def test_states_over_several_larderds_are_refused():
    one, places = over_two(groups=(group(0), replace(group(1), state=True)))
    several = Places(one, HERE)
    several.hear(replace(place, layers=(1, 1)) for place in places)
    with pytest.raises(Unsupported, match="recurrent states of an engine on several machines"):
        several.all()


class TestWorker:
    @pytest.fixture
    def client(self):
        return WorkerClient()

    @pytest.fixture
    def half(self, client):
        """Of the stage with windows alone."""
        half = LarderConnectorWorker(stages(full=()), client)
        half.bind_connector_metadata(StepWork(namespace="engine: test\n", places=(FIRST, SECOND)))
        return half

    def test_a_worker_reports_its_layers_before_the_first_request(self, half):
        half._registered = True
        assert half.first_report().places == {FIRST}

    def test_larderd_hears_the_parts_before_the_namespace(self, half, client):
        assert client.parts == [bytes([0, 1, 1, 1])] and client.namespaces == ["engine: test\n"]
        half.bind_connector_metadata(StepWork(namespace="engine: test\n", places=(FIRST, SECOND)))
        assert len(client.parts) == 1

    # covers F-286
    def test_only_groups_with_layers_are_moved(self, half, client):
        moves = [Move("r", [part(0, 2, 4), part(1, 1, 1)])]
        half.bind_connector_metadata(StepWork(loads=moves, stores=moves, number=1))
        assert client.loads == [(1, 1)] and client.begun == [(1, 1)]
        client.done = [completion(1)]
        assert half.get_transfer_results() == ({"r"}, set())

    # covers F-286
    def test_a_load_without_a_part_of_this_stage_ends_well_at_once(self, half, client):
        half.bind_connector_metadata(StepWork(loads=[Move("r", [part(0, 2, 4)])]))
        assert client.loads == [] and half.get_transfer_results() == ({"r"}, set())
        assert half.get_transfer_results() == (set(), set())

    def test_a_load_without_any_part_has_failed(self, half):
        half.bind_connector_metadata(StepWork(loads=[Move("r", [])]))
        assert half.get_transfer_results() == ({"r"}, {"r"})


def test_pages_of_a_group_without_layers_are_not_asked_for():
    client = WorkerClient()
    half = LarderConnectorWorker(stages(full=(), window=("l.0",)), client)
    half.register_kv_caches({"l.0": torch.zeros(10, 4096, dtype=torch.uint8)})
    assert len(client.groups) == 1 and half.off is None
