#include "cuda/trial_memory.h"

#include <algorithm>
#include <cstring>

#include "cuda/strategy_table.h"
#include "shim/protocol/checksum.h"

namespace larder::copy::cuda {

Result<std::unique_ptr<TrialMemory>> TrialMemory::make(const DeviceContext& context,
                                                       std::size_t bytes) {
  // A multiple of the largest piece, so each size divides the memory.
  constexpr std::size_t kGreatest = StrategyTable::kKernelsEnd.back();
  std::unique_ptr<TrialMemory> made(new TrialMemory(
      context, std::max<std::size_t>(1, (bytes + kGreatest - 1) / kGreatest) * kGreatest));
  if (Status status = made->slot_.ensure(made->bytes_); !status.ok()) return status;
  std::memset(made->slot().data(), 0, made->bytes_);
  if (Status status =
          made->driver_.status(made->driver_->mem_alloc(&made->pages_, made->bytes_), "cuMemAlloc");
      !status.ok())
    return status;
  return made;
}

TrialMemory::~TrialMemory() {
  if (pages_ != 0) driver_->mem_free(pages_);
}

// Each piece comes once: two copies of one batch onto the same page have no order.
PieceList TrialMemory::pieces(std::uint64_t piece_bytes) {
  const std::uint64_t count = bytes_ / piece_bytes;
  // Pages out of order, as in a block table: the copy engines could join neighbours. 17 is prime,
  // so every page comes once.
  const std::uint64_t step = count % 17 == 0 ? 1 : 17;
  pieces_.clear();
  for (std::uint64_t i = 0; i < count; ++i)
    pieces_.push_back(reinterpret_cast<std::byte*>(pages_ + i * step % count * piece_bytes));
  return {pieces_, piece_bytes};
}

std::span<std::uint64_t> TrialMemory::table(const PieceList& list) {
  table_.resize(list.pieces.size() * protocol::units_per_piece(list.piece_bytes));
  return table_;
}

}  // namespace larder::copy::cuda
