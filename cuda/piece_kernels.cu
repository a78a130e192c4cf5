// The copy kernels: move_pieces.cuh on a device. The number of blocks stays small for any amount of
// data, so that the model keeps its multiprocessors.
#include "cuda/move_pieces.cuh"

namespace larder::copy {
namespace {

class DeviceWarp {
 public:
  __device__ explicit DeviceWarp(unsigned char* buffer) : buffer_(buffer) {
    lane_.number = threadIdx.x % kLanes;
  }
  template <typename Step>
  __device__ void each(Step step) {
    step(lane_);
  }
  __device__ void sync() { __syncwarp(); }
  __device__ unsigned char* buffer() { return buffer_; }
  __device__ void add_stripes() {
    add(4);
    add(8);
    add(16);
  }
  __device__ void add_pairs() {
    add(1);
    add(2);
  }

 private:
  // A butterfly: after the steps every lane has the sum, without shared memory.
  __device__ void add(int distance) {
    lane_.part.even += __shfl_xor_sync(0xffffffffU, lane_.part.even, distance);
    lane_.part.odd += __shfl_xor_sync(0xffffffffU, lane_.part.odd, distance);
  }
  Lane lane_;
  unsigned char* const buffer_;
};

template <Move kMove>
__device__ void run(const MoveJob& job) {
  // One unit for each warp: the hash reads the stored values, and not the source once more.
  __shared__ unsigned char buffers[kWarpsPerBlock][kUnitBytes];
  const uint32_t warp_of_block = threadIdx.x / kLanes;
  DeviceWarp warp(buffers[warp_of_block]);
  move_pieces<kMove>(warp, job, uint64_t{blockIdx.x} * kWarpsPerBlock + warp_of_block,
                     uint64_t{gridDim.x} * kWarpsPerBlock);
}

}  // namespace
}  // namespace larder::copy

using larder::copy::Move;
using larder::copy::MoveJob;

// REQUIRES: kLanes * kWarpsPerBlock threads a block.
extern "C" __global__ void __launch_bounds__(256) larder_gather(MoveJob job) {
  larder::copy::run<Move::kGather>(job);
}
extern "C" __global__ void __launch_bounds__(256) larder_scatter(MoveJob job) {
  larder::copy::run<Move::kScatter>(job);
}
extern "C" __global__ void __launch_bounds__(256) larder_digest(MoveJob job) {
  larder::copy::run<Move::kDigest>(job);
}
