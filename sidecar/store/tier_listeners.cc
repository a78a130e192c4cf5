#include "sidecar/store/tier_listeners.h"

#include <algorithm>

#include "sidecar/store/family.h"

namespace larder::store {

using protocol::SlotState;

TierListeners::TierListeners(ChunkTable& chunks, stats::Stats& stats)
    : chunks_(chunks),
      index_(chunks.index()),
      table_(chunks.table()),
      namespaces_(chunks.namespaces()),
      stats_(stats) {}

void TierListeners::mark_written(TierNumber tier, std::uint32_t slot, std::uint64_t generation,
                                 bool written) {
  // The write took a while: the slot may have another chunk by now, which no tier has.
  if (!chunks_.committed_chunk(slot, generation)) return;
  SlotNote& note = table_.note(slot);
  const std::uint64_t others = note.written & ~(1ULL << tier);
  note.written = (others | std::uint64_t{written} << tier) & ((1ULL << kMaxTiers) - 1);
}

void TierListeners::count_lost(std::uint32_t slot) {
  bool any = false, there = false, wanted = false;
  for (TierNumber tier = 0; tier < kMaxTiers; ++tier) {
    if (listeners_[tier] == nullptr || !listeners_[tier]->stores()) continue;
    any = true;
    if (written_to(tier, slot))
      there = true;
    else
      wanted = wanted || listeners_[tier]->wants(index_.view(slot));
  }
  // Two counters: a chunk that a tier wanted and did not get in time is a sign of a slow tier; a
  // chunk that no tier wanted is not.
  if (any && (wanted || !there))
    ++(wanted ? stats_.evicted_unwritten : stats_.evicted_not_admitted);
}

std::uint32_t TierListeners::walk(TierNumber tier, std::uint32_t from, std::uint32_t most,
                                  std::vector<protocol::SlotRef>& slots, bool also_written) const {
  const std::uint32_t end = from + std::min(most, table_.end() - std::min(from, table_.end()));
  for (std::uint32_t slot = from; slot < end; ++slot)
    if (index_.state(slot) == SlotState::kCommitted && (also_written || !written_to(tier, slot)))
      slots.push_back({slot, 0, index_.generation(slot)});
  return end < table_.end() ? end : kNoSlot;
}

void TierListeners::announce(Drop& drop) {
  for (ChunkListener* listener : listeners_)
    if (listener != nullptr) drop.announced.push_back(listener->dropping(drop.handle));
}

bool TierListeners::takes_drops() const {
  return std::ranges::all_of(
      listeners_, [](const ChunkListener* one) { return one == nullptr || one->takes_drops(); });
}

LowerTierEviction TierListeners::evict_from_lower_tiers(std::uint32_t handle,
                                                        const protocol::BlockHash& hash) {
  LowerTierEviction family = LowerTierEviction::kAbsent;
  const NamespaceSpec& spec = namespaces_.at(handle).spec;
  for (ChunkListener* listener : listeners_) {
    if (listener == nullptr) continue;
    chunks_.spend(spec.part_count());
    each_member(spec, {hash, handle, 0, 0}, [&](const protocol::Key& key) {
      family = std::max(family, listener->evicted(key));
    });
  }
  return family;
}

}  // namespace larder::store
