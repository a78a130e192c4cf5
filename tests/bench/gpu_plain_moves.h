// Copies without verification, for comparison with the product's: the driver's own, and kernels
// without digests. GpuField::check() checks the pages after a load of all chunks.
#pragma once

#include "tests/bench/gpu_moves.h"

namespace larder::bench {

// All between registered memory; stores all chunks once.

// Calls of the driver of `each` bytes: with a chunk in each the ceiling, with pages in no order.
// With 0 one call a chunk, of the driver's own batch over the chunk's pieces; kUnsupported: this
// driver has no batch.
Result<std::unique_ptr<GpuMoves>> driver_moves(GpuField& field, std::uint64_t each);

// The product's kernels without the digests, on the kernels' streams and lanes, on the given number
// of multiprocessors together. REQUIRES: pieces of whole units of 4 KiB. kUnsupported: built
// without NVIDIA's compiler.
Result<std::unique_ptr<GpuMoves>> bare_kernel_moves(GpuField& field, unsigned blocks);

}  // namespace larder::bench
