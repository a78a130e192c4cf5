// The exchange with lower tiers: which chunks come and go, and which chunks a tier should write
// before their eviction.
#include <algorithm>

#include "shim/protocol/checksum.h"
#include "sidecar/store/store.h"

namespace larder::store {

using protocol::SlotState;

namespace {
// The share of the coldest slots of each size that a tier should have written, at most kMostAhead.
// One session may be granted this share at once: an engine reserves all chunks of a step together,
// and the evicted chunks must be written by then.
constexpr std::uint32_t kAheadShare = protocol::kSessionGrantedShare;
constexpr std::uint32_t kMostAhead = 4096;
}  // namespace

void Store::mark_written(TierNumber tier, std::uint32_t slot, std::uint64_t generation, bool written) {
  if (!chunks_.committed_chunk(slot, generation)) return;
  SlotNote& note = table_.note(slot);
  const std::uint64_t others = note.written & ~(1ULL << tier);
  note.written = (others | std::uint64_t{written} << tier) & ((1ULL << kMaxTiers) - 1);
}

// Counts a chunk that is evicted for room as lost, if a tier should have it and does not, or if no
// tier has it.
void Store::count_lost(std::uint32_t slot) {
  bool any = false, there = false, wanted = false;
  for (TierNumber tier = 0; tier < kMaxTiers; ++tier) {
    if (listeners_[tier] == nullptr) continue;
    any = true;
    if (written_to(tier, slot))
      there = true;
    else
      wanted = wanted || listeners_[tier]->wants(index_.view(slot));
  }
  if (any && (wanted || !there)) ++(wanted ? stats_.evicted_unwritten : stats_.evicted_unwanted);
}

void Store::next_to_go(TierNumber tier, std::vector<protocol::SlotRef>& slots, bool also_written) {
  if (grace_.settling()) return;  // no eviction before settled()
  for (std::uint32_t size_class = 0; size_class < arena_.class_count(); ++size_class) {
    const std::uint32_t all = arena_.class_slots(size_class);
    const std::uint32_t ahead = std::clamp(all / kAheadShare, 1U, kMostAhead);
    if (all == 0 || arena_.room(size_class) > all / kAheadShare) continue;
    victims_.resize(ahead);
    victims_.resize(policy_.first_victims(size_class, victims_));
    chunks_.spend(victims_.size());
    for (const std::uint32_t slot : victims_)
      if (also_written || !written_to(tier, slot)) slots.push_back({slot, 0, index_.generation(slot)});
  }
}

std::uint32_t Store::walk(TierNumber tier, std::uint32_t from, std::uint32_t most, std::vector<protocol::SlotRef>& slots,
                          bool also_written) const {
  const std::uint32_t end = from + std::min(most, table_.end() - std::min(from, table_.end()));
  for (std::uint32_t slot = from; slot < end; ++slot)
    if (index_.state(slot) == SlotState::kCommitted && (also_written || !written_to(tier, slot)))
      slots.push_back({slot, 0, index_.generation(slot)});
  return end < table_.end() ? end : kNoSlot;
}

}  // namespace larder::store
