#include "cuda/strategy_table.h"

#include <algorithm>

namespace larder::copy::cuda {

void StrategyTable::set(Direction direction, std::uint64_t below) {
  const auto place = static_cast<std::size_t>(direction);
  // Whatever was measured on an idle GPU: beside a model, kernels for large pieces cost the model
  // more than they gain.
  below_[place] = std::min(below, kKernelsEnd[place]);
}

}  // namespace larder::copy::cuda
