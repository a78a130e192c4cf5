"""An engine's KV tensors as the library takes them: runs of bytes by address, whatever their shape. Host memory or a CUDA device."""


def pages_of(name, tensor, page_bytes):
    """(address, stride, bytes, count) of a layer's pages: each must be one run of bytes, whatever its shape."""
    if not hasattr(tensor, "untyped_storage"):
        raise ValueError(f"{name} is a {type(tensor).__name__}, not one tensor")
    item = tensor.element_size()
    stride = tensor.stride(0) * item
    if _span_bytes(tensor[0]) != page_bytes or tensor[0].numel() * item != page_bytes:
        raise ValueError(f"{name}: a block of shape {tuple(tensor.shape[1:])} is not one run of {page_bytes} bytes")
    if stride < page_bytes and tensor.shape[0] > 1:
        raise ValueError(f"{name}: blocks of {page_bytes} bytes overlap, {stride} bytes apart")
    return tensor.data_ptr(), stride, page_bytes, tensor.shape[0]


def stream_of(tensors):
    """What gives the address of the stream that computes on them, or None: all of them are in host memory."""
    devices = {tensor.device for tensor in tensors if getattr(tensor, "is_cuda", False)}
    if not devices:
        return None
    import torch

    device = devices.pop()
    return lambda: torch.cuda.current_stream(device).cuda_stream


def _span_bytes(tensor):
    """Bytes from the first to behind the last element of a strided view."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()
