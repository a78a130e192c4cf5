// The copy kernels without their digests, whole aligned units only: the cost of digests (G2,
// "checksum off"). The product has no such kernels: the product verifies every byte.
#include "cuda/move_pieces.cuh"

namespace larder::copy {
namespace {

template <Move kMove>
__device__ void run(const MoveJob& job) {
  const uint32_t lane = threadIdx.x % kLanes;
  const uint64_t first = uint64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / kLanes,
                 warps = uint64_t{gridDim.x} * kWarpsPerBlock;
  const uint64_t units = job.piece_bytes / kUnitBytes, all = units * job.piece_count;
  uint64_t next = first < all ? job.pieces[first / units] : 0;
  for (uint64_t unit = first; unit < all; unit += warps) {
    unsigned char* const in_piece =
        reinterpret_cast<unsigned char*>(next) + unit % units * kUnitBytes;
    unsigned char* const in_packed = job.packed + unit * kUnitBytes;
    if (unit + warps < all) next = job.pieces[(unit + warps) / units];
    unsigned char* const to = kMove == Move::kGather ? in_packed : in_piece;
    const unsigned char* const from = kMove == Move::kGather ? in_piece : in_packed;
    xxh3::Pair rows[kRows];
    LARDER_UNROLL
    for (uint32_t row = 0; row < kRows; ++row)
      rows[row] = load_16(from + row * kRowBytes + 16 * lane);
    LARDER_UNROLL
    for (uint32_t row = 0; row < kRows; ++row)
      store_16(to + row * kRowBytes + 16 * lane, rows[row]);
  }
}

}  // namespace
}  // namespace larder::copy

using larder::copy::Move;
using larder::copy::MoveJob;

// By the names that PieceKernels asks for. REQUIRES: kLanes * kWarpsPerBlock threads a block, no
// null pieces.
extern "C" __global__ void __launch_bounds__(256) larder_gather(MoveJob job) {
  larder::copy::run<Move::kGather>(job);
}
extern "C" __global__ void __launch_bounds__(256) larder_scatter(MoveJob job) {
  larder::copy::run<Move::kScatter>(job);
}
extern "C" __global__ void larder_digest(MoveJob) {}
