// WayTable: by which of CUDA's two ways pieces of a size go, in each direction: by kernels, or by the copy engines. A plain value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace larder::copy::cuda {

enum class Direction { kStore, kLoad };

class WayTable {
 public:
  // From 8 KiB on, as engines have their pieces. A piece goes as the greatest of these that is not above it, or as the first.
  static constexpr std::array<std::uint64_t, 5> kSizes{8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20};
  static constexpr std::uint64_t kGuessedBytes = 512 << 10;

  // What is taken where nothing was measured: copy engines from kGuessedBytes on. A guess from what was read of others' figures.
  WayTable();

  void set(Direction direction, std::size_t size, bool kernel) { kernel_[static_cast<std::size_t>(direction)][size] = kernel; }
  bool by_kernel(Direction direction, std::uint64_t piece_bytes) const;
  // "stores by kernels at 8, 32, 128 KiB, loads by kernels at none, all else by the copy engines"
  std::string in_words() const;

 private:
  std::array<std::array<bool, kSizes.size()>, 2> kernel_{};
};

}  // namespace larder::copy::cuda
