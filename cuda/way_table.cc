#include "cuda/way_table.h"

namespace larder::copy::cuda {

WayTable::WayTable() {
  for (auto& direction : kernel_)
    for (std::size_t i = 0; i < kSizes.size(); ++i) direction[i] = kSizes[i] < kGuessedBytes;
}

bool WayTable::by_kernel(Direction direction, std::uint64_t piece_bytes) const {
  std::size_t size = 0;
  while (size + 1 < kSizes.size() && kSizes[size + 1] <= piece_bytes) ++size;
  return kernel_[static_cast<std::size_t>(direction)][size];
}

std::string WayTable::in_words() const {
  const auto sizes = [this](Direction direction) {
    std::string words;
    for (std::size_t i = 0; i < kSizes.size(); ++i)
      if (kernel_[static_cast<std::size_t>(direction)][i]) words += (words.empty() ? "" : ", ") + std::to_string(kSizes[i] >> 10);
    return words.empty() ? "none" : words + " KiB";
  };
  return "stores by kernels at " + sizes(Direction::kStore) + ", loads by kernels at " + sizes(Direction::kLoad) +
         ", all else by the copy engines";
}

}  // namespace larder::copy::cuda
