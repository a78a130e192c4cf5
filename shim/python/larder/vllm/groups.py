"""KV groups: the blocks of each of vLLM's block tables that make a part of a chunk, and the shard
of a rank.

Pure functions of vLLM's KV cache configuration. A chunk of `chunk_tokens` tokens has one part for
each group and shard. Of a sliding window only the last blocks of a chunk are kept, as many as a hit
at the chunk's end can need. vLLM has freed the earlier blocks (null blocks) when a chunk fills.

With chunked local attention (Llama 4) a token attends to the tokens of its own span of
attention_chunk_size tokens. vLLM frees the blocks of earlier spans. All blocks are kept: a chunk of
Larder lies in one span, whose blocks live until the next span begins.

A recurrent state (Mamba and the like) stands for all tokens before the state. The chunk of a state
group is the state behind the last token of a chunk, in one block.

A block table with unlike layers (layer_specs) is several groups, one for each specification. A
table whose KV vLLM rebuilds behind a hit (DeepSeek V4.1) is no group."""

import math
import re
from dataclasses import dataclass

from larder.vllm.layer_specs import fits, inner_specs, layer_specs, page_of, unlike_tensors

DEFAULT_CHUNK_TOKENS = 256
# As in shim/protocol/limits.h: kMaxGroups, kMaxShards, kMaxPieceBytes, kMaxPayloadBytes.
MOST_GROUPS, MOST_SHARDS, MOST_PAGE_BYTES, MOST_PART_BYTES = 16, 256, 64 << 20, 1 << 30
_WINDOWS = ("SlidingWindowSpec", "SlidingWindowMLASpec")
_KINDS = (
    "FullAttentionSpec",
    "MLAAttentionSpec",
    *_WINDOWS,
    "ChunkedLocalAttentionSpec",
    "MambaSpec",
)
# Kinds that vLLM may keep out of its own prefix cache too. vLLM computes the KV of these kinds anew
# behind a hit, from the other groups' KV.
_REBUILT = ("CircularBufferSpec", "SlidingWindowMLASpec")


_UNLIKE_STAGES = (
    "layers of one KV group with pages of several sizes are not served with a pipeline yet"
)


class Unsupported(Exception):
    """The engine runs without the cache. The text has the reason, and the remedy if there is
    one."""


@dataclass(frozen=True)
class Group:
    table: int  # the number of vLLM's block table
    spec: object
    layers: tuple  # of this process's pipeline stage, perhaps none
    page_bytes: int
    block_size: int
    span: int  # blocks that a chunk spans
    blocks: int  # the kept ones, the last of the span
    window: int | None = None  # tokens of a sliding window
    local: int | None = None  # tokens of a span of chunked local attention
    state: bool = False  # a recurrent state
    # For a table with several groups (layer_specs): the specification of the table's first layer.
    # All processes know the first layer, and only workers know the group's own layers.
    first: object = None
    tail: bool = False  # of a tail's pieces, which are shorter than a chunk (tail_pieces)

    @property
    def forgets(self):
        """Whether vLLM frees blocks of a running request, which no later token needs."""
        return self.window is not None or self.local is not None or self.state

    @property
    def of_chunks(self):
        """Whether the group has a part of each whole chunk of tokens."""
        return not self.state and not self.tail

    @property
    def unlike(self):
        """Whether the layers of the table are unlike, and this group has a part of the table."""
        return self.first is not None

    def pages(self, table, chunk):
        """The kept blocks of a chunk."""
        end = (chunk + 1) * self.span
        return table[end - self.blocks : end]

    def needs_more(self, tokens):
        """Whether the last token of a full hit of so many tokens attends to more blocks than vLLM
        allocates for the token behind it. vLLM recomputes this last token."""
        if self.local is not None:
            return tokens % self.local == 0
        return self.window is not None and (self.window - 1) % self.block_size == 0


@dataclass(frozen=True)
class Shards:
    """Pipeline stages times different tensor-parallel ranks. Ranks with equal bytes (MLA,
    replicated heads) are one shard."""

    stages: int = 1
    ranks: int = 1  # tensor-parallel ranks
    replicas: int = 1  # consecutive ranks with equal bytes

    @property
    def count(self):
        return self.stages * (self.ranks // self.replicas)

    @property
    def workers(self):
        return self.stages * self.ranks

    def of(self, stage, rank):
        """(shard, number among its replicas). Replicas take turns to store chunks
        (Part.of_writer)."""
        return stage * (self.ranks // self.replicas) + rank // self.replicas, rank % self.replicas


def groups_of(kv_cache_config, chunk_tokens):
    """The groups in Larder's order, full attention first and states last, and the chunk size.
    chunk_tokens 0: the default."""
    found = kv_cache_config.kv_cache_groups
    if not found:
        raise Unsupported(
            "this model keeps no KV cache, as encoders and many embedding models: "
            "Larder has nothing to store for it"
        )
    for group in found:
        _check_group(group)
    kept = [(table, group) for table, group in enumerate(found) if not is_rebuilt(group)]
    if not kept:
        raise Unsupported(
            "vLLM computes all KV of this model anew behind a hit: no prefix can be reused"
        )
    specs = [inner_specs(group.kv_cache_spec)[0] for _, group in kept]
    if all(_is_state(spec) for spec in specs):
        raise Unsupported(
            "a model whose layers all keep a recurrent state is not served yet, "
            "only those with attention layers besides"
        )
    least = math.lcm(*(spec.block_size for spec in specs))
    if chunk_tokens % least:
        raise Unsupported(f"chunk_tokens {chunk_tokens} is no multiple of the block size {least}")
    span = math.gcd(*(_local_of(spec) or 0 for spec in specs))
    chunk = chunk_tokens or _default_chunk(least, span)
    if span % chunk:
        raise Unsupported(
            f"a chunk of {chunk} tokens does not divide the {span} tokens of a span of chunked "
            "local attention: set chunk_tokens in "
            f"kv_connector_extra_config, or --block-size, to a divisor of {span}"
        )
    groups = [one for table, group in kept for one in _groups(kv_cache_config, table, group, chunk)]
    return tuple(sorted(groups, key=lambda group: (group.state, group.forgets, group.table))), chunk


def _default_chunk(least, span):
    """span: 0, or the tokens that a chunk should divide."""
    chunk = least if least >= 128 else math.ceil(DEFAULT_CHUNK_TOKENS / least) * least
    return next((size for size in range(chunk, 0, -least) if span % size == 0), chunk)


def check_sizes(groups, shards):
    """Unsupported: larderd would refuse the engine."""
    if len(groups) > MOST_GROUPS:
        raise Unsupported(
            f"the model has {len(groups)} KV groups, and Larder serves {MOST_GROUPS} at most"
        )
    if shards.stages > 1 and any(group.unlike for group in groups):
        raise Unsupported(_UNLIKE_STAGES)
    if not any(group.layers for group in groups):
        raise Unsupported("a pipeline stage without a layer that keeps KV is not served yet")
    if shards.count > MOST_SHARDS:
        raise Unsupported(
            f"{shards.count} ranks hold parts of the KV (pipeline times tensor parallel), and "
            f"Larder serves {MOST_SHARDS} at most"
        )
    for group in groups:
        if group.state and (
            group.page_bytes > MOST_PAGE_BYTES
            or group.page_bytes * len(group.layers) > MOST_PART_BYTES
        ):
            raise Unsupported(
                f"a recurrent state has {_mib(group.page_bytes)} MiB in each of "
                f"{len(group.layers)} layers, and Larder serves "
                f"{_mib(MOST_PAGE_BYTES)} MiB in a layer and {_mib(MOST_PART_BYTES)} MiB on one "
                "rank at most: set a larger --tensor-parallel-size"
            )
        if group.page_bytes > MOST_PAGE_BYTES:
            raise Unsupported(
                f"a block of one layer has {_mib(group.page_bytes)} MiB, and Larder serves "
                f"{_mib(MOST_PAGE_BYTES)} MiB at most: set a smaller --block-size"
            )
        _check_part(group, math.lcm(*(one.block_size for one in groups)))


def _check_part(group, least):
    """Checks the part of a chunk of one group and shard. least: chunk sizes are multiples of
    this."""
    tokens, block = group.span * group.block_size, group.page_bytes * len(group.layers)
    if block * group.blocks <= MOST_PART_BYTES:
        return
    most = MOST_PART_BYTES // block * group.block_size // least * least
    remedy = (
        f"set chunk_tokens in kv_connector_extra_config to {most} or less"
        if most
        else "set a smaller --block-size"
    )
    raise Unsupported(
        f"a chunk of {tokens} tokens has {_mib(block * group.blocks)} MiB on one rank, and Larder "
        f"serves {_mib(MOST_PART_BYTES)} MiB at most: {remedy}"
    )


def _mib(size):
    return -(-size >> 20)


def is_rebuilt(group):
    """Whether vLLM computes the KV of this group anew behind a hit. Larder stores no such KV."""
    specs = inner_specs(group.kv_cache_spec)
    return all(
        type(spec).__name__ in _REBUILT and not getattr(spec, "prefix_cacheable", True)
        for spec in specs
    )


def _check_group(group):
    for spec in () if is_rebuilt(group) else inner_specs(group.kv_cache_spec):
        _check_spec(spec)
    if not group.layer_names and len(inner_specs(group.kv_cache_spec)) > 1:
        raise Unsupported(_UNLIKE_STAGES)
    if getattr(group, "host_resident", False) or not getattr(group, "enable_kv_transfer", True):
        raise Unsupported("a KV group that vLLM keeps to itself is not served yet")


def _check_spec(spec):
    kind = type(spec).__name__
    if kind not in _KINDS:
        raise Unsupported(f"KV of the kind {kind} is not served yet, only {', '.join(_KINDS)}")
    if kind == "MambaSpec":
        _check_states(spec)
    if getattr(spec, "non_causal", False):
        raise Unsupported(
            "layers attend in both directions (non_causal): "
            "the KV of a prefix depends on the tokens behind it"
        )


def _groups(kv_cache_config, table, group, chunk_tokens):
    """The groups of one block table."""
    spec = inner_specs(group.kv_cache_spec)[0]
    span = chunk_tokens // spec.block_size
    window = spec.sliding_window if type(spec).__name__ in _WINDOWS else None
    blocks = (
        span if window is None else max(1, min(span, math.ceil((window - 1) / spec.block_size)))
    )
    if _is_state(spec):
        blocks = 1
    shape = spec.block_size, span, blocks, window, _local_of(spec), _is_state(spec)
    tensors = unlike_tensors(kv_cache_config, group)
    if not tensors and len(inner_specs(group.kv_cache_spec)) > 1:
        raise Unsupported(
            "this vLLM does not tell the pages of a KV group with layers of several kinds (layers "
            "of kv_cache_tensors are missing)"
        )
    if not tensors:
        return [Group(table, spec, tuple(group.layer_names), _content_bytes(spec), *shape)]
    return [
        Group(table, _own_spec(group, one) or spec, tuple(one.layers), page_of(one), *shape, spec)
        for one in tensors
    ]


def _own_spec(group, tensor):
    """The specification of the tensor's layers; None in the scheduler. Unsupported: the pages of
    the tensor differ from the specification."""
    known = layer_specs(group)
    if not known:
        return None
    found = list(dict.fromkeys(known[name] for name in tensor.layers))
    if len(found) > 1 or not fits(found[0], page_of(tensor)):
        raise Unsupported(
            f"vLLM has pages of {page_of(tensor)} bytes for the layer {tensor.layers[0]}, and its "
            "specification has other pages"
        )
    return found[0]


def _check_states(spec):
    if spec.mamba_cache_mode != "align":
        raise Unsupported(
            "vLLM keeps recurrent states at the ends of blocks with prefix caching alone "
            "(mamba_cache_mode align)"
        )
    if spec.num_speculative_blocks:
        raise Unsupported("recurrent states with speculative decoding are not served yet")


def _content_bytes(spec):
    """vLLM may pad pages to equal sizes in all groups. The padding has no content and is not
    stored."""
    if _is_state(spec):
        return sum(
            math.prod(shape) * dtype.itemsize for shape, dtype in zip(spec.shapes, spec.dtypes)
        )
    return getattr(spec, "unpadded_page_size_bytes", spec.page_size_bytes)


def _is_state(spec):
    return type(spec).__name__ == "MambaSpec"


def _local_of(spec):
    return spec.attention_chunk_size if type(spec).__name__ == "ChunkedLocalAttentionSpec" else None


def shards_of(parallel_config, kv_cache_config, model_config=None):
    sizes = parallel_sizes(parallel_config)
    for name in ("prefill_context_parallel_size", "decode_context_parallel_size"):
        if sizes[name] > 1:
            raise Unsupported(f"{name} {sizes[name]} is not served yet")
    ranks = sizes["tensor_parallel_size"]
    # vLLM reports replicas for MLA. Where neither vLLM nor the configuration has replicas, each
    # rank is a shard.
    replicas = max(
        getattr(kv_cache_config, "kv_tp_replicas", 1),
        _head_replicas(model_config, kv_cache_config, ranks),
    )
    if any(
        _is_state(spec)
        for group in kv_cache_config.kv_cache_groups
        for spec in inner_specs(group.kv_cache_spec)
    ):
        replicas = 1  # states differ from rank to rank, also where the KV does not
    return Shards(sizes["pipeline_parallel_size"], ranks, replicas if ranks % replicas == 0 else 1)


_KV_HEADS = re.compile(r"(key_value|kv).*head|head.*kv|heads_in_group")


def _head_replicas(model_config, kv_cache_config, ranks):
    """The number of consecutive ranks with the same KV head, in a model with fewer heads than
    ranks. 1 unless every layer surely has as many heads as the configuration says: different ranks
    taken for equal would give wrong bytes."""
    arch = getattr(model_config, "model_arch_config", None)
    heads = getattr(arch, "total_num_kv_heads", None)
    specs = [
        spec
        for group in kv_cache_config.kv_cache_groups
        for spec in inner_specs(group.kv_cache_spec)
    ]
    if any(unlike_tensors(kv_cache_config, group) for group in kv_cache_config.kv_cache_groups):
        return 1  # the scheduler does not know the heads of all layers
    if (
        not heads
        or ranks <= heads
        or ranks % heads
        or getattr(arch, "per_layer_overrides", True) is not None
    ):
        return 1
    if any(
        type(spec).__name__ not in ("FullAttentionSpec", "SlidingWindowSpec")
        or spec.num_kv_heads != 1
        for spec in specs
    ):
        return 1
    config = model_config.hf_text_config.to_dict()
    if any(_names_heads(value) for value in config.values()):  # mutation: nested-heads
        return 1
    named = [value for name, value in config.items() if _KV_HEADS.search(name)]
    return ranks // heads if all(value in (None, heads) for value in named) else 1


def _names_heads(value):
    """Whether a nested part of a model's configuration has KV heads of its own, like block_configs
    of Nemotron-NAS. vLLM then takes the model's number from one of these parts."""
    if isinstance(value, (list, tuple)):
        return any(map(_names_heads, value))
    if not isinstance(value, dict):
        return False
    return any(_KV_HEADS.search(str(name)) or _names_heads(part) for name, part in value.items())


def parallel_sizes(config):
    names = (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "prefill_context_parallel_size",
        "decode_context_parallel_size",
    )
    return {name: getattr(config, name, 1) for name in names}
