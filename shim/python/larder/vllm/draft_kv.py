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
requests, which may hit blocks of the running ones."""

import math
from dataclasses import dataclass, field

from larder.vllm.keys import name_before


@dataclass
class Life:
    """A request with blocks, since vLLM admitted the request."""

    request: object
    loads: tuple | None  # (local tokens, tokens of Larder's load), until the request computes
    noted: int = 0  # tokens whose blocks are decided
    touched: int = 0  # tokens whose blocks have lost their old entries
    due: int = 0  # a step with fewer tokens decides no block
    bad: set = field(default_factory=set)  # units of tokens with other draft KV
    bad_from: float = math.inf  # ... and the first token from which on all draft KV is other


class DraftKv:
    def __init__(self, setup, items):
        """setup: None where the engine is not served. items: Items."""
        drafts = setup.drafts if setup is not None and setup.stores else None
        self._watches = drafts is not None
        self._items = items
        self._blocks = {}  # by block number: (block hash, next tokens, name of the items)
        self._lives: dict[str, Life] = {}
        self._admitted = {}  # by request id, since the last step: the block tables
        if drafts is None:
            return
        self._lookahead, self._longest, self._carries = drafts.lookahead, drafts.longest, drafts.layers != 1
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
        return life is not None and self._is_good(life, chunk * self._chunk, (chunk + 1) * self._chunk)

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
        drafted = max((begin + scheduled[name] for name, begin in begins.items()), default=0) <= self._longest
        admitted, self._admitted = self._admitted, {}
        for name, begin in begins.items():
            if name not in admitted:
                self._compute(name, begin, scheduled[name], drafted, tables_of)
        for name, tables in admitted.items():
            self._hit(self._lives[name], tables)
            if name in begins:
                self._compute(name, begins[name], scheduled[name], drafted, tables_of)

    def _hit(self, life, tables):
        """Checks the blocks of vLLM's own hit. The other blocks lose their entries: a load may fill
        such a block long before the request computes."""
        local, _ = life.loads
        for group in self._groups:
            table, size = tables[group.table], group.block_size
            for i in range(-(-local // size)):
                begin, end = i * size, (i + 1) * size
                if begin >= life.bad_from:
                    break
                if table[i] and (end > local or self._blocks.get(table[i], 0) != self._content(life.request, end)):
                    self._spoil(life, begin, end)  # mutation: draft-hit
            for block in table[-(-local // size) :]:
                self._blocks.pop(block, None)

    def _compute(self, name, begin, count, drafted, tables_of):
        life, end = self._lives.get(name), begin + count
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
        if self._shares and (end >= life.due or end > life.touched):
            self._note(life, end, tables_of(name))

    def _note(self, life, end, tables):
        """The request filled blocks before token `end`. A block without known next tokens has no
        entry."""
        request = life.request
        # vLLM hits no block behind this token
        hashed = len(request.block_hashes) * self._hash_block
        known = max(min(end - max(self._lookahead - 1, 0), request.num_tokens - self._lookahead, hashed), life.noted)
        # else vLLM's encoder cache may have given a drafter another item
        own = self._items.are_own(request)
        touched = []
        for group in self._groups:
            table, size = tables[group.table], group.block_size
            last = min(end // size + 1, len(table))
            for i in range(life.noted // size, last):
                block, block_end = table[i], (i + 1) * size
                good = own and block_end <= known and self._is_good(life, block_end - size, block_end)
                content = self._content(request, block_end) if good else None
                if content is not None and block:  # block 0 stands for blocks behind a window
                    self._blocks[block] = content
                else:
                    self._blocks.pop(block, None)  # mutation: draft-old-entry
            touched.append(last * size)
        life.noted, life.touched = known, min(touched)
        life.due = (known // self._unit + 1) * self._unit

    def _content(self, request, end):
        """The expected entry of a block that ends at token `end` of the request; None: not known. A
        prompt of embeddings has zeros for tokens."""
        places = self._items.places(request)
        tokens = tuple(request.all_token_ids[end : end + self._lookahead])
        unsure = self._lookahead and getattr(request, "prompt_embeds", None) is not None
        if places is None or unsure or len(tokens) < self._lookahead:
            return None
        name = name_before(places, end + self._lookahead)  # mutation: draft-hit-item
        return request.block_hashes[end // self._hash_block - 1], tokens, name

    def _spoil(self, life, begin, end):
        """The draft KV of these tokens is not of the request."""
        if self._carries:
            life.bad_from = min(life.bad_from, begin)
        else:
            life.bad.update(range(begin // self._unit, -(-end // self._unit)))

    def _is_good(self, life, begin, end):
        return end <= life.bad_from and life.bad.isdisjoint(range(begin // self._unit, -(-end // self._unit)))
