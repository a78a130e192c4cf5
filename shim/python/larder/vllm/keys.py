"""Block hashes of a request, as the client takes them: one buffer in which one begins every stride bytes."""


def chunk_hashes(setup, request, first, last):
    """Those at the ends of chunks first..last-1, as far as the request has them."""
    step = setup.hashes_per_chunk
    return b"".join(request.block_hashes[(first + 1) * step - 1 : last * step : step])


def stride_of(request):
    return len(request.block_hashes[0])
