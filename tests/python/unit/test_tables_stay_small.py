"""The tables of the scheduler's half that follow vLLM (docs/design/tables.md): requests of all ends
leave nothing behind."""

from pathlib import Path

import pytest

pytest.importorskip("vllm")

import larder  # noqa: E402
from fakes import FAST, Request, blocks, ended, measured_half, step  # noqa: E402
from python_tables import tables_of  # noqa: E402
from scheduler_fakes import chunk_keys, client, no_wait, run_prefill, store_all  # noqa: E402, F401

from larder.vllm.messages import WorkerReport  # noqa: E402

TABLE = range(1, 11)
TOKENS = 300
ROOT = Path(larder.__file__).parent


def sizes_of(half):
    """{(class, name): entries} of all tables below `half`."""
    names = {name for _, name in tables_of(ROOT)}
    sizes, seen, todo = {}, set(), [half]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, (list, tuple, set, frozenset)):
            todo += one
        elif type(one).__module__.startswith("larder.") and hasattr(one, "__dict__"):
            for name, value in vars(one).items():
                if name in names and hasattr(value, "__len__"):
                    key = type(one).__name__, name
                    sizes[key] = sizes.get(key, 0) + len(value)
                todo.append(value)
    return sizes


def lives(half, client, number):
    """Requests of all ends, each with a prompt of its own."""

    def request(name):
        first = 10_000 * number + 1_000 * ord(name[0])
        hints = {"larder": {"release": True}}
        return Request(f"{name}{number}", range(first, first + TOKENS), kv_transfer_params=hints)

    def finish(one):
        half.request_finished(one)
        half.take_answer(one.request_id)

    computed = request("a")  # and a late report of its stores
    run_prefill(half, computed, TABLE, TOKENS)
    finish(computed)
    loaded, failed, aborted, waits, absent = (request(name) for name in "bcdef")
    for one in (loaded, failed, aborted):
        store_all(client, one)
        external, _ = half.get_num_new_matched_tokens(one, 0)
        assert external == 256
        half.update_state_after_alloc(one, blocks(TABLE), external)
    equal = Request(f"equal{number}", loaded.tokens)  # it waits for the load
    assert half.get_num_new_matched_tokens(equal, 0)[0] is None
    finish(equal)
    half.build_connector_meta(step())
    finish(aborted)  # vLLM frees its blocks when the load has ended
    half.update_connector_output(
        ended([one.request_id for one in (loaded, failed, aborted)], [failed.request_id])
    )
    tables = {one.request_id: TABLE for one in (loaded, failed)}
    new = [(loaded.request_id, 256, 44), (failed.request_id, 0, TOKENS)]
    half.build_connector_meta(step(new=new, tables=tables))
    half.build_connector_meta(step(preempted=[loaded.request_id]))
    for one in (loaded, failed):
        finish(one)
    client.tier = FAST
    client.on_disk.update(chunk_keys(waits))
    assert half.get_num_new_matched_tokens(waits, 0)[0] is None, "it waits for the disk"
    half.get_num_new_matched_tokens(absent, 0)
    finish(waits)
    finish(absent)
    client.tier = None
    steps = {number: 1 for number in half._stored._kept._steps}
    kept = tuple(half._stored._kept._kept)  # vLLM keeps their blocks until the workers report them
    half.update_connector_output(ended(meta=WorkerReport(ended=steps), sent=kept))
    half.build_connector_meta(step())


def test_requests_of_all_ends_leave_nothing(client):
    half = measured_half(client)
    for number in range(5):
        lives(half, client, number)
    before = sizes_of(half)
    assert len(before) > 25, "the walk finds the tables"
    for number in range(5, 60):
        lives(half, client, number)
    after = sizes_of(half)
    assert half.off is None
    grown = {key: (before.get(key), size) for key, size in after.items() if size > before[key]}
    assert grown == {}
    assert client.holds == {} == client.fetches == client.probes
