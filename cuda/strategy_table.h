// StrategyTable: by which of CUDA's two ways pieces of a size go, in each direction: by kernels, or by the copy engines. A plain value.
//
// Kernels take multiprocessors from the model, so that they are for small pieces alone, whatever is measured: an engine that copied all of its pages by kernels lost
// 6 to 32% from end to end where the same rate by copy engines lost nothing (vLLM, 2026-01). Loads may go by kernels below 64 KiB, and stores, which nobody
// waits for, below 16 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "shim/protocol/copy_strategy.h"

namespace larder::copy::cuda {

enum class Direction { kStore, kLoad };

class StrategyTable {
 public:
  // That are measured, as engines have their pieces; and where kernels end.
  static constexpr std::uint64_t kLeast = 8 << 10;
  static constexpr std::array<std::uint64_t, 2> kKernelsEnd{16 << 10, 64 << 10};  // by direction

  // What is taken where nothing was measured: loads below 32 KiB by kernels. A guess, near what vLLM 0.32 has as a constant (28 KiB).
  StrategyTable() = default;

  // Pieces below so many bytes go by kernels; more than kKernelsEnd is that.
  void set(Direction direction, std::uint64_t below);
  bool by_kernel(Direction direction, std::uint64_t piece_bytes) const { return piece_bytes < below(direction); }
  std::uint64_t below(Direction direction) const { return below_[static_cast<std::size_t>(direction)]; }
  protocol::CopyStrategy told() const { return {protocol::CopyStrategy::Kind::kChosen, below_[0], below_[1]}; }

 private:
  std::array<std::uint64_t, 2> below_{0, 32 << 10};
};

}  // namespace larder::copy::cuda
