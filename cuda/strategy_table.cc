#include "cuda/strategy_table.h"

#include <algorithm>

namespace larder::copy::cuda {

void StrategyTable::set(Direction direction, std::uint64_t below) {
  const auto place = static_cast<std::size_t>(direction);
  below_[place] = std::min(below, kKernelsEnd[place]);
}

}  // namespace larder::copy::cuda
