"""Block tables, of a vLLM that hands them out and of one that does not."""

from types import SimpleNamespace as Fake

from larder.vllm.block_tables import BlockTables


def step(new=(), cached=(), resumed=()):
    """As vLLM 0.28 and older tell. new and cached: (request id, what is added to its tables)."""
    return Fake(
        scheduled_new_reqs=[Fake(req_id=name, block_ids=tables) for name, tables in new],
        scheduled_cached_reqs=Fake(
            req_ids=[name for name, _ in cached], new_block_ids=[tables for _, tables in cached], resumed_req_ids=set(resumed)
        ),
    )


def test_they_are_vllms_own_where_it_tells():
    told = Fake(kv_connector_block_state=Fake(get_block_ids={"r": ([1, 2],)}.get))
    assert BlockTables().of_step(told)("r") == ([1, 2],)


def test_else_each_step_adds_to_them():
    tables = BlockTables()
    given = [1, 2]
    tables.of_step(step(new=[("r", (given,)), ("s", ([8],))]))
    assert tables.of_step(step(cached=[("r", None), ("s", ([9],))]))("r") == ([1, 2],)
    of = tables.of_step(step(cached=[("r", ([3],))]))
    assert (of("r"), of("s")) == (([1, 2, 3],), ([8, 9],))
    assert given == [1, 2], "vLLM's own list, which it goes on using"


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
