// StrategyTable: which of CUDA's two ways moves pieces of a size, in each direction: kernels, or
// the device's copy engines. A plain value.
//
// Kernels take multiprocessors from the model, so kernels only move small pieces, whatever the
// measurement says. An engine that copied all pages by kernels lost 6 to 32% end to end; the copy
// engines at the same rate caused no loss (vLLM, 2026-01). Loads may go by kernels below 64 KiB.
// Stores may go by kernels below 16 KiB only, because no request waits for a store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "shim/protocol/copy_strategy.h"

namespace larder::copy::cuda {

enum class Direction { kStore, kLoad };

class StrategyTable {
 public:
  // The smallest measured piece size, typical of engines, and the sizes from which kernels are
  // never used.
  static constexpr std::uint64_t kLeast = 8 << 10;
  static constexpr std::array<std::uint64_t, 2> kKernelsEnd{16 << 10, 64 << 10};  // by direction

  // The table without a measurement: kernels for loads below 32 KiB. A guess near the constant of
  // vLLM 0.32 (28 KiB).
  StrategyTable() = default;

  // Kernels move pieces below `below` bytes. The bound is at most kKernelsEnd.
  void set(Direction direction, std::uint64_t below);
  bool by_kernel(Direction direction, std::uint64_t piece_bytes) const {
    return piece_bytes < below(direction);
  }
  std::uint64_t below(Direction direction) const {
    return below_[static_cast<std::size_t>(direction)];
  }
  protocol::CopyStrategy in_use() const {
    return {protocol::CopyStrategy::Kind::kChosen, below_[0], below_[1]};
  }

 private:
  std::array<std::uint64_t, 2> below_{0, 32 << 10};
};

}  // namespace larder::copy::cuda
