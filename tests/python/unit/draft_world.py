"""Blocks, requests and a drafter like vLLM's, in small: the true content of each draft page.

The draft KV of a position is a value of its token and of the next token. With several layers, the
draft KV of all positions before counts too. A step without the drafter leaves the old value."""

import hashlib
import random

from fakes import Request, setup, step

from larder.vllm.draft_kv import DraftKv
from larder.vllm.drafts import Drafts

BLOCK, CHUNK, LONGEST = 4, 8, 30


def value(*parts):
    return hashlib.md5(repr(parts).encode()).digest()


class NoItems:
    def places(self, request):
        return ()

    def are_own(self, request):
        return True


def draft_kv(lookahead=1, layers=1, items=None, longest=LONGEST, **changes):
    drafts = Drafts("eagle" if lookahead else "draft_model", lookahead, longest, layers)
    return DraftKv(
        setup(BLOCK, CHUNK, drafts=drafts, lookahead=lookahead, **changes), items or NoItems()
    )


class Tables:
    def __init__(self, table):
        self.table = table

    def get_block_ids(self):
        return (list(self.table),)


class World:
    """lag: steps until the scheduler knows the tokens of a step."""

    def __init__(self, seed=0, blocks=24, lookahead=1, layers=1, lag=0):
        self.random, self.lookahead, self.layers, self.lag = (
            random.Random(seed),
            lookahead,
            layers,
            lag,
        )
        self.kv = draft_kv(lookahead, layers)
        self.pages = {block: [b"old"] * BLOCK for block in range(1, blocks + 1)}
        self.free = list(self.pages)
        self.cached = {}  # by block hash: vLLM's first block of the hash
        self.hash_of = {}
        self.held = dict.fromkeys(self.pages, 0)
        self.running = {}
        self.counts = dict.fromkeys(("good", "bad", "wrong", "hit", "skipped"), 0)

    # ---- vLLM

    def admit(self, name, tokens):
        request = Request(name, tokens, block_size=BLOCK)
        table, hashes = [], request.block_hashes
        for one in hashes[: (len(tokens) - 1) // BLOCK]:
            if one not in self.cached:
                break
            table.append(self.cached[one])
        if self.lookahead and self.random.random() < 0.7:
            table = table[:-1]
        for block in table:
            self.hold(block)
        request.table, request.computed, request.late = table, len(table) * BLOCK, []
        self.counts["hit"] += bool(table)
        self.kv.admitted(request, request.computed, 0, Tables(table))
        self.running[name] = request

    def hold(self, block):
        self.held[block] += 1
        if block in self.free:
            self.free.remove(block)

    def grow(self, request, end):
        while len(request.table) * BLOCK < end:
            if not self.free:
                return False
            block = self.free.pop(0)
            old = self.hash_of.pop(block, None)
            if self.cached.get(old) == block:
                del self.cached[old]
            self.held[block] += 1
            request.table.append(block)
        for i, one in enumerate(request.block_hashes[: end // BLOCK]):
            self.hash_of.setdefault(request.table[i], one)
            self.cached.setdefault(one, request.table[i])
        return True

    def end(self, name):
        for block in reversed(self.running.pop(name).table):
            self.held[block] -= 1
            if not self.held[block]:
                self.free.append(block)
        self.kv.forget(name)

    def preempt(self, name):
        request = self.running[name]
        tokens = [*request.tokens, *request.late]
        self.end(name)
        self.admit(name, tokens)

    def step(self, most=12):
        new, cached, tables = [], [], {}
        for name, request in list(self.running.items()):
            total = request.num_tokens + len(request.late)
            count = min(total - request.computed, self.random.randint(1, most))
            if count <= 0 or not self.grow(request, request.computed + count):
                self.end(name)
                continue
            kind = cached if hasattr(request, "ran") else new
            request.ran = True
            kind.append((name, request.computed, count))
            tables[name] = request.table
        if not tables:
            return
        self.kv.step(step(new=new, cached=cached, tables=tables), lambda name: (tables[name],))
        drafted = max(begin + count for _, begin, count in [*new, *cached]) <= LONGEST
        self.counts["skipped"] += not drafted
        self.check()
        for name, begin, count in [*new, *cached]:
            self.compute(self.running[name], begin, begin + count, drafted)

    def compute(self, request, begin, end, drafted):
        known = [*request.tokens, *request.late]
        if end == len(known):
            known.append(self.random.randrange(2))
            request.late.append(known[-1])
        if drafted:
            for at in range(begin, end):
                self.pages[request.table[at // BLOCK]][at % BLOCK] = self.own(request, known, at)
        request.computed = end
        while len(request.late) > self.lag:
            request.tokens.append(request.late.pop(0))

    def own(self, request, known, at):
        before = (
            self.pages[request.table[(at - 1) // BLOCK]][(at - 1) % BLOCK]
            if at and self.layers > 1
            else b""
        )
        return value(at, known[: at + 1 + self.lookahead][-1 - self.lookahead :], before)

    # ---- the property

    def check(self):
        """Of chunks that are computed before this step, and have keys."""
        for name, request in self.running.items():
            before = b""
            for chunk in range(
                max(min(request.computed, request.num_tokens - self.lookahead), 0) // CHUNK
            ):
                right = True
                for at in range(chunk * CHUNK, (chunk + 1) * CHUNK):
                    before = value(
                        at,
                        request.tokens[: at + 1 + self.lookahead][-1 - self.lookahead :],
                        before if self.layers > 1 else b"",
                    )
                    right &= self.pages[request.table[at // BLOCK]][at % BLOCK] == before
                said = self.kv.may_store(name, chunk)
                self.counts["wrong"] += said and not right
                self.counts["good" if said else "bad"] += 1
