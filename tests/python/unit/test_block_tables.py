"""Block tables, of a vLLM that gives the tables out and of one that does not."""

from types import SimpleNamespace as Fake

import fakes
import pytest

from larder.vllm.block_tables import BlockTables


def step(new=(), cached=(), resumed=()):
    """The report of vLLM 0.28 and older. new and cached: (request id, additions to the request's
    tables)."""
    return Fake(
        scheduled_new_reqs=[Fake(req_id=name, block_ids=tables) for name, tables in new],
        scheduled_cached_reqs=Fake(
            req_ids=[name for name, _ in cached],
            new_block_ids=[tables for _, tables in cached],
            resumed_req_ids=set(resumed),
        ),
    )


def test_tables_of_vllm_are_used_where_exposed():
    told = Fake(kv_connector_block_state=Fake(get_block_ids={"r": ([1, 2],)}.get))
    assert BlockTables().of_step(told)("r") == ([1, 2],)


class Counted:
    """A block of vLLM's, which tells how often a number was read."""

    read = 0

    def __init__(self, number):
        self.number = number

    @property
    def block_id(self):
        Counted.read += 1
        return self.number


@pytest.fixture
def told():
    """A step of vLLM's own KV cache manager, with a request of 60,000 blocks in each of two
    groups."""
    manager = pytest.importorskip("vllm.v1.core.kv_cache_manager")
    output = pytest.importorskip("vllm.v1.core.sched.output")
    if not hasattr(output, "KVConnectorBlockState"):
        pytest.skip("this vLLM hands out no tables")
    tables = [[Counted(first + i) for i in range(60_000)] for first in (0, 100_000)]
    made = manager.KVCacheManager.__new__(manager.KVCacheManager)
    made.coordinator = Fake(get_blocks=lambda _: tuple(tables))
    state = output.KVConnectorBlockState(
        req_ids={"r"}, resolve_block_ids=made.get_block_ids, boundary_state_offloads={}
    )
    Counted.read = 0
    return Fake(kv_connector_block_state=state, tables=tables)


def test_only_the_requested_part_of_a_table_is_read(told):
    group = fakes.group(table=1, block_size=16, chunk_tokens=256)
    (_, table) = BlockTables().of_step(told)("r")
    assert (
        group.pages(table, 3749) == [*range(159_984, 160_000)]
        and len(table) == 60_000
        and table[-1] == 159_999
    )
    assert Counted.read == 17


def test_tables_equal_the_copies_of_vllm(told):
    for own, copied in zip(
        BlockTables().of_step(told)("r"), told.kv_connector_block_state.get_block_ids("r")
    ):
        assert own[:] == copied and own[5] == copied[5] and own[-16:] == copied[-16:]


def test_a_vllm_with_another_manager_is_asked_for_copies():
    state = Fake(resolve_block_ids=lambda _: None, get_block_ids={"r": ([1, 2],)}.get)
    assert BlockTables().of_step(Fake(kv_connector_block_state=state))("r") == ([1, 2],)


def test_without_exposed_tables_each_step_extends_them():
    tables = BlockTables()
    given = [1, 2]
    tables.of_step(step(new=[("r", (given,)), ("s", ([8],))]))
    assert tables.of_step(step(cached=[("r", None), ("s", ([9],))]))("r") == ([1, 2],)
    of = tables.of_step(step(cached=[("r", ([3],))]))
    assert (of("r"), of("s")) == (([1, 2, 3],), ([8, 9],))
    assert given == [1, 2], "vLLM's own list, still in use by vLLM"


def test_a_request_that_was_preempted_has_new_ones():
    tables = BlockTables()
    tables.of_step(step(new=[("r", ([1, 2],))]))
    assert tables.of_step(step(cached=[("r", ([7],))], resumed=["r"]))("r") == ([7],)
    assert tables.of_step(step(new=[("r", ([5],))]))("r") == ([5],)


def test_an_ended_request_is_forgotten():
    tables = BlockTables()
    tables.of_step(step(new=[("r", ([1],))]))
    tables.forget("r")
    tables.forget("never seen")
    assert tables._tables == {}
