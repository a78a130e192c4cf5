"""kv_transfer_params["larder"] of a request, and the answer to it, over fakes."""

from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import (  # noqa: E402
    FAST_AND_SHARED,
    NAMED,
    Client,
    Request,
    blocks,
    chunk_keys,
    ended,
    measured_half,
    setup,
)

from vllm.config import KVTransferConfig  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.example_connector import (  # noqa: E402
    ExampleConnector,
)

from larder.vllm import LarderConnector, request_hints  # noqa: E402
from larder.vllm.engine_metrics import Observed  # noqa: E402
from larder.vllm.request_hints import RequestHints, fault_of, hints_of  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402


@pytest.fixture
def client():
    return Client()


def asking(hints=None, name="r", tokens=400):
    return Request(
        name, range(tokens), kv_transfer_params={"larder": {} if hints is None else hints}
    )


def admit(half, one, local=0):
    """Look-up, and blocks for it. Returns the tokens to load."""
    external, _ = half.get_num_new_matched_tokens(one, local)
    half.update_state_after_alloc(one, blocks(range(1, 40)), external)
    return external


def answer(half, one):
    half.request_finished(one)
    return half.take_answer(one.request_id)


def served(memory=0, disk=0, shared=0):
    tokens = {"memory": memory, "disk": disk, "shared": shared}
    return {"larder": {"served": {"cached_tokens": memory + disk + shared, **tokens}}}


def test_the_answer_has_the_loaded_tokens_of_each_tier(client):
    half = measured_half(client)
    client.tier = FAST_AND_SHARED
    one = asking(tokens=700)
    memory, disk, *backend = chunk_keys(one)
    client.stored.add(memory)
    client.on_disk.add(disk)
    client.in_backend.update(backend)
    half.get_num_new_matched_tokens(one, 0)
    client.answer_look(client.the_probe())
    half.get_num_new_matched_tokens(one, 0)
    client.arrive(client.the_fetch())
    assert admit(half, one) == 640
    assert answer(half, one) == served(128, 128, 384)


def test_chunks_brought_by_others_since_the_probe_count_as_memory(client):
    half = measured_half(client)
    client.tier = FAST_AND_SHARED
    one = asking(tokens=700)
    memory, disk, *backend = chunk_keys(one)
    client.stored.add(memory)
    client.on_disk.add(disk)
    client.in_backend.update(backend)
    half.get_num_new_matched_tokens(one, 0)
    client.answer_look(client.the_probe())
    client.stored.update([disk, *backend[:2]])
    half.get_num_new_matched_tokens(one, 0)
    client.arrive(client.the_fetch())
    assert admit(half, one) == 640
    assert answer(half, one) == served(512, 0, 128)


def test_tokens_of_the_engines_own_cache_are_left_out(client):
    half = LarderConnectorScheduler(setup(), client, NAMED)
    one = asking()
    client.stored.update(chunk_keys(one))
    assert admit(half, one, local=160) == 224
    assert answer(half, one) == served(224)


def test_a_miss_and_a_failed_load_serve_no_token(client):
    half = LarderConnectorScheduler(setup(), client, NAMED)
    one, other = asking(), asking(name="s")
    admit(half, one)
    assert answer(half, one) == served()
    client.stored.update(chunk_keys(other))
    assert admit(half, other) == 384
    half.update_connector_output(ended({"s"}, {"s"}))
    assert answer(half, other) == served()


def test_the_first_load_counts_after_a_preemption(client):
    half = LarderConnectorScheduler(setup(), client, NAMED)
    one = asking()
    admit(half, one)
    client.stored.update(chunk_keys(one))
    assert admit(half, one) == 384
    assert answer(half, one) == served()


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"larder": "off"},
        {"larder": "await"},
        {"do_remote_prefill": False, "x": {"y": 1}},
        "larder",  # by vllm_xargs
        ["larder"],
        1,
    ],
)
def test_a_request_without_an_object_has_no_answer(client, params):
    half = LarderConnectorScheduler(setup(), client, NAMED)
    one = Request("r", range(400), kv_transfer_params=params)
    admit(half, one)
    assert half.off is None, "no client turns an engine's cache off"
    assert answer(half, one) is None and half.observed() is None
    assert one.kv_transfer_params == params, "keys of other connectors are not touched"


def test_an_engine_that_is_off_answers_too(client):
    half = LarderConnectorScheduler(setup(), client, NAMED)
    half.turn_off("for the test")
    one = asking()
    admit(half, one)
    assert answer(half, one) == served()


NO_TIME = 'not a time of "1s" to "24h", such as "10m"'
BOTH = "larder.keep stands beside release or low priority, which let chunks leave first"


@pytest.mark.parametrize(
    "text, seconds", [("1s", 1), ("90s", 90), ("10m", 600), ("24h", 86400), ("86400s", 86400)]
)
def test_a_keep_has_a_time(text, seconds):
    hints = {"keep": text, "priority": "normal", "release": False}
    assert fault_of(hints) == ""
    assert hints_of(hints, {}).keep_s == seconds


@pytest.mark.parametrize(
    "value, fault",
    [
        ("of", "larder is 'of', not 'off', 'await' or an object"),
        (None, ""),
        (7, "larder is 7, not 'off', 'await' or an object"),
        (["off"], "larder is a list, not 'off', 'await' or an object"),
        ({"keeep": 1}, "larder has the unknown key 'keeep': known are priority, release and keep"),
        ({7: 1}, "larder has the unknown key 7: known are priority, release and keep"),
        ({"priority": "lo"}, "larder.priority is 'lo', not \"normal\" or \"low\""),
        ({"priority": None}, "larder.priority is None, not \"normal\" or \"low\""),
        ({"priority": "low", "release": 1}, "larder.release is 1, not true or false"),
        ({"release": [{}]}, "larder.release is a list, not true or false"),
        ({"release": {"a": 1}}, "larder.release is an object, not true or false"),
        ({"keep": "10x"}, f"larder.keep is '10x', {NO_TIME}"),
        ({"keep": "25h"}, f"larder.keep is '25h', {NO_TIME}"),
        ({"keep": "0m"}, f"larder.keep is '0m', {NO_TIME}"),
        ({"keep": "\u0661m"}, f"larder.keep is '\u0661m', {NO_TIME}"),
        ({"keep": 600}, f"larder.keep is 600, {NO_TIME}"),
        ({"keep": [1]}, f"larder.keep is a list, {NO_TIME}"),
        ({"keep": "1m", "release": True}, BOTH),
        ({"keep": "1m", "priority": "low"}, BOTH),
        ({"served": {"memory": 7}, "fault": "larder has"}, ""),
    ],
)
# covers F-476
def test_wrong_hints_are_named_and_counted_and_the_request_hits(client, caplog, value, fault):
    half = LarderConnectorScheduler(setup(), client, NAMED)
    one = asking()
    one.kv_transfer_params["larder"] = value
    client.stored.update(chunk_keys(one))
    assert admit(half, one) == 384
    assert (fault_of(value) if value is not None else "") == fault
    lines = [f"request r runs without its hints: kv_transfer_params.{fault}"] if fault else []
    assert [line.removeprefix("Larder: ") for line in caplog.messages if "hints" in line] == lines
    observed = half.observed()
    assert (observed.data["wrong_hints"] if observed else []) == ([1] if fault else [])
    admit(half, one)
    assert half.observed() is None, "a preemption tells nothing twice"
    said = answer(half, one)
    if fault or isinstance(value, dict):
        expected = served(384)
        if fault:
            expected["larder"]["fault"] = fault
        assert said == expected
    else:
        assert said is None


class Unsorted(str):
    """A key of an object: the scheduler's thread does not sort the keys of clients."""

    def __lt__(self, other):
        raise AssertionError("sorted")


def test_values_of_clients_are_shown_in_one_short_line():
    keys = {Unsorted(number): 1 for number in range(10)}
    for value in ({"release": keys}, {"priority": [keys]}, [keys]):
        assert len(fault_of(value)) < 160
    for value in ("a\nb" * 99999, {"a\nb" * 99999: 1}, {"release": list(range(99999))}, 10**999):
        assert len(fault_of(value)) < 160 and "\n" not in fault_of(value)


# covers F-476
def test_wrong_hints_have_one_line_a_minute(caplog):
    now = [0.0]
    observed = Observed()
    hints = RequestHints(observed, lambda: now[0])
    for number in range(5):
        hints.admitted(asking("of", f"r{number}"), {})
    now[0] += request_hints.TELL_EVERY_S
    hints.admitted(asking("of", "last"), {})
    lines = [line for line in caplog.messages if "hints" in line]
    assert len(lines) == 2 and "r0" in lines[0] and "last" in lines[1]
    assert lines[1].endswith("(left out: 4 more such lines)")
    assert observed.data["wrong_hints"] == [1] * 6


@pytest.mark.parametrize("beside", [False, True])
def test_beside_another_connector_there_is_no_answer(beside):
    """The MultiConnector of an older vLLM ends the engine where two connectors answer."""

    class Wrapper(ExampleConnector):
        def __init__(self, vllm_config, role, kv_cache_config):
            self.inner = LarderConnector(vllm_config, role, kv_cache_config)

    transfer = KVTransferConfig(kv_connector="LarderConnector", kv_role="kv_both")
    arguments = (
        SimpleNamespace(kv_transfer_config=transfer, lora_config=None),
        KVConnectorRole.SCHEDULER,
        None,
    )
    made = Wrapper(*arguments).inner if beside else LarderConnector(*arguments)
    one = asking()
    made.update_state_after_alloc(one, blocks(range(1, 40)), 0)
    assert made.request_finished(one, []) == (False, None if beside else served())
    made.shutdown()
