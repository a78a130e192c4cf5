"""The KV pages of a vLLM worker, found in the tensors that vLLM gives the connector."""

from larder.kv_pages import pages_of
from larder.vllm.groups import Unsupported


def register(client, setup, kv_caches):
    """Gives the library the address of every page of every layer. Returns the kernel block of each
    group of tokens, in tokens: within a page tokens stand kernel block by kernel block. A group
    without layers in this pipeline stage has the kernel block that vLLM's configuration implies.
    Unsupported: pages that cannot be served; the text names the layer."""
    blocks = []
    for number, group in enumerate(setup.groups):
        if not group.layers:
            if group.of_chunks:
                blocks.append(
                    setup.attention.blocks[len(blocks)] if setup.attention else group.block_size
                )
            continue
        found, sizes = [], {}
        for name in group.layers:
            if name not in kv_caches:
                raise Unsupported(f"vLLM has no pages for the layer {name!r}")
            try:
                found.append(
                    pages_of(name, kv_caches[name], group.page_bytes, setup.blocks, group.unlike)
                )
            except ValueError as error:
                raise Unsupported(str(error)) from None
            if group.of_chunks:
                sizes.setdefault(_kernel_block(setup, group, kv_caches[name].shape[0]), name)
        if len(sizes) > 1:
            listed = ", ".join(f"{name} {size}" for size, name in sizes.items())
            raise Unsupported(
                f"layers of one KV group have kernel blocks of different sizes, in tokens: {listed}"
            )
        blocks += sizes
        client.register_pages(number, found)
    return tuple(blocks)


def _kernel_block(setup, group, entries):
    """vLLM's tensor has an entry for each kernel block."""
    return group.block_size * setup.blocks // entries if setup.blocks else group.block_size
