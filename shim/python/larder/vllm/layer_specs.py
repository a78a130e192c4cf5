"""The layers of a KV group: the specifications, and the tensors of groups with unlike layers.

Layers with an equal number of slots share a block table, also if their pages have several sizes.
Examples are MLA and the keys of an indexer (DeepSeek V3.2), heads of 256 and of 512 (Gemma 4). A
worker's configuration has the specification of each layer of such a group
(UniformTypeKVCacheSpecs). The scheduler's configuration has the specification of the first layer.
Both list the same tensors, one for each specification.

Pure functions of vLLM's KV cache configuration."""


def inner_specs(spec):
    """The specifications of a group's layers that this process knows, each once, the first layer's
    first."""
    inner = getattr(spec, "kv_cache_specs", None)
    return list(dict.fromkeys(inner.values())) if inner else [spec]


def layer_specs(group):
    """{layer: specification} of vLLM's KV group, where this process knows each; else {}."""
    return dict(getattr(group.kv_cache_spec, "kv_cache_specs", None) or {})


def unlike_tensors(kv_cache_config, group):
    """The tensors of vLLM's KV group if the layers have several specifications, in the same order
    in all processes of the engine; else ()."""
    names = set(group.layer_names)
    tensors = getattr(kv_cache_config, "kv_cache_tensors", None) or ()
    found = tuple(
        tensor for tensor in tensors if not names.isdisjoint(getattr(tensor, "layers", ()))
    )
    return found if len(found) > 1 else ()


def page_of(tensor):
    """Bytes from one page of the tensor to the next, with the padding behind a page. Layers lie in
    blocks, or blocks in layers. The nearer of the two neighbours ends the page."""
    return min(tensor.layer_stride, tensor.block_stride)  # mutation: unlike-page


def fits(spec, page_bytes):
    """Whether page_bytes are a page of this specification, padded to its alignment."""
    alignment = getattr(spec, "get_block_stride_alignment", lambda: 1)
    return 0 <= page_bytes - spec.page_size_bytes < alignment()
