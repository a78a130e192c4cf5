"""Whether the KV of a request was computed from the items that name it.

vLLM's own caches go by an item's identifier, which may have stood for another item: its encoder cache, and its prefix cache by the block
hash. KV that comes out of them is believed only where this engine saw it go in:
- of each name in the encoder cache the digest of the item from which it was computed;
- of each block of KV memory the block hash and the items' name of what was last written there. A block that is hit was written under its
  hash by a request with items, and each of those is noted here. So an entry of an earlier life of the block can never match: the later
  write has replaced it. The table has an entry for each block at most.
What is not noted is not believed: to forget costs a store, never a wrong one. A request that used anything else stores nothing.

Owned by the scheduler's thread. Sees each step that computes, in the order in which vLLM schedules it: running requests, then those that
were given blocks, which may hit what the former write in the same step."""

from dataclasses import dataclass, field

from larder.vllm.item_digest import UNKNOWN
from larder.vllm.keys import name_before

MOST_ENCODED = 65536  # names; more are not believed. vLLM's encoder cache has at most one for each of its embeddings.


@dataclass
class Past:
    """Of one request, since vLLM gave it blocks."""

    vouched: int = 0  # tokens whose KV is its own, was loaded from larderd, or lay in vLLM's prefix cache
    noted: int = 0  # tokens whose blocks are noted
    clean: bool = True
    unsettled: list = field(default_factory=list)  # (digest of the item that was used, digest of the request's own)

    def is_clean(self):
        """None: not known yet."""
        if self.clean and self.unsettled:
            self.clean = all(same(used, own) is not False for used, own in self.unsettled)
            self.unsettled = [pair for pair in self.unsettled if same(*pair) is None]
        return None if self.clean and self.unsettled else self.clean


def same(one, other):
    """Whether two Futures have one digest; None: not known yet."""
    if not (one.done() and other.done()):
        return None
    return one.exception() is None and other.exception() is None and one.result() == other.result()


class Provenance:
    """Of a request here, an items.Live."""

    def __init__(self, setup):
        self._groups = setup.groups
        self._hash_block = setup.chunk_tokens // setup.hashes_per_chunk
        self._smallest = min(group.block_size for group in setup.groups)
        self._encoded = {}  # by identifier: the digest of what vLLM's encoder cache has
        self._blocks = {}  # by block number: (block hash, name of the items)
        self._admitted = {}  # by request, in vLLM's order: (live, local tokens, tokens to load, block tables)

    def admitted(self, live, local_tokens, external_tokens, tables):
        """vLLM has blocks for the request, which starts at its first token that was neither hit nor is loaded."""
        self._admitted.pop(live.request.request_id, None)  # of a load that failed before the next step
        self._admitted[live.request.request_id] = live, local_tokens, external_tokens, tables

    def step(self, scheduler_output, tables_of, lives):
        """lives: all requests with items, by id."""
        self._encode(scheduler_output, lives)
        admitted, self._admitted = self._admitted, {}
        scheduled = scheduler_output.num_scheduled_tokens
        starts = _starts(scheduler_output) if lives else {}
        for request_id, live in lives.items():
            if request_id in starts and request_id not in admitted:
                self._compute(live, starts[request_id], scheduled[request_id], tables_of(request_id))
        for request_id, (live, local, external, tables) in admitted.items():
            self._begin(live, local, external, tables)
            if request_id in starts and request_id in lives:
                self._compute(live, starts[request_id], scheduled[request_id], tables_of(request_id))

    def _encode(self, scheduler_output, lives):
        """What the encoder cache gives up, and what it is given: by the digest of the item that the encoder sees."""
        for identifier in getattr(scheduler_output, "free_encoder_mm_hashes", None) or ():
            self._encoded.pop(identifier, None)
        for request_id, inputs in (getattr(scheduler_output, "scheduled_encoder_inputs", None) or {}).items():
            live = lives[request_id]
            for i in inputs:
                identifier, own = live.request.mm_features[i].identifier, live.digests[i] or UNKNOWN
                known = self._encoded.get(identifier)
                if known is None and len(self._encoded) < MOST_ENCODED:
                    self._encoded[identifier] = own
                elif known is not None and known is not own and not same(known, own):
                    # Evicted and encoded again in one step: a worker may keep what it has (EncoderRunner.prepare_mm_inputs).
                    self._encoded[identifier] = UNKNOWN

    def _begin(self, live, local, external, tables):
        past = live.past = Past(vouched=local + external, noted=local)
        past.clean = self._believes(live, local, tables)
        if external:
            self._note(live, local + external, tables)

    def _believes(self, live, local, tables):
        """Whether the blocks that vLLM's prefix cache gave hold KV of the request's own items."""
        first = min((feature.mm_position.offset for feature in live.request.mm_features), default=0)
        if local <= first:
            return True
        if not live.places:
            return False
        for group in self._groups:
            if local % group.block_size:
                return False
            for i in range(first // group.block_size, local // group.block_size):
                block, end = tables[group.table][i], (i + 1) * group.block_size
                written = self._hash_at(live.request, end), name_before(live.places, end)
                if block and self._blocks.get(block) != written:
                    return False
        return True

    def _compute(self, live, begin, count, tables):
        past, end = live.past, begin + count
        if begin > past.vouched:  # another connector's KV
            past.clean = False
        past.vouched = max(past.vouched, end)
        past.noted = min(past.noted, begin)
        if begin < live.end:
            self._use(live, begin, end)
        if end >= (past.noted // self._smallest + 1) * self._smallest:
            self._note(live, end, tables)

    def _use(self, live, begin, end):
        """The step puts embeddings of the encoder cache where the items' tokens are."""
        past = live.past
        for feature, own in zip(live.request.mm_features, live.digests):
            at = feature.mm_position
            first, last = max(begin - at.offset, 0), min(end - at.offset, at.length)
            if first >= last or not (at.is_embed is None or bool(at.is_embed[first:last].any())):
                continue
            used = self._encoded.get(feature.identifier, UNKNOWN)
            if used is not own:
                past.unsettled.append((used, own or UNKNOWN))

    def _note(self, live, end, tables):
        """Blocks that the request has filled before token `end` hold KV of its items, or of what is not known."""
        past, request = live.past, live.request
        hashed = len(request.block_hashes) * self._hash_block  # behind it vLLM does not hit either
        places = live.places if past.is_clean() else None
        for group in self._groups:
            table = tables[group.table]
            for i in range(past.noted // group.block_size, min(end // group.block_size, len(table))):
                block, block_end = table[i], (i + 1) * group.block_size
                name = name_before(places, block_end) if places and block_end <= hashed else b""
                if name and block:  # 0: behind a sliding window
                    self._blocks[block] = self._hash_at(request, block_end), name
                else:
                    self._blocks.pop(block, None)
        past.noted = min(end, hashed)

    def _hash_at(self, request, end):
        return request.block_hashes[end // self._hash_block - 1]


def _starts(scheduler_output):
    """The first token that the step computes of each request in it."""
    starts = {one.req_id: one.num_computed_tokens for one in scheduler_output.scheduled_new_reqs}
    cached = scheduler_output.scheduled_cached_reqs
    starts.update(zip(cached.req_ids, cached.num_computed_tokens))
    return starts
