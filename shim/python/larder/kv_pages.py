"""An engine's KV tensors as the library takes them: runs of bytes by address, whatever the shape of
the tensor. Host memory or a CUDA device."""


def pages_of(name, tensor, page_bytes, blocks=None, padded=False):
    """(address, stride, bytes, count) of a layer's pages. Each page must be one run of bytes, in
    any shape.

    blocks: the number of blocks that the engine manages. The engine's kernel may count smaller
    blocks in the first dimension; the kernel blocks of a managed block lie side by side, and are
    one page. None: a page for each entry of the first dimension.

    padded: the last bytes of a page may be padding, which the tensor's shape does not have."""
    if not hasattr(tensor, "untyped_storage"):
        raise ValueError(f"{name} is a {type(tensor).__name__}, not one tensor")
    pages = tensor if blocks is None else _by_block(name, tensor, blocks)
    item = tensor.element_size()
    stride = pages.stride(0) * item
    content = pages[0].numel() * item
    if not _is_one_run(pages[0]) or not (content == page_bytes or padded and content < page_bytes):
        shape = tuple(pages.shape[1:])
        raise ValueError(f"{name}: a block of shape {shape} is not one run of {page_bytes} bytes")
    if stride < page_bytes and pages.shape[0] > 1:
        raise ValueError(f"{name}: blocks of {page_bytes} bytes overlap, {stride} bytes apart")
    if (
        padded
        and tensor.storage_offset() * item + (pages.shape[0] - 1) * stride + page_bytes
        > tensor.untyped_storage().nbytes()
    ):
        raise ValueError(
            f"{name}: the last block of {page_bytes} bytes ends behind the memory of its tensor"
        )
    return tensor.data_ptr(), stride, page_bytes, pages.shape[0]


class DeviceStream:
    """The stream that computes on tensors of a CUDA device: a call gives its address, which may
    change."""

    def __init__(self, device):
        self.device = device

    def __call__(self):
        import torch

        return torch.cuda.current_stream(self.device).cuda_stream


def stream_of(tensors):
    """The DeviceStream of the tensors, or None: all tensors are in host memory."""
    devices = {tensor.device for tensor in tensors if getattr(tensor, "is_cuda", False)}
    return DeviceStream(devices.pop()) if devices else None


def _by_block(name, tensor, blocks):
    if tensor.shape[0] == blocks:
        return tensor
    if tensor.shape[0] == 0 or tensor.shape[0] % blocks:
        entries = tensor.shape[0]
        raise ValueError(
            f"{name}: {entries} entries are no multiple of the engine's {blocks} blocks"
        )
    return tensor.unflatten(0, (blocks, -1))


def _is_one_run(tensor):
    """Whether a strided view covers each byte once and without a gap,
    in any order of dimensions."""
    dense = 1
    dimensions = zip(tensor.stride(), tensor.shape)
    for stride, size in sorted((stride, size) for stride, size in dimensions if size > 1):
        if stride != dense:
            return False
        dense *= size
    return True
