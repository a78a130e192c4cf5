"""The keys of a request's chunks, in the form that the client takes: one buffer, one key every
`stride` bytes.

The key of a chunk is vLLM's block hash at the chunk's end. A chunk that ends behind the begin of a
multi-modal item has the key H(block hash, name). The name covers all items that begin before the
chunk's end, by their digests and places. vLLM's own hash covers an item by an identifier, which a
client may choose or a counter gives."""

from bisect import bisect_left
from operator import itemgetter

from larder.vllm.item_digest import digest

_BEGIN = itemgetter(0)


def chunk_hashes(setup, request, first, last, places):
    """The keys of chunks first..last-1, as far as the request has block hashes.

    places: of the request's items, by places_of. Empty: the request has no items. None: the items
    have no names yet, and the request has no keys."""
    if places is None:
        return b""
    step, tokens = setup.hashes_per_chunk, setup.chunk_tokens
    hashes = request.block_hashes[(first + 1) * step - 1 : last * step : step]
    if places:
        from blake3 import blake3

        ends = range((first + 1) * tokens, (last + 1) * tokens, tokens)
        named = zip(hashes, (name_before(places, end) for end in ends))
        hashes = [_mixed(blake3, block_hash, name) for block_hash, name in named]
    return b"".join(hashes)


def stride_of(request):
    return len(request.block_hashes[0])


def places_of(features, digests):
    """((begin, name), ...) in the order of the items' begins. A name covers an item and all items
    before it: their contents, and the tokens at which their embeddings go.

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


def _mixed(blake3, block_hash, name):
    if not name:
        return block_hash
    return blake3(b"chunk" + block_hash + name).digest(length=len(block_hash))
