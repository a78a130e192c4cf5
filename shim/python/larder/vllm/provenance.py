"""Whether a request's KV was computed from the items in the KV's name.

vLLM's own caches go by an item's identifier, which may have stood for another item. This holds for
the encoder cache directly, the prefix cache by the block hash. Larder trusts KV from these caches
only if this engine saw the write:
- For each identifier in the encoder cache, the table `_encoded` has the modality and the digest of
  the encoded item. If adapters change the encoder, the modality goes with the adapter's files: the
  identifier has the adapter's name alone.
- For each block of KV memory, the table `_blocks` has the block hash and the items' name of the
  last write. Only a request with items can write a block under such a hash, and each request with
  items is noted here. So a block's entry of an earlier life never matches: the write with the new
  hash replaced the entry. The table has at most one entry for each block of vLLM's.

A missing entry means "not trusted". Forgetting an entry therefore costs a store and never stores
wrong KV. A request with other KV does not store.

Owned by the scheduler's thread. `step` sees each computing step, and handles the step in vLLM's own
order. The order is first running requests, then admitted requests, which may hit blocks of the
former."""

from dataclasses import dataclass, field

from larder.vllm.item_digest import UNKNOWN
from larder.vllm.keys import name_before

# Identifiers. vLLM's encoder cache has at most one for each of its embeddings, tens of thousands.
MOST_ENCODED = 65536


@dataclass
class Past:
    """Of one request, since vLLM admitted the request."""

    # Tokens with KV that the request computed, loaded from larderd or hit in the prefix cache.
    vouched: int = 0
    noted: int = 0  # tokens whose blocks are in Provenance._blocks
    clean: bool = True
    # (digest of an item that the request used, digest of its own item): Futures.
    unsettled: list = field(default_factory=list)

    def is_clean(self):
        """None: a digest is not there yet."""
        if self.clean and self.unsettled:
            # Each pair is compared once: a digest may come between two comparisons.
            found = [(pair, same(*pair)) for pair in self.unsettled]
            self.clean = all(equal is not False for _, equal in found)
            self.unsettled = [pair for pair, equal in found if equal is None]
        return None if self.clean and self.unsettled else self.clean


def same(one, other):
    """Whether two Futures have equal digests; None: not known yet."""
    if not (one.done() and other.done()):
        return None
    if one.exception() is not None or other.exception() is not None:
        return False
    return one.result() == other.result()


class Provenance:
    """`live` is an items.Live throughout."""

    def __init__(self, setup, encoder_adapter=None):
        """encoder_adapter: gives (number, files) of a request's adapter, or None, in an engine
        whose adapters change the encoder."""
        self._adapter_of = encoder_adapter
        self._groups = setup.groups
        self._hash_block = setup.chunk_tokens // setup.hashes_per_chunk
        self._lookahead = setup.lookahead  # a drafter's KV is of the next tokens, too
        self._whole = setup.items_whole
        self._smallest = min(group.block_size for group in setup.groups)
        self._encoded = {}  # by identifier: (kind as of _kind_of(), digest of the item)
        self._blocks = {}  # by block number: (block hash, name of the items)
        self._admitted = {}  # by request id: (live, local tokens, tokens to load, block tables)

    def admitted(self, live, local_tokens, external_tokens, tables):
        """vLLM has blocks for the request, and may have hit or may load the first tokens."""
        name = live.request.request_id
        self._admitted.pop(name, None)  # a load that failed before the next step
        self._admitted[name] = live, local_tokens, external_tokens, tables

    def reset(self):
        """The model's weights may have changed. The encoder cache still has their embeddings."""
        self._encoded = dict.fromkeys(self._encoded, (None, UNKNOWN))
        self._blocks.clear()

    def adapters_differ(self):
        """A worker had loaded other files of an adapter than those of its name, perhaps before the
        encoder ran."""
        if self._adapter_of is not None:  # mutation: encoder-differs
            self._encoded = dict.fromkeys(self._encoded, (None, UNKNOWN))

    def step(self, scheduler_output, tables_of, lives):
        """lives: all requests with items, by id."""
        self._encode(scheduler_output, lives)
        admitted, self._admitted = self._admitted, {}
        scheduled = scheduler_output.num_scheduled_tokens
        starts = _starts(scheduler_output) if lives else {}
        for name, live in lives.items():
            if name in starts and name not in admitted:
                self._compute(live, starts[name], scheduled[name], tables_of(name))
        for name, (live, local, external, tables) in admitted.items():
            self._begin(live, local, external, tables)
            if name in starts and name in lives:
                self._compute(live, starts[name], scheduled[name], tables_of(name))

    def _encode(self, scheduler_output, lives):
        """Follows the encoder cache: evicted identifiers, and items that the encoder runs on."""
        for identifier in getattr(scheduler_output, "free_encoder_mm_hashes", None) or ():
            self._encoded.pop(identifier, None)
        inputs_of = getattr(scheduler_output, "scheduled_encoder_inputs", None) or {}
        for name, inputs in inputs_of.items():
            live = lives[name]
            for i in inputs:
                feature, own = live.request.mm_features[i], live.digests[i] or UNKNOWN
                known, kind = self._encoded.get(feature.identifier), self._kind_of(live, feature)
                if known is None and len(self._encoded) < MOST_ENCODED:
                    self._encoded[feature.identifier] = kind, own
                elif known is not None and not _equal(known, (kind, own)):
                    # Evicted and encoded again in one step. vLLM does not tell of the eviction, and
                    # a worker may keep the old embeddings (EncoderRunner.prepare_mm_inputs).
                    self._encoded[feature.identifier] = None, UNKNOWN

    def _kind_of(self, live, feature):
        """None: the adapter's files are not known."""
        adapter = self._adapter_of(live.request) if self._adapter_of is not None else None
        if adapter is None:
            return feature.modality
        return (feature.modality, adapter[1]) if adapter[1] else None  # mutation: encoder-adapter

    def _begin(self, live, local, external, tables):
        past = live.past = Past(vouched=local + external, noted=local)
        past.clean = self._trusts(live, local, tables)
        if external:
            self._note(live, local + external, tables)

    def _trusts(self, live, local, tables):
        """Whether the blocks that vLLM's prefix cache gave have KV of the request's own items."""
        begins = (feature.mm_position.offset for feature in live.request.mm_features)
        first = min(begins, default=0)
        if local <= first:
            return True
        if not live.places:
            return False
        for group in self._groups:
            size = group.block_size
            if local % size:
                return False
            for i in range(first // size, local // size):
                block, end = tables[group.table][i], (i + 1) * size
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
            self._use(live, begin, end + self._lookahead)  # mutation: draft-items
            if self._whole and self._divides(live, end):  # mutation: item-divided
                past.clean = False
        if end >= (past.noted // self._smallest + 1) * self._smallest:
            self._note(live, end, tables)

    def _use(self, live, begin, end):
        """The step puts embeddings of the encoder cache at the tokens of the items."""
        past = live.past
        for feature, own in zip(live.request.mm_features, live.digests):
            at = feature.mm_position
            first, last = max(begin - at.offset, 0), min(end - at.offset, at.length)
            if first >= last or not (at.is_embed is None or bool(at.is_embed[first:last].any())):
                continue
            kind, used = self._encoded.get(feature.identifier, (None, UNKNOWN))
            if kind is None or kind != self._kind_of(live, feature):
                past.clean = False
            elif used is not own:
                past.unsettled.append((used, own or UNKNOWN))

    def _divides(self, live, end):
        """Whether a step that ends at this token leaves out tokens to which its tokens attend."""
        return any(divides(one, end, self._whole) for one in live.request.mm_features)

    def _note(self, live, end, tables):
        """The request filled blocks before token `end`. If the request's KV is not trusted, or a
        block's hash is not known yet, the block loses its entry."""
        past, request = live.past, live.request
        hashed = (
            len(request.block_hashes) * self._hash_block
        )  # vLLM hits no block behind this token
        places = live.places if past.is_clean() else None
        for group in self._groups:
            table, size = tables[group.table], group.block_size
            for i in range(past.noted // size, min(end // size, len(table))):
                block, block_end = table[i], (i + 1) * size
                known = places and block_end <= hashed
                name = name_before(places, block_end) if known else b""
                if name and block:  # block 0 stands for blocks behind a sliding window
                    self._blocks[block] = self._hash_at(request, block_end), name
                else:
                    self._blocks.pop(block, None)
        past.noted = min(end, hashed)

    def _hash_at(self, request, end):
        return request.block_hashes[end // self._hash_block - 1]


def is_inside(feature, end):
    """Whether token `end` is one of the item's tokens, and not the first. False for sound, whose
    tokens attend to earlier ones alone."""
    return feature.modality != "audio" and 0 < end - feature.mm_position.offset < (
        feature.mm_position.length
    )


def divides(feature, end, whole):
    """Whether tokens on both sides of `end` attend to each other: tokens of one item, or of one
    frame. whole: Setup.items_whole."""
    if not is_inside(feature, end):
        return False
    at, mask = end - feature.mm_position.offset, feature.mm_position.is_embed
    return mask is None or whole == "item" or bool(mask[at - 1] and mask[at])


def _equal(one, other):
    """Whether two (kind, Future) are equal for certain."""
    return one[0] == other[0] and (one[1] is other[1] or same(one[1], other[1]) is True)


def _starts(scheduler_output):
    """The first token that the step computes, of each request in the step."""
    starts = {one.req_id: one.num_computed_tokens for one in scheduler_output.scheduled_new_reqs}
    cached = scheduler_output.scheduled_cached_reqs
    starts.update(zip(cached.req_ids, cached.num_computed_tokens))
    return starts
