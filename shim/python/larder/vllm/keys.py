"""The keys of a request's chunks, as the client takes them: one buffer in which one begins every stride bytes.

The key of a chunk is vLLM's block hash at the chunk's end. A chunk that ends behind the begin of a multi-modal item has H(block hash, name)
instead. The name covers all items that begin before the chunk's end, by their digests and places: vLLM's own hash covers an item by an
identifier that a client may choose, or that a counter gives."""

from bisect import bisect_left
from operator import itemgetter

from larder.vllm.item_digest import digest

_BEGIN = itemgetter(0)


def chunk_hashes(setup, request, first, last, places):
    """Those at the ends of chunks first..last-1, as far as the request has them. places: of its items (places_of); (): it has none;
    None: they have no names yet, and the request has no keys."""
    if places is None:
        return b""
    step, tokens = setup.hashes_per_chunk, setup.chunk_tokens
    hashes = request.block_hashes[(first + 1) * step - 1 : last * step : step]
    if places:
        from blake3 import blake3

        hashes = [_mixed(blake3, one, name_before(places, (first + i + 1) * tokens)) for i, one in enumerate(hashes)]
    return b"".join(hashes)


def stride_of(request):
    return len(request.block_hashes[0])


def places_of(features, digests):
    """((begin, name), ...) in the order of their begin. A name covers its item and all before it: what each is, and where its
    embeddings go. features: MultiModalFeatureSpec of vLLM."""
    name, places = b"", []
    for feature, item in sorted(zip(features, digests), key=lambda pair: pair[0].mm_position.offset):
        at = feature.mm_position
        name = digest((name, item, feature.modality, at.offset, at.length, at.is_embed))
        places.append((at.offset, name))
    return tuple(places)


def name_before(places, end):
    """The name of the items that begin before token `end`; b"": none does."""
    before = bisect_left(places, end, key=_BEGIN)
    return places[before - 1][1] if before else b""


def _mixed(blake3, block_hash, name):
    return blake3(b"chunk" + block_hash + name).digest(length=len(block_hash)) if name else block_hash
