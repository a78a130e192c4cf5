"""The KV pages of a vLLM worker, found in the tensors that vLLM gives its connector."""

from larder.kv_pages import pages_of
from larder.vllm.groups import Unsupported


def register(client, setup, kv_caches):
    """Gives the library the address of every page of every layer. Unsupported: pages that cannot
    be served; the text names the layer."""
    for number, group in enumerate(setup.groups):
        found = []
        for name in group.layers:
            if name not in kv_caches:
                raise Unsupported(f"vLLM has none for the layer {name!r}")
            try:
                found.append(pages_of(name, kv_caches[name], group.page_bytes, setup.blocks))
            except ValueError as error:
                raise Unsupported(str(error)) from None
            _check_kernel_block(setup, number, name, kv_caches[name].shape[0])
        client.register_pages(number, found)


def _check_kernel_block(setup, number, name, entries):
    """The fingerprint has the kernel block as the scheduler derived it: within a page tokens
    stand kernel block by kernel block."""
    if not setup.kernel_blocks or not setup.blocks:
        return
    actual = setup.groups[number].block_size * setup.blocks // entries
    if actual != setup.kernel_blocks[number]:
        expected = setup.kernel_blocks[number]
        raise Unsupported(
            f"{name} has kernel blocks of {actual} tokens, and {expected} were expected of its attention"
            " backend"
        )
