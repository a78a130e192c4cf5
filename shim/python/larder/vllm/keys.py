"""The keys of a request's chunks, in the client's form: one buffer, one key every `stride` bytes.

The key of a chunk is vLLM's block hash at the chunk's end. A chunk that ends behind the begin of a
multi-modal item has the key H(block hash, name). The name covers all items that begin before the
chunk's end, by their digests and places. vLLM's own hash covers an item by an identifier, chosen by
a client or a counter.

If the KV of drafters depends on the next tokens (Setup.lookahead), the key covers these tokens as
well (larder.next_tokens). The key also covers an item that begins among the tokens. A chunk has no
key before its next tokens are known."""

from bisect import bisect_left, bisect_right
from operator import itemgetter

from larder.next_tokens import chunks_known, key_behind
from larder.vllm.item_digest import digest

_BEGIN = itemgetter(0)


def chunk_hashes(setup, request, first, last, places):
    """The keys of chunks first..last-1, as far as the request has block hashes and next tokens.

    places: of the request's items, by places_of. Empty: the request has no items. None: the items
    have no names yet, and the request has no keys."""
    if places is None:
        return b""
    step, tokens = setup.hashes_per_chunk, setup.chunk_tokens
    if setup.lookahead:
        # a token's number does not identify an embedding
        if getattr(request, "prompt_embeds", None) is not None:
            return b""
        last = min(last, chunks_known(request.num_tokens, tokens, setup.lookahead))
    hashes = request.block_hashes[(first + 1) * step - 1 : last * step : step]
    ends = range((first + 1) * tokens, (last + 1) * tokens, tokens)
    if setup.lookahead:
        hashes = _behind(setup.lookahead, request.all_token_ids, hashes, ends)
    if places:
        from blake3 import blake3

        names = names_before(places, ends, setup.lookahead)  # mutation: key-next-item
        hashes = [_mixed(blake3, block_hash, name) for block_hash, name in zip(hashes, names)]
    return b"".join(hashes)


def _behind(lookahead, tokens, hashes, ends):
    """The keys of chunks that end at `ends`, up to the first chunk in front of a number of no
    token."""
    keys = []
    columns = (tokens[ends.start + i : ends.stop + i : ends.step] for i in range(lookahead))
    try:
        for block_hash, *behind in zip(hashes, *columns):
            keys.append(key_behind(block_hash, behind))  # mutation: key-next-tokens
    except OverflowError:
        pass
    return keys


def stride_of(request):
    return len(request.block_hashes[0])


def places_of(features, digests):
    """((begin, name), ...) in the order of the items' begins. A name covers an item and all items
    before the item: the contents, and the tokens at which the embeddings go.

    features: vLLM's MultiModalFeatureSpec, one for each of `digests`."""
    name, places = b"", []
    order = sorted(zip(features, digests), key=lambda pair: pair[0].mm_position.offset)
    for feature, item in order:
        at = feature.mm_position
        name = digest((name, item, feature.modality, at.offset, at.length, at.is_embed))
        places.append((at.offset, name))
    return tuple(places)


def name_before(places, end):
    """The name of the items that begin before token `end`, or b""."""
    before = bisect_left(places, end, key=_BEGIN)
    return places[before - 1][1] if before else b""


def names_before(places, ends, lookahead=0):
    """[name_before(places, end + lookahead), ...] for `ends`, a range, in one pass."""
    names, last = [], b""
    for begin, name in places:
        names += [last] * (bisect_right(ends, begin - lookahead) - len(names))
        last = name
    return names + [last] * (len(ends) - len(names))


def _mixed(blake3, block_hash, name):
    if not name:
        return block_hash
    return blake3(b"chunk" + block_hash + name).digest(length=len(block_hash))
