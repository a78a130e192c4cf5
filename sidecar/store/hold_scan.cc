#include "sidecar/store/hold_scan.h"

#include <algorithm>

namespace larder::store {
namespace {

std::uint32_t holds_in_use(const protocol::SessionRegion& region) {
  const std::uint64_t used = region.holds_used.load(std::memory_order_seq_cst);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(used, protocol::kMaxHolds));
}

}  // namespace

void HoldScan::clear() {
  for (const std::uint32_t slot : batch_) asked_[slot / 64] = held_[slot / 64] = 0;
  batch_.clear();
}

void HoldScan::add(std::uint32_t slot) {
  if (slot / 64 >= asked_.size()) {
    asked_.resize(slot / 64 + 1);
    held_.resize(slot / 64 + 1);
  }
  asked_[slot / 64] |= 1ULL << (slot % 64);
  batch_.push_back(slot);
}

void HoldScan::run(const protocol::SessionRegion& region, const IndexWriter& index,
                   const HoldWatch& watch) {
  // Written by the engine, and so clamped. A count that is too small hides only holds of this
  // engine.
  const std::uint32_t used = holds_in_use(region);
  for (std::uint32_t i = 0; i < used; ++i) {
    const std::uint64_t hold = region.holds[i].load(std::memory_order_seq_cst);
    const std::uint32_t slot =
        protocol::low_half(hold) - 1;  // an empty hold gives 0 - 1, which is in no batch
    // A hold names slot and generation: a hold of an earlier chunk in the slot keeps no later
    // chunk.
    if (!bit(asked_, slot) || protocol::make_hold(slot, index.generation(slot)) != hold) continue;
    if (watch.refuses(i, hold)) continue;
    mark_held(slot);
  }
}

}  // namespace larder::store
