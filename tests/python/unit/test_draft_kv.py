"""The tokens behind the draft pages of a request."""

import random
import sys

import pytest

pytest.importorskip("vllm")

from draft_world import BLOCK, LONGEST, NoItems, Tables, World, draft_kv  # noqa: E402
from fakes import NAMED, Request, setup, step  # noqa: E402
from scheduler_fakes import client, run_prefill  # noqa: E402, F401

from larder.vllm.drafts import Drafts  # noqa: E402
from larder.vllm.keys import name_before, names_before  # noqa: E402
from larder.vllm.scheduler import LarderConnectorScheduler  # noqa: E402

P = list(range(100, 116))  # two chunks


class Engine:
    """A DraftKv, and requests that compute."""

    def __init__(self, **how):
        self.kv, self.requests = draft_kv(**how), {}

    def admit(self, name, tokens, table, local=0, external=0, **fields):
        request = Request(name, tokens, block_size=BLOCK, **fields)
        self.requests[name] = request, table
        self.kv.admitted(request, local, external, Tables(table))
        return request

    def step(self, new=(), cached=()):
        made = step(new=new, cached=cached)
        self.kv.step(made, lambda name: (self.requests[name][1],))

    def compute(self, name, tokens, table, local=0, external=0, begin=None, **fields):
        self.admit(name, tokens, table, local, external, **fields)
        begin = local + external if begin is None else begin
        self.step(new=[(name, begin, len(tokens) - begin)])

    def good(self, name, chunks=2):
        return [self.kv.may_store(name, chunk) for chunk in range(chunks)]


class TestHits:
    def test_a_request_that_computes_everything_stores_everything(self):
        engine = Engine()
        engine.compute("r", [*P, 1], range(1, 6))
        assert engine.good("r") == [True, True]

    @pytest.mark.parametrize(("layers", "behind"), [(1, True), (2, False), (None, False)])
    # covers F-262
    def test_a_block_of_vllms_cache_that_was_computed_with_another_next_token(self, layers, behind):
        """R1 = P x; R2 = P y has the last block of P in a second block of the same hash; R3 = R2's
        prompt hits the first one."""
        engine = Engine(layers=layers)
        engine.compute("R1", [*P, 7], [1, 2, 3, 4, 5])
        engine.compute("R2", [*P, 8], [1, 2, 3, 6, 7], local=12)
        assert engine.good("R2") == [True, True]
        more = list(range(200, 212))
        engine.compute("R3", [*P, 8, *more], [1, 2, 3, 4, 8, 9, 10, 11], local=16)
        assert engine.good("R3", 3) == [True, False, behind]
        engine.compute("R4", [*P, 7, *more], [1, 2, 3, 4, 12, 13, 14, 15], local=16)
        assert engine.good("R4", 3) == [True, True, True]

    def test_a_block_that_a_request_without_larder_filled_anew(self):
        engine = Engine()
        engine.compute("R1", [*P, 7], [1, 2, 3, 4, 5])
        engine.kv.forget("R1")
        engine.compute("off", [*P, 8], [1, 2, 3, 4, 5])
        engine.compute("R3", [*P, 7, 9], [1, 2, 3, 4, 6], local=16)
        assert engine.good("R3") == [True, False]

    def test_a_block_loses_its_entry_before_its_next_token_is_known(self):
        engine = Engine()
        engine.compute("R1", [*P, 7], [1, 2, 3, 4, 5])
        engine.kv.forget("R1")
        engine.compute("R2", P, [1, 2, 3, 4])
        engine.compute("R3", [*P, 7, 9], [1, 2, 3, 4, 6], local=16)
        assert engine.good("R3") == [True, False]
        engine.requests["R2"][0].tokens.append(7)
        engine.step(cached=[("R2", 16, 1)])
        engine.compute("R4", [*P, 7, 9], [1, 2, 3, 4, 8], local=16)
        assert engine.good("R4") == [True, True]

    def test_a_block_that_a_running_request_is_given_loses_its_entry(self):
        engine = Engine()
        engine.compute("R1", [*P, 7], [1, 2, 3, 4, 5])
        engine.kv.forget("R1")
        engine.compute("R2", P[:12], [1, 2, 3])
        request, _ = engine.requests["R2"]
        request.tokens += P[12:]
        engine.requests["R2"] = request, [1, 2, 3, 4]
        engine.step(cached=[("R2", 12, 4)])
        engine.compute("R3", [*P, 7, 9], [1, 2, 3, 4, 6], local=16)
        assert engine.good("R3") == [True, False]

    def test_a_chunk_that_is_hit_in_part(self):
        engine = Engine()
        engine.compute("r", [*P, 1], [1, 2, 3, 4, 5], local=4)
        assert engine.good("r") == [False, True]

    def test_a_request_admitted_in_the_step_that_computes_its_hit(self):
        engine = Engine()
        engine.admit("R1", [*P, 7, 8], [1, 2, 3, 4, 5])
        engine.step(new=[("R1", 0, 8)])
        engine.admit("R2", [*P, 7, 9], [1, 2, 3, 4, 6], local=16)
        engine.step(new=[("R2", 16, 2)], cached=[("R1", 8, 10)])
        assert engine.good("R2") == [True, True]

    def test_pictures_and_streaming_sessions(self):
        class Items:
            own = True

            def places(self, request):
                return request.places

            def are_own(self, request):
                return self.own

        items = Items()
        engine = Engine(items=items)
        engine.compute("R1", [*P, 7], [1, 2, 3, 4, 5], places=((16, b"a"),))
        for name, places, good in (
            ("same", ((16, b"a"),), True),
            ("other", ((16, b"b"),), False),
            ("no name", None, False),
            ("none", (), False),
        ):
            engine.compute(name, [*P, 7, 9], [1, 2, 3, 4, 6], local=16, places=places)
            assert engine.good(name)[1] is good, name
        items.own = False
        engine.compute("R1", [*P, 7], [1, 2, 3, 4, 5], places=((16, b"b"),))
        items.own = True
        engine.compute("R2", [*P, 7, 9], [1, 2, 3, 4, 6], local=16, places=((16, b"b"),))
        assert engine.good("R2") == [False, False], (
            "the drafter read a picture of vLLM's encoder cache"
        )
        session = Engine()
        session.compute("R1", [*P, 7], [1, 2, 3, 4, 5], resumable=True)
        assert session.good("R1") == [False, False], "it takes token 7 back, for another one"
        session.compute("R2", [*P, 7], [1, 2, 3, 4, 6], local=16)
        assert session.good("R2") == [False, False]
        session = Engine(lookahead=0)
        session.compute("R1", [*P, 7], [1, 2, 3, 4, 5], resumable=True)
        assert session.good("R1") == [True, True]

    def test_weights_that_change(self):
        engine = Engine()
        engine.compute("R1", [*P, 7], [1, 2, 3, 4, 5])
        engine.kv.reset()
        engine.compute("R2", [*P, 7], [1, 2, 3, 4, 6], local=16)
        assert engine.good("R2") == [False, False]


class TestStepsWithoutTheDrafter:
    LONG = list(range(300, 300 + LONGEST + 10))

    @pytest.mark.parametrize("layers", [1, 2])
    # covers F-262
    def test_a_prompt_longer_than_the_drafter_serves(self, layers):
        engine = Engine(layers=layers)
        engine.admit("r", self.LONG, range(1, 11))
        for begin in range(0, 40, 8):
            engine.step(**{"cached" if begin else "new": [("r", begin, 8)]})
        assert engine.good("r", 5) == [True, True, True, False, False]

    def test_another_request_of_the_step_is_that_long(self):
        engine = Engine()
        engine.admit("long", self.LONG, range(1, 11))
        engine.admit("r", [*P, *range(8), 7], range(11, 18))
        engine.step(new=[("long", 0, 24), ("r", 0, 8)])
        engine.step(cached=[("long", 24, 16), ("r", 8, 4)])
        engine.step(cached=[("r", 12, 13)])
        assert engine.good("r", 3) == [True, False, True], (
            "a block that a good step completes stays bad"
        )
        engine.compute("s", [*P, *range(8), 7], [11, 12, 13, 14, 15, 16, 20], local=24)
        assert engine.good("s", 3) == [True, False, True]

    def test_with_several_layers_all_that_follows_is_bad(self):
        engine = Engine(layers=2)
        engine.admit("long", self.LONG, range(1, 11))
        engine.admit("r", [*P, *range(8), 7], range(11, 18))
        engine.step(new=[("long", 0, 40), ("r", 0, 4)])
        engine.step(cached=[("r", 4, 21)])
        assert engine.good("r", 3) == [False, False, False]

    def test_a_preempted_request_begins_anew(self):
        engine = Engine()
        engine.admit("long", self.LONG, range(1, 11))
        engine.admit("r", [*P, 7], range(11, 16))
        engine.step(new=[("long", 0, 40), ("r", 0, 17)])
        assert engine.good("r") == [False, False]
        engine.compute("r", [*P, 7], range(16, 21))
        assert engine.good("r") == [True, True]

    def test_drafts_that_may_be_rejected_are_no_part_of_the_tokens(self):
        """With asynchronous scheduling the step counts from token 14, and may begin at token 12."""
        engine = Engine()
        engine.compute("r", P[:13], range(1, 8))
        engine.admit("long", self.LONG, range(11, 21))
        engine.step(cached=[("r", 16, 2)], new=[("long", 0, 40)])
        engine.requests["r"][0].tokens += [*P[13:], 7]
        engine.step(cached=[("r", 16, 1)])
        assert engine.good("r") == [True, False]


class TestLoads:
    def test_loaded_blocks_are_trusted_once_the_request_computes(self):
        engine = Engine()
        engine.compute("r", [*P, 7], [1, 2, 3, 4, 5], external=16)
        assert engine.good("r") == [True, True]
        engine.compute("s", [*P, 7, 9], [1, 2, 3, 4, 6], local=16)
        assert engine.good("s") == [True, True]

    def test_a_loaded_block_that_is_hit_before_its_request_computes(self):
        engine = Engine()
        engine.compute("R1", [*P, 7], [1, 2, 3, 4, 5])
        engine.kv.forget("R1")
        engine.admit("loads", [*P, 8], [1, 2, 3, 4, 6], local=12, external=4)
        engine.step()
        engine.compute("R3", [*P, 7, 9], [1, 2, 3, 4, 7], local=16)
        assert engine.good("R3") == [True, False]

    def test_a_load_that_fails_is_computed(self):
        engine = Engine()
        engine.compute("r", [*P, 7], [1, 2, 3, 4, 5], external=16, begin=0)
        assert engine.good("r") == [True, True]

    def test_a_load_that_fails_before_the_next_step(self):
        """vLLM admits the request once more, behind a request whose blocks are then hit."""
        engine = Engine()
        engine.admit("r", [*P, 7, 9], [1, 2, 3, 4, 5], external=16)
        engine.admit("s", [*P, 7], [6, 7, 8, 9, 10])
        engine.admit("r", [*P, 7, 9], [6, 7, 8, 9, 5], local=16)
        engine.step(new=[("s", 0, 17), ("r", 16, 2)])
        assert engine.good("r") == [True, True]

    def test_kv_of_another_connector_is_not_trusted(self):
        engine = Engine()
        engine.compute("r", [*P, 7], [1, 2, 3, 4, 5], begin=16)
        assert engine.good("r") == [False, False]

    def test_a_waiting_request_has_nothing_to_store(self):
        engine = Engine()
        engine.admit("r", [*P, 7], [1, 2, 3, 4, 5], external=16)
        engine.step()
        assert engine.kv._blocks == {}


class TestCost:
    """Of the scheduler's thread. Python calls no function for each block: a hit of 60,000 tokens
    has 3,750 blocks of 16."""

    def calls(self, monkeypatch, blocks, **hit):
        engine, tokens = (
            Engine(layers=hit.pop("layers", 1), longest=10**6),
            [*range(BLOCK * blocks), 7, 9],
        )
        chain = Request(
            "r", tokens, block_size=BLOCK
        ).block_hashes  # vLLM keeps them; the stand-in makes them anew each time
        monkeypatch.setattr(Request, "block_hashes", chain)
        engine.compute("R1", tokens[:-1], range(1, blocks + 2))
        engine.admit(
            "R2", tokens, [*range(1, blocks + 1), 10**6], **{name: BLOCK * blocks for name in hit}
        )
        counted = []
        sys.setprofile(lambda frame, event, _: counted.append(event == "call"))
        try:
            engine.step(new=[("R2", BLOCK * blocks, 2)])
        finally:
            sys.setprofile(None)
        assert engine.good("R2", blocks * BLOCK // 8) == [True] * (blocks // 2)
        return sum(counted)

    @pytest.mark.parametrize(
        "hit", [{"local": True}, {"external": True}, {"local": True, "layers": 2}], ids=str
    )
    def test_a_hit_costs_no_call_for_a_block(self, hit, monkeypatch):
        assert self.calls(monkeypatch, 1000, **hit) == self.calls(monkeypatch, 10, **hit)

    @pytest.mark.parametrize("lookahead", [0, 1])
    def test_a_request_that_decodes_is_looked_at_once_a_block(self, lookahead, monkeypatch):
        engine, looked = Engine(lookahead=lookahead, longest=10**6), []
        engine.compute("r", [*P, 7], range(1, 50))
        note = engine.kv._note
        monkeypatch.setattr(
            engine.kv,
            "_note",
            lambda life, end, tables: looked.append(end) or note(life, end, tables),
        )
        request, _ = engine.requests["r"]
        for end in range(len(P) + 2, len(P) + 2 + 25 * BLOCK):
            request.tokens.append(1)
            engine.step(cached=[("r", end - 1, 1)])
        assert len(looked) <= 26 and engine.good("r", 13) == [True] * 13
        assert {7, 8, 20} <= set(engine.kv._blocks)

    def test_a_picture_before_the_hit(self):
        """One pass over the items and the blocks."""
        names = names_before(((5, b"a"), (9, b"b"), (9, b"c"), (100, b"d")), range(4, 24, 4), 1)
        assert names == [b"", b"a", b"c", b"c", b"c"]
        assert names == [
            name_before(((5, b"a"), (9, b"b"), (9, b"c")), end + 1) for end in range(4, 24, 4)
        ]


def test_lookups_end_at_the_last_good_chunk(client, monkeypatch):  # noqa: F811
    drafts = Drafts("draft_model", 0, 200, 2)
    half = LarderConnectorScheduler(setup(drafts=drafts), client, NAMED)
    asked = []
    lookup = client.lookup
    monkeypatch.setattr(
        client, "lookup", lambda hashes, *more: asked.append(len(hashes)) or lookup(hashes, *more)
    )
    half.get_num_new_matched_tokens(Request("r", range(1000)), 0)
    asked.clear()
    assert len(run_prefill(half, Request("r", range(1000)), range(1, 40), 128)) == 1
    assert len(asked) <= 3, "the chunk, and whether its store was late"


class TestBounds:
    def test_an_engine_without_vllms_prefix_cache_notes_no_block(self):
        engine = Engine(own_cache=False)
        engine.compute("r", [*P, 1], range(1, 6))
        assert engine.good("r") == [True, True] and engine.kv._blocks == {}

    def test_a_request_that_is_not_known_ends_all_trust(self):
        engine = Engine()
        engine.compute("R1", [*P, 7], [1, 2, 3, 4, 5])
        engine.requests["unknown"] = None, [4, 5]
        engine.step(new=[("unknown", 0, 8)])
        assert engine.kv._blocks == {} and not engine.kv.may_store("unknown", 0)

    def test_entries_go_with_their_requests_and_blocks(self):
        world = World(lag=1)
        walk(world, 300)
        for name in list(world.running):
            world.end(name)
        assert world.kv._lives == world.kv._admitted == {} and set(world.kv._blocks) <= set(
            world.pages
        )

    def test_an_engine_without_drafts_stores_and_notes_nothing(self):
        from larder.vllm.draft_kv import DraftKv

        kv = DraftKv(setup(), NoItems())
        kv.admitted(Request("r", P), 0, 0, Tables([1]))
        kv.step(step(new=[("r", 0, 16)]), None)
        assert kv.may_store("r", 0) and kv._lives == {}


def walk(world, steps):
    choose = random.Random(5)
    for number in range(steps):
        if len(world.running) < 3 and choose.random() < 0.5:
            tokens = [
                choose.randrange(2) if at % BLOCK == 0 else 0
                for at in range(choose.randrange(6, 36))
            ]
            world.admit(f"r{number}", tokens)
        elif world.running and choose.random() < 0.15:
            world.end(choose.choice(list(world.running)))
        elif world.running and choose.random() < 0.05:
            world.preempt(choose.choice(list(world.running)))
        world.step()


@pytest.mark.parametrize(("lookahead", "layers"), [(1, 1), (1, 2), (0, 1), (0, 2)])
@pytest.mark.parametrize("lag", [0, 1])
def test_random_steps_never_store_draft_kv_of_other_tokens(lookahead, layers, lag):
    world = World(lookahead=lookahead, layers=layers, lag=lag)
    walk(world, 2500)
    assert world.counts["wrong"] == 0
    assert (
        min(world.counts["hit"], world.counts["skipped"], world.counts["bad"]) > 50
        and world.counts["good"] > 500
    )


@pytest.mark.parametrize("broken", ["hits are trusted", "skipped steps are not seen"])
def test_the_random_steps_find_each_fault(broken, monkeypatch):
    world = World()
    if broken == "hits are trusted":
        monkeypatch.setattr(world.kv, "_hit", lambda life, tables: None)
    else:
        world.kv._longest = 10**6
    walk(world, 2500)
    assert world.counts["wrong"] > 0
