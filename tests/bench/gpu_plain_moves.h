// Copies that verify nothing, which those of the product are measured by: the driver's own, and kernels without digests. What the pages hold behind a load of
// all chunks is for GpuField::check() to tell.
#pragma once

#include "tests/bench/gpu_moves.h"

namespace larder::bench {

// All of them between registered memory; stores all chunks once.

// Calls of the driver of `each` bytes: with a chunk in each the ceiling. The pages are none in order. With 0 one call a chunk, of the driver's own batch over
// the chunk's pieces; kUnsupported: this driver has none.
Result<std::unique_ptr<GpuMoves>> driver_moves(GpuField& field, std::uint64_t each);

// The product's kernels but for the digests, on its streams and lanes, on so many multiprocessors together. REQUIRES: pieces of whole units of 4 KiB.
// kUnsupported: built without NVIDIA's compiler.
Result<std::unique_ptr<GpuMoves>> bare_kernel_moves(GpuField& field, unsigned blocks);

}  // namespace larder::bench
