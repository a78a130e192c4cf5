"""Whether a request's draft KV was computed from the request's own next tokens.

Two things put other draft KV into the pages of a request:
- vLLM computes a step without the drafter if a request of the step is longer than the drafter
  serves. The draft pages of all tokens of the step keep old bytes.
- vLLM's prefix cache goes by block hashes, which do not cover the token behind a block. A block of
  the cache may have draft KV computed with another next token.

Larder trusts draft KV if this engine saw the write. `_blocks` has the content of each block with
known draft KV. The content is block hash, next tokens and name of the items at the write that
filled the block. A missing entry means "not trusted". The write of any request takes the old entry
away before the block gets a new hash. An entry of an earlier life therefore never matches. With
more than one draft layer, attention carries the difference on, and all draft KV behind the
difference is not trusted.

Owned by the scheduler's thread. Has at most one entry for each block of vLLM's and each request
with blocks. `step` handles each step in vLLM's own order: first running requests, then admitted
requests, which may hit blocks of the running ones. A hit may have thousands of blocks: the loops
over blocks are inside slices, map() and zip()."""

import math
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import add

from larder.vllm.keys import names_before


@dataclass
class Life:
    """A request with blocks, since vLLM admitted the request."""

    request: object
    loads: tuple | None  # (local tokens, tokens of Larder's load), until the request computes
    noted: int = 0  # tokens whose blocks are decided
    # A step that ends before this token decides no block, and writes no block with an old entry.
    due: float = 0
    # By unit of tokens: 1 where the draft KV is other.
    bad: bytearray = field(default_factory=bytearray)
    bad_from: float = math.inf  # ... and the first token from which on all draft KV is other


class DraftKv:
    def __init__(self, setup, items):
        """setup: None where the engine is not served. items: Items."""
        drafts = setup.drafts if setup is not None and setup.stores else None
        self._watches = drafts is not None
        self._items = items
        self._blocks = {}  # by block number: (block hash, name of the items, *next tokens)
        self._lives: dict[str, Life] = {}
        self._admitted = {}  # by request id, since the last step: the block tables
        if drafts is None:
            return
        self._lookahead, self._longest, self._carries = (
            drafts.lookahead,
            drafts.longest,
            drafts.layers != 1,
        )
        self._shares = setup.own_cache  # else vLLM hits no block
        self._groups, self._chunk = setup.token_groups, setup.chunk_tokens
        self._hash_block = setup.chunk_tokens // setup.hashes_per_chunk
        self._unit = math.gcd(*(group.block_size for group in setup.token_groups))

    def admitted(self, request, local_tokens, external_tokens, blocks):
        """vLLM has blocks for the request after a look-up; also for a request without the cache.
        local_tokens: of vLLM's own hit. external_tokens: of Larder's load."""
        if self._watches:
            life = self._lives[request.request_id] = Life(request, (local_tokens, external_tokens))
            # A streaming session takes its last token back.
            if self._lookahead and getattr(request, "resumable", False):  # mutation: draft-session
                life.bad_from = 0
            self._admitted.pop(request.request_id, None)  # a load that failed before the next step
            self._admitted[request.request_id] = blocks.get_block_ids()

    def may_store(self, request_id, chunk):
        """Whether the chunk's draft KV is of this request. Of a request in the last step()."""
        if not self._watches:
            return True
        life = self._lives.get(request_id)
        return life is not None and self._is_good(
            life, chunk * self._chunk, (chunk + 1) * self._chunk
        )

    def first(self, request_id):
        """The first token from which on all draft KV of the request is other, or None."""
        life = self._lives.get(request_id)
        return None if life is None or life.bad_from == math.inf else life.bad_from

    def forget(self, request_id):
        """The request ended. The request's blocks stay in vLLM's prefix cache."""
        self._lives.pop(request_id, None)
        self._admitted.pop(request_id, None)

    def reset(self):
        """The model's weights may have changed."""
        self._blocks.clear()

    def step(self, output, tables_of):
        """Call for each step that computes. tables_of: gives the block tables of a request id."""
        if not self._watches:
            return
        scheduled = output.num_scheduled_tokens
        cached = output.scheduled_cached_reqs
        begins = dict(zip(cached.req_ids, cached.num_computed_tokens))
        begins.update((one.req_id, one.num_computed_tokens) for one in output.scheduled_new_reqs)
        ends = list(map(add, begins.values(), map(scheduled.__getitem__, begins)))
        drafted = max(ends, default=0) <= self._longest
        admitted, self._admitted = self._admitted, {}
        for (name, begin), end in zip(begins.items(), ends):
            life = self._lives.get(name)
            if name not in admitted and not (
                drafted and life and life.noted <= begin and end < life.due
            ):
                self._compute(life, begin, end, drafted, name, tables_of)
        for name, tables in admitted.items():
            life = self._lives[name]
            self._hit(life, tables)
            if name in begins:
                self._compute(
                    life, begins[name], begins[name] + scheduled[name], drafted, name, tables_of
                )

    def _hit(self, life, tables):
        """Checks the blocks of vLLM's own hit. The other blocks lose their entries: a load may fill
        such a block long before the request computes."""
        local, _ = life.loads
        for group in self._groups:
            table, size = tables[group.table], group.block_size
            whole, hit = local // size, -(-local // size)
            known = map(self._blocks.get, table[:whole], repeat(0))
            wanted = chain(self._contents(life.request, size, 0, whole), repeat(None))
            bad = [
                i
                for i, (block, one, other) in enumerate(zip(table[:whole], known, wanted))
                if block and one != other
            ]
            bad += [i for i in range(whole, hit) if table[i]]
            for i in bad[:1] if self._carries else bad:
                self._spoil(life, i * size, (i + 1) * size)  # mutation: draft-hit
            self._drop(table[hit:])

    def _compute(self, life, begin, end, drafted, name, tables_of):
        if life is None:  # the request's blocks are not known
            self._blocks.clear()
            return
        if life.loads is not None:
            local, external = life.loads
            life.loads, life.noted = None, min(local, begin)
            if begin > local + external:  # another connector's
                self._spoil(life, local + external, begin)
        elif begin < life.noted:
            life.noted, life.due = begin, 0
        if not drafted:  # mutation: draft-skipped
            # With asynchronous scheduling, `begin` counts drafts that may be rejected. Several
            # modules write the last positions once more.
            first = min(begin, life.request.num_tokens - 1) - max(self._lookahead - 1, 0)
            self._spoil(life, max(first, 0), end)
        if not self._shares:
            life.due = math.inf
        elif end >= life.due:
            self._note(life, end, tables_of(name))

    def _note(self, life, end, tables):
        """The request filled blocks before token `end`. A block without known next tokens has no
        entry."""
        request = life.request
        # vLLM hits no block behind this token
        hashed = len(request.block_hashes) * self._hash_block
        known = max(
            min(end - max(self._lookahead - 1, 0), request.num_tokens - self._lookahead, hashed),
            life.noted,
        )
        # else vLLM's encoder cache may have given a drafter another item
        own = self._items.are_own(request)
        touched = []
        for group in self._groups:
            table, size = tables[group.table], group.block_size
            first, last = life.noted // size, min(end // size + 1, len(table))
            blocks = table[first:last]
            filled = zip(blocks, self._contents(request, size, first, known // size) if own else ())
            if life.bad or life.bad_from < end:
                filled = [
                    one
                    for i, one in enumerate(filled, first)
                    if self._is_good(life, i * size, (i + 1) * size)
                ]
            self._drop(blocks)  # mutation: draft-old-entry
            self._blocks.update(filled)
            touched.append(last * size)
        self._blocks.pop(0, None)  # block 0 stands for blocks behind a window
        life.noted, due = known, (known // self._unit + 1) * self._unit
        if (
            request.num_tokens - self._lookahead < due
        ):  # a step that decodes tells the next tokens so much later
            due += self._lookahead
        life.due = min(due, min(touched) + 1)

    def _drop(self, blocks):
        for block in blocks:
            self._blocks.pop(block, None)

    def _contents(self, request, size, first, last):
        """The expected entries of blocks first..last-1 of the request, of `size` tokens each, up to
        the first unknown one. A prompt of embeddings has zeros for tokens."""
        places = self._items.places(request)
        unsure = self._lookahead and getattr(request, "prompt_embeds", None) is not None
        if first >= last or places is None or unsure:
            return []
        step, ends = size // self._hash_block, range((first + 1) * size, (last + 1) * size, size)
        hashes = request.block_hashes[(first + 1) * step - 1 : last * step : step]
        behind = (
            request.all_token_ids[ends.start + i : ends.stop + i : size]
            for i in range(self._lookahead)
        )
        names = (
            names_before(places, ends, self._lookahead) if places else repeat(b"")
        )  # mutation: draft-hit-item
        return list(zip(hashes, names, *behind))

    def _spoil(self, life, begin, end):
        """The draft KV of these tokens is not of the request."""
        if self._carries:
            life.bad_from = min(life.bad_from, begin)
            return
        first, last = begin // self._unit, -(-end // self._unit)
        life.bad.extend(bytes(max(last - len(life.bad), 0)))
        life.bad[first:last] = b"\1" * (last - first)

    def _is_good(self, life, begin, end):
        return (
            end <= life.bad_from
            and life.bad.find(1, begin // self._unit, -(-end // self._unit)) < 0
        )
