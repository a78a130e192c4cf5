"""The pieces of a tail: the whole blocks of a request behind its last whole chunk. A piece has one
block of each KV group, or more blocks where the groups' blocks have several sizes.

Pure functions of the engine's groups. A piece is stored as a chunk of a namespace of its own. Its
groups have the layers and pages of the groups of tokens, with fewer blocks."""

import math
from dataclasses import dataclass, replace

from larder.vllm.groups import MOST_GROUPS


@dataclass(frozen=True)
class Pieces:
    """The geometry of pieces, with the names of Setup that keys.chunk_hashes reads."""

    chunk_tokens: int  # of a piece
    hashes_per_chunk: int
    per_chunk: int  # pieces of a whole chunk
    lookahead: int = 0


def reason_against(groups, shards, drafts, rebuilds, spread):
    """Why hits of this engine end at whole chunks, or ""."""
    if any(group.state for group in groups):
        return "a hit of a model with recurrent states ends where vLLM keeps a state"
    if any(group.forgets for group in groups):
        return "vLLM frees the blocks that a window has left behind"
    if rebuilds:
        return "vLLM computes the KV of some layers anew behind a hit"
    if drafts:
        return f"the KV of drafts ({drafts.method}) is not served in tails yet"
    if shards.stages > 1 or spread:
        return "tails of pipelines and of engines on several machines are not served yet"
    if 2 * len(groups) > MOST_GROUPS:
        return f"Larder serves {MOST_GROUPS} KV groups at most, and tails need as many again"
    return ""


def pieces_of(groups, chunk_tokens, hash_block):
    """(Pieces, the groups of pieces); (None, ()) for an engine whose chunks are one piece."""
    tokens = math.lcm(hash_block, *(group.block_size for group in groups))
    if tokens == chunk_tokens:
        return None, ()
    pieces = Pieces(tokens, tokens // hash_block, chunk_tokens // tokens)
    return pieces, tuple(
        replace(
            group,
            span=tokens // group.block_size,
            blocks=tokens // group.block_size,
            tail=True,
        )
        for group in groups
    )
