#include "cuda/strategy_table.h"

#include <algorithm>

namespace larder::copy::cuda {

void StrategyTable::set(Direction direction, std::uint64_t below) {
  const auto place = static_cast<std::size_t>(direction);
  // A measurement on an idle GPU is not the last word: beside a model, kernels for large pieces
  // cost the model more than the gain.
  below_[place] = std::min(below, kKernelsEnd[place]);
}

}  // namespace larder::copy::cuda
