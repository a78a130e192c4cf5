#include "sidecar/store/family_verbs.h"

#include <algorithm>

#include "sidecar/store/store_limits.h"

namespace larder::store {

FamilyVerbs::FamilyVerbs(ChunkTable& chunks, RecoveryGrace& grace, TierListeners& listeners,
                         SessionBook& sessions, Removals& removals, stats::Stats& stats)
    : chunks_(chunks),
      index_(chunks.index()),
      table_(chunks.table()),
      arena_(chunks.arena()),
      namespaces_(chunks.namespaces()),
      grace_(grace),
      listeners_(listeners),
      sessions_(sessions),
      removals_(removals),
      stats_(stats) {}

// Finds each family of one slice in family_ and calls verb(), which returns the counter of the
// family.
template <typename Verb>
protocol::ActCounts FamilyVerbs::each_family(std::uint32_t handle,
                                             std::span<const protocol::BlockHash> hashes,
                                             const Verb& verb) {
  protocol::ActCounts counts;
  const std::uint64_t end = chunks_.effort() + kSliceEffort;
  for (std::size_t i = 0; i < hashes.size() && chunks_.effort() < end; ++i) {
    if (!namespaces_.is_open(handle)) {  // the eviction of the last chunk closes the namespace
      counts.absent += hashes.size() - i;
      break;
    }
    find_family(chunks_, handle, hashes[i], family_);
    ++(counts.*verb());
  }
  return counts;
}

protocol::ActCounts FamilyVerbs::prefetch(std::uint32_t handle,
                                          std::span<const protocol::BlockHash> hashes) {
  return each_family(handle, hashes, [this] {
    for (const std::uint32_t slot : family_.committed) chunks_.order().touch(slot);
    return family_.whole() ? &protocol::ActCounts::found : &protocol::ActCounts::absent;
  });
}

protocol::ActCounts FamilyVerbs::pin(std::uint32_t handle,
                                     std::span<const protocol::BlockHash> hashes) {
  return each_family(handle, hashes, [this] {
    // Half a family would never hit. Pinned, it would hold memory for no engine.
    if (!family_.whole()) return &protocol::ActCounts::absent;
    std::uint64_t bytes = 0;
    for (const std::uint32_t slot : family_.committed)
      if (!table_.note(slot).pinned || chunks_.keeps().has(slot)) bytes += chunks_.slot_bytes(slot);
    // Pins come from users. Without the bound the whole arena could be pinned, and no grant would
    // find room.
    if (chunks_.pinned_bytes() + bytes > arena_.arena_bytes() / protocol::kPinnedShare)
      return &protocol::ActCounts::refused;
    for (const std::uint32_t slot : family_.committed) chunks_.pin(slot);
    return &protocol::ActCounts::found;
  });
}

protocol::ActCounts FamilyVerbs::unpin(std::uint32_t handle,
                                       std::span<const protocol::BlockHash> hashes) {
  return each_family(handle, hashes, [this] {
    chunks_.unpin_all(family_.committed);
    return family_.whole() ? &protocol::ActCounts::found : &protocol::ActCounts::absent;
  });
}

protocol::ActCounts FamilyVerbs::evict(std::uint32_t handle,
                                       std::span<const protocol::BlockHash> hashes) {
  grace_.supersede();  // the earlier index may have chunks that are missing here
  auto hash = hashes.begin();
  const protocol::ActCounts counts = each_family(handle, hashes, [&] {
    stats_.evicted_dropped += family_.committed.size();
    const LowerTierEviction below = listeners_.evict_from_lower_tiers(
        handle, *hash++);  // first: the last chunk closes the namespace
    for (const std::uint32_t slot : family_.committed) removals_.doom(slot);
    for (const std::uint32_t slot : family_.granted)
      sessions_.quarantine(sessions_.at(index_.session(slot)), slot);
    const bool here = !family_.committed.empty() || !family_.granted.empty();
    switch (below) {
      case LowerTierEviction::kRefused: return &protocol::ActCounts::refused;
      case LowerTierEviction::kGone: return &protocol::ActCounts::found;
      case LowerTierEviction::kAbsent: break;
    }
    return here ? &protocol::ActCounts::found : &protocol::ActCounts::absent;
  });
  removals_.free_doomed();
  return counts;
}

protocol::ActCounts FamilyVerbs::demote(std::uint32_t handle,
                                        std::span<const protocol::BlockHash> hashes) {
  return each_family(handle, hashes, [this] {
    for (const std::uint32_t slot : family_.committed) {
      chunks_.end_keep(slot);  // mutation: demote-ends-keep
      chunks_.order().demote(slot);
    }
    return family_.whole() ? &protocol::ActCounts::found : &protocol::ActCounts::absent;
  });
}

protocol::ActCounts FamilyVerbs::keep(std::uint32_t handle,
                                      std::span<const protocol::BlockHash> hashes,
                                      std::uint32_t keep_s) {
  const std::uint32_t until_s =
      chunks_.keeps().now_s() + std::clamp(keep_s, 1U, protocol::kMaxKeepS);
  return each_family(handle, hashes, [this, until_s] {
    if (!family_.whole()) return &protocol::ActCounts::absent;
    std::uint64_t bytes = 0;
    for (const std::uint32_t slot : family_.committed)
      if (!table_.note(slot).pinned) bytes += chunks_.slot_bytes(slot);
    if (!chunks_.keeps().has_room(bytes)) {  // mutation: keep-share
      ++stats_.keep_refused;
      return &protocol::ActCounts::refused;
    }
    for (const std::uint32_t slot : family_.committed) chunks_.keep(slot, until_s);
    return &protocol::ActCounts::found;
  });
}

}  // namespace larder::store
