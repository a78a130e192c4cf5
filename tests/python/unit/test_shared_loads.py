"""Equal prompts that arrive together: one prompt loads, the others wait and then hit vLLM's own
cache. And each failure of this rule."""

import itertools
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from fakes import (
    FAST,
    LATER,
    NAMED,
    Client,
    Request,
    blocks,
    chunk_keys,
    ended,
    group,
    measured_half,
    setup,
    split,
    step,
)  # noqa: E402
from scheduler_fakes import store_all  # noqa: E402

from larder.vllm import shared_loads  # noqa: E402
from larder.vllm.keys import chunk_hashes  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402

TABLE = range(1, 40)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def clock():
    return Clock()


def half_over(client, clock=None, **changes):
    half = LarderConnectorScheduler(setup(**changes), client, NAMED)
    if clock is not None:
        half._shared._clock = clock
    return half


@pytest.fixture
def half(client, clock):
    return half_over(client, clock)


def equal(count, tokens=400, client=None, **fields):
    """Requests of one prompt, which is stored where a client is given."""
    requests = [Request(f"r{i}", range(tokens), **fields) for i in range(count)]
    if client is not None:
        store_all(client, requests[0])
    return requests


def admit(half, request, local=0):
    """vLLM asks for the request and, unless told to ask again, gives the request blocks. Returns
    the answer."""
    external, _ = answer = half.get_num_new_matched_tokens(request, local)
    if external is not None:
        half.update_state_after_alloc(request, blocks(TABLE), external)
    return answer


def loads(half, preempted=()):
    return [move.request_id for move in half.build_connector_meta(step(preempted=preempted)).loads]


def nothing_left(half):
    shared = half._shared
    return (shared._under_way, shared._by_key, shared._waits, shared._in_vain) == (
        {},
        {},
        {},
        set(),
    )


class TestOneLoadsForAll:
    # covers F-043
    def test_other_requests_wait_for_the_load_and_load_nothing(self, half, client):
        first, *others = equal(12, client=client)
        assert admit(half, first) == (384, True)
        for _ in range(3):
            assert [admit(half, other) for other in others] == [LATER] * 11
        assert loads(half) == ["r0"]
        half.update_connector_output(ended(["r0"]))
        assert [admit(half, other, 384) for other in others] == [(0, False)] * 11
        assert loads(half) == [] and len(client.holds) == 0

    # covers F-043
    def test_a_waiting_request_makes_no_lookup(self, half, client):
        first, other = equal(2, client=client)
        admit(half, first)
        admit(half, other)
        client.fail = "lookup"
        assert admit(half, other) == LATER and half.off is None

    # covers F-043
    def test_all_is_forgotten_with_the_requests(self, half, client):
        requests = equal(3, client=client)
        for request in requests:
            admit(half, request)
        for request in requests[::-1]:
            half.request_finished(request)
        assert nothing_left(half)

    @pytest.mark.parametrize(
        ("tokens", "waits"), [(128, False), (129, True), (256, True), (300, True)]
    )
    # covers F-043
    def test_a_prompt_whose_blocks_vllm_would_not_share_loads(self, client, tokens, waits):
        """vLLM computes the last token, and shares whole blocks."""
        half = half_over(client, groups=(group(block_size=128),), block_size=128)
        first, other = (Request(name, range(tokens), block_size=128) for name in "ab")
        client.stored.update(first.block_hashes)
        admit(half, first)
        assert (admit(half, other) == LATER) is waits

    # covers F-043
    def test_blocks_not_shared_by_vllm_are_loaded_after_the_wait(self, half, client):
        first, *others = equal(3, tokens=384, client=client)
        admit(half, first)
        assert [admit(half, other) for other in others] == [LATER] * 2
        half.update_connector_output(ended(["r0"]))
        assert [admit(half, other, 352) for other in others] == [(32, True)] * 2, (
            "waiting once more would bring no chunk"
        )

    # covers F-043
    def test_a_load_that_begins_behind_vllms_own_hit_is_waited_for(self, half, client):
        first, other = equal(2, client=client)
        assert admit(half, first, 160) == (224, True)
        assert admit(half, other, 160) == LATER

    # covers F-043
    def test_a_request_missing_more_than_the_load_loads_itself(self, half, client):
        """vLLM's cache lost blocks in between."""
        first, other = equal(2, client=client)
        admit(half, first, 160)
        assert admit(half, other, 0) == (384, True)


class TestWhoHasMore:
    def ask(self, half, client, first_tokens, other_tokens, stored=1024):
        store_all(client, Request("s", range(stored)))
        admit(half, Request("a", range(first_tokens)))
        return admit(half, Request("b", range(other_tokens)))

    # covers F-043
    def test_a_prompt_that_goes_on_behind_the_load_loads_at_once(self, half, client):
        assert self.ask(half, client, 300, 600) == (512, True)

    # covers F-043
    def test_a_prompt_continuing_with_unstored_chunks_waits(self, half, client):
        assert self.ask(half, client, 300, 600, stored=256) == LATER

    # covers F-043
    def test_a_prompt_that_ends_within_the_load_waits(self, half, client):
        assert self.ask(half, client, 600, 300) == LATER

    # covers F-043
    def test_a_prompt_with_another_end_loads_at_once(self, half, client):
        one, two = (
            Request("a", [*range(256), *range(5000, 5300)]),
            Request("b", [*range(256), *range(7000, 7300)]),
        )
        store_all(client, one)
        store_all(client, two)
        assert [admit(half, one), admit(half, two)] == [(512, True)] * 2
        assert admit(half, Request("c", two.tokens)) == LATER
        half.update_connector_output(ended(["a"]))
        assert admit(half, Request("c", two.tokens)) == LATER
        half.update_connector_output(ended(["b"]))
        assert admit(half, Request("c", two.tokens), 512) == (0, False)

    # covers F-043
    def test_a_prompt_may_wait_for_loads_in_turn(self, half, client):
        """The short prompt loads first; one of two long ones loads the part behind."""
        store_all(client, Request("s", range(1024)))
        admit(half, Request("short", range(300)))
        long = [Request(name, range(600)) for name in "ab"]
        assert admit(half, long[0]) == (512, True) and admit(half, long[1]) == LATER
        half.update_connector_output(ended(["short", "a"]))
        assert admit(half, long[1], 512) == (0, False)

    # covers F-043
    def test_a_prompt_that_a_reset_preempted_loads_for_all(self, half, client):
        """vLLM reports the preemption in the step that begins the load anew."""
        first, other = equal(2, client=client)
        admit(half, first)
        assert admit(half, other) == LATER
        assert loads(half, preempted=["r0", "r1"]) == ["r0"]
        assert admit(half, other) == LATER


class TestWindows:
    """vLLM keeps of a load the window before its end: no hit ends elsewhere."""

    @pytest.mark.parametrize(
        ("loads", "asks", "waits"),
        [
            (400, 400, True),
            (400, 385, True),
            (384, 384, False),
            (400, 384, False),
            (400, 300, False),
            (400, 129, False),
        ],
    )
    # covers F-043
    def test_waits_only_for_a_load_that_ends_where_its_own_would(self, client, loads, asks, waits):
        half = half_over(client, groups=(group(0), group(1, window=64)))
        store_all(client, Request("s", range(400)))
        for name, tokens in (("a", loads), ("b", asks)):
            request = Request(name, range(tokens))
            external, _ = half.get_num_new_matched_tokens(request, 0)
            if name == "a":
                half.update_state_after_alloc(request, blocks(TABLE, TABLE), external)
        assert (external is None) is waits

    def test_waits_for_no_load_where_vllm_drops_the_last_block_of_a_hit(self, client):
        half = half_over(client, groups=(group(0), group(1, window=64)), lookahead=1)
        keys = chunk_hashes(setup(lookahead=1), Request("s", range(400)), 0, 3, ())
        client.stored.update(split(keys, 32))
        for name in ("a", "b"):
            request = Request(name, range(400))
            external, _ = half.get_num_new_matched_tokens(request, 0)
            assert external == 384
            if name == "a":
                half.update_state_after_alloc(request, blocks(TABLE, TABLE), external)


class TestInVain:
    """Each goes on as if there had been no load under way, and never waits again."""

    @pytest.fixture
    def waiting(self, half, client):
        first, *others = equal(3, client=client)
        admit(half, first)
        assert [admit(half, other) for other in others] == [LATER] * 2
        return first, others

    def all_load(self, half, others):
        assert [admit(half, other) for other in others] == [(384, True)] * len(others)
        assert {"r1", "r2"} <= set(loads(half))
        for other in others:
            half.request_finished(other)

    # covers F-043
    def test_the_load_failed(self, half, waiting):
        half.update_connector_output(ended(["r0"], ["r0"]))
        self.all_load(half, waiting[1])
        assert half.get_num_new_matched_tokens(waiting[0], 0) == (0, False)
        half.request_finished(waiting[0])
        assert nothing_left(half)

    # covers F-043
    def test_its_request_was_aborted(self, half, waiting):
        half.request_finished(waiting[0])
        self.all_load(half, waiting[1])
        half.update_connector_output(ended(["r0"]))
        assert nothing_left(half)

    # covers F-043
    def test_its_request_was_preempted(self, half, waiting):
        loads(half)
        loads(half, preempted=["r0"])
        assert [admit(half, other) for other in waiting[1]] == [(384, True)] * 2

    # covers F-043
    def test_the_load_was_late(self, half, waiting, clock):
        clock.now += shared_loads.LOAD_BEGINS_WITHIN_S - 0.1
        assert admit(half, waiting[1][0]) == LATER
        clock.now += 0.2
        self.all_load(half, waiting[1])

    # covers F-043
    def test_vllm_has_lost_the_blocks(self, half, waiting):
        half.update_connector_output(ended(["r0"]))
        self.all_load(half, waiting[1])

    # covers F-043
    def test_the_worker_could_not_begin_it(self, half, client):
        first, other = equal(2, client=client)
        external, _ = half.get_num_new_matched_tokens(first, 0)
        client.fail = "hold"
        half.update_state_after_alloc(first, blocks(TABLE), external)
        client.fail = None
        assert half.get_num_new_matched_tokens(other, 0) == (0, False), "the half is off"

    # covers F-043
    def test_the_engine_is_reset(self, half, waiting, client):
        half.reset_cache()
        assert [admit(half, other) for other in waiting[1]] == [(0, False)] * 2
        for request in (waiting[0], *waiting[1]):
            half.request_finished(request)
        assert nothing_left(half)

    # covers F-043
    def test_larder_is_off(self, half, waiting):
        half.turn_off("a test")
        assert [admit(half, other) for other in waiting[1]] == [(0, False)] * 2
        half.request_finished(waiting[0])
        for other in waiting[1]:
            half.request_finished(other)
        assert nothing_left(half)

    # covers F-043
    def test_a_waiting_request_is_aborted(self, half, waiting):
        half.request_finished(waiting[1][0])
        half.update_connector_output(ended(["r0"]))
        assert admit(half, waiting[1][1], 384) == (0, False)
        half.request_finished(waiting[0])
        half.request_finished(waiting[1][1])
        assert nothing_left(half)

    # covers F-043
    def test_every_order_of_ends_leaves_nothing(self, client):
        """The load ends, and each request: in any order, with or without a question in between."""
        for order in itertools.permutations(["load", "r0", "r1", "r2"]):
            for asks in (False, True):
                half = half_over(client)
                requests = {request.request_id: request for request in equal(3, client=client)}
                alive = dict(requests)
                for request in requests.values():
                    admit(half, request)
                for event in order:
                    if event == "load":
                        half.update_connector_output(ended(["r0"]))
                    else:
                        half.request_finished(alive.pop(event))
                    if asks:
                        for request in list(alive.values())[1:]:
                            admit(half, request)
                assert nothing_left(half) and half.off is None, order


# covers F-043
def test_the_deadline_is_the_librarys(root):
    text = (root / "shim" / "capi" / "larder.cc").read_text()
    assert f"kDefaultStartWithinMs = {shared_loads.LOAD_BEGINS_WITHIN_S * 1000:.0f};" in text


class TestBounds:
    # covers F-043
    def test_waiting_requests_are_bounded(self, half, client, monkeypatch):
        monkeypatch.setattr(shared_loads, "MOST_WAITING", 2)
        first, *others = equal(4, client=client)
        admit(half, first)
        assert [admit(half, other) for other in others] == [LATER, LATER, (384, True)]
        half.request_finished(others[0])
        assert admit(half, Request("later", range(400))) == LATER

    # covers F-043
    def test_no_request_waits_for_a_waiting_one(self, half, client):
        first, second, third = equal(3, client=client)
        admit(half, first)
        admit(half, second)
        half.request_finished(first)
        assert admit(half, third) == (384, True), "the second waits, or will load itself"
        assert admit(half, second) == (384, True), "the request has waited once"

    # covers F-043
    def test_a_request_does_not_wait_for_itself(self, half, client):
        """vLLM asks again for a request without blocks, and for a preempted one."""
        (first,) = equal(1, client=client)
        admit(half, first)
        assert half.get_num_new_matched_tokens(first, 0) == (384, True)


class TestOthersChunks:
    # covers F-043
    def test_without_vllms_own_cache_no_block_is_shared(self, client):
        half = half_over(client, own_cache=False)
        assert [admit(half, request) for request in equal(3, client=client)] == [(384, True)] * 3

    # covers F-043
    def test_another_prompt(self, half, client):
        admit(half, equal(1, client=client)[0])
        other = Request("o", range(1000, 1400))
        store_all(client, other)
        assert admit(half, other) == (384, True)

    # covers F-043
    def test_a_salt_is_in_the_keys(self, half, client):
        admit(half, equal(1, client=client)[0])
        # as in vLLM: the first block's hash differs, and so do all later hashes
        salted = Request("s", [-7, *range(399)])
        store_all(client, salted)
        assert admit(half, salted) == (384, True)

    # covers F-043
    def test_a_request_that_opted_out(self, half, client):
        first, other = equal(2, client=client)
        other.kv_transfer_params = {"larder": "off"}
        admit(half, first)
        assert admit(half, other) == (0, False)

    # covers F-043
    def test_an_adapters_namespace_is_another(self, half, client):
        first, other = equal(2, client=client)
        admit(half, first)
        other_space = SimpleNamespace(number=1)
        hashes = b"".join(chunk_keys(other))
        assert half._shared.join(other, SimpleNamespace(number=0), hashes, 32, 3, 0)
        half._shared._waits.clear()
        assert not half._shared.join(other, other_space, hashes, 32, 3, 0)


class TestFetches:
    """Chunks below larderd's memory are promoted once, and loaded once."""

    @pytest.fixture
    def client(self):
        client = Client()
        client.tier = FAST
        return client

    @pytest.fixture
    def half(self, client):
        return measured_half(client)

    @pytest.fixture
    def requests(self, client):
        requests = equal(12)
        client.on_disk.update(chunk_keys(requests[0]))
        return requests

    # covers F-043
    def test_one_request_fetches_and_loads_for_all(self, half, client, requests):
        assert [admit(half, request) for request in requests] == [LATER] * 12
        assert len(client.fetches) == 1
        client.arrive(client.the_fetch())
        assert [admit(half, request) for request in requests] == [(384, True)] + [LATER] * 11
        assert loads(half) == ["r0"]
        half.update_connector_output(ended(["r0"]))
        assert [admit(half, request, 384) for request in requests[1:]] == [(0, False)] * 11
        assert client.call_names().count("fetch") == 1

    # covers F-043
    def test_a_part_of_the_fetch_arrived(self, half, client, requests):
        for request in requests:
            admit(half, request)
        client.arrive(client.the_fetch(), 2)
        assert [admit(half, request) for request in requests[:3]] == [(256, True), LATER, LATER]
        half.update_connector_output(ended(["r0"]))
        assert [admit(half, request, 256) for request in requests[1:]] == [LATER] * 11
        assert client.call_names().count("fetch") == 2, "one fetches the chunks still below"

    # covers F-043
    def test_no_chunk_arrived_in_time(self, half, client, requests):
        for request in requests:
            admit(half, request)
        client.arrive(client.the_fetch(), 0, "late", 0.2)
        assert [admit(half, request) for request in requests] == [(0, False)] * 12, (
            "after a loss all is computed for a while"
        )

    # covers F-043
    def test_its_request_was_aborted(self, half, client, requests):
        for request in requests:
            admit(half, request)
        half.request_finished(requests[0])
        assert admit(half, requests[1]) == LATER and len(client.fetches) == 1
        client.arrive(client.the_fetch())
        assert admit(half, requests[1]) == (384, True)

    # covers F-043
    def test_a_short_prompt_in_memory_is_loaded_at_once(self, half, client, requests):
        """A common begin, as a system prompt, beside a long prompt that is fetched."""
        client.stored.add(chunk_keys(requests[0])[0])
        assert admit(half, requests[0]) == LATER and len(client.fetches) == 1
        assert admit(half, Request("short", range(200))) == (128, True)

    # covers F-043
    def test_a_shorter_prompt_is_fetched_by_itself(self, half, client, requests):
        assert admit(half, requests[0]) == LATER
        assert admit(half, Request("short", range(300))) == LATER
        assert client.call_names().count("fetch") == 2

    # covers F-043
    def test_the_fetch_arrived_and_its_request_finds_no_blocks(self, half, client, requests):
        clock = half._shared._clock = Clock()
        for request in requests[:2]:
            admit(half, request)
        _, deadline_ms = client.fetches[client.the_fetch()]
        client.arrive(client.the_fetch())
        assert half.get_num_new_matched_tokens(requests[0], 0) == (384, True)
        assert admit(half, requests[1]) == LATER
        clock.now += deadline_ms / 1e3
        assert admit(half, requests[1]) == (384, True)
