"""Pictures of vLLM's own classes, and requests with them. The block hashes of fakes.Request cover
the tokens alone: so different pictures have equal hashes, as by a client's uuid or a counter."""

import time

from fakes import LATER, Request, blocks, split, step
from vllm.multimodal.inputs import (
    MultiModalBatchedField,
    MultiModalFeatureSpec,
    MultiModalFieldElem,
    MultiModalKwargsItem,
    PlaceholderRange,
)

SECONDS = 30  # for a digest, on a machine that may be busy


def item(value=1.0, key="pixel_values"):
    import torch

    data = value if not isinstance(value, float) else torch.full((3, 4), value)
    return MultiModalKwargsItem(
        {key: MultiModalFieldElem(data=data, field=MultiModalBatchedField())}
    )


def feature(
    data, offset=0, length=16, identifier="named by the client", is_embed=None, modality="image"
):
    return MultiModalFeatureSpec(
        data, modality, identifier, PlaceholderRange(offset, length, is_embed)
    )


def with_pictures(request_id, *features, tokens=300, **fields):
    return Request(request_id, range(tokens), mm_features=list(features), **fields)


def digested(half, request, local_tokens=0):
    """vLLM's first answer other than to ask again."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        answer = half.get_num_new_matched_tokens(request, local_tokens)
        if answer != LATER:
            return answer
        half.build_connector_meta(step())
    raise TimeoutError("no digest")


def computed(half, request, table, local=0, encodes=True, freed=(), begin=None, external=0):
    """The keys of the chunks that are stored when one step computes a request's prompt.

    local: tokens in vLLM's prefix cache. encodes: the encoder runs on all pictures (True), on
    pictures of these numbers, or on no picture, since vLLM's encoder cache has the embeddings
    (False)."""
    digested(half, request, local)
    half.update_state_after_alloc(request, blocks(table), external)
    return step_of(
        half, request, table, local if begin is None else begin, encodes=encodes, freed=freed
    )


def step_of(half, request, table, begin, end=None, encodes=False, freed=(), kind="new"):
    """The keys of the chunks that a step stores. The step computes a request's tokens from `begin`
    on."""
    name, inputs = (
        request.request_id,
        list(range(len(request.mm_features))) if encodes is True else encodes or [],
    )
    made = step(
        **{kind: [(name, begin, (end or request.num_tokens) - begin)]}, tables={name: list(table)}
    )
    made.scheduled_encoder_inputs = {name: inputs} if inputs else {}
    made.free_encoder_mm_hashes = list(freed)
    stores = half.build_connector_meta(made).stores
    keys = [key for move in stores for key in split(move.parts[0].hashes, 32)]
    half.client.stored.update(keys)
    return keys
