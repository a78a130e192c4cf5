#include "sidecar/store/evictor.h"

#include <algorithm>

#include "shim/base/test_point.h"

namespace larder::store {

using protocol::SlotState;

namespace {
constexpr std::size_t kPrefetchAhead = 8;
}  // namespace

Evictor::Evictor(ChunkTable& chunks, TierListeners& listeners, Readers& readers, stats::Stats& stats)
    : chunks_(chunks),
      index_(chunks.index()),
      table_(chunks.table()),
      arena_(chunks.arena()),
      listeners_(listeners),
      readers_(readers),
      stats_(stats) {}

std::uint32_t Evictor::evict_families(std::span<const std::uint32_t> slots, std::size_t enough, std::uint32_t& may_examine,
                                      std::uint64_t& counter) {
  batch_.clear();
  family_end_.clear();
  for (std::size_t i = 0; i < slots.size() && batch_.size() < enough && may_examine != 0; ++i) {
    if (i + 2 * kPrefetchAhead < slots.size()) chunks_.prefetch_slot(slots[i + 2 * kPrefetchAhead]);
    if (i + kPrefetchAhead < slots.size()) prefetch_family(chunks_, slots[i + kPrefetchAhead]);
    const std::uint64_t before = chunks_.effort();
    chunks_.spend(1);
    if (index_.state(slots[i]) == SlotState::kCommitted) claim_family(slots[i]);  // else gone with an earlier family
    may_examine -= static_cast<std::uint32_t>(std::min<std::uint64_t>(may_examine, chunks_.effort() - before));
  }
  LARDER_POINT(victims_dying);
  readers_.scan(batch_);
  LARDER_POINT(victims_scanned);
  std::uint32_t freed = 0, begin = 0;
  for (const std::uint32_t end : family_end_) {
    if (begin + 2 * kPrefetchAhead < batch_.size()) chunks_.prefetch_slot(batch_[begin + 2 * kPrefetchAhead]);
    if (begin + kPrefetchAhead < batch_.size()) chunks_.prefetch_freeing(batch_[begin + kPrefetchAhead]);
    if (release_family(std::span(batch_).subspan(begin, end - begin))) freed += end - begin;
    begin = end;
  }
  counter += freed;
  return freed;
}

// Marks the committed slots of the family as dying and adds them to the batch, unless the family
// must stay.
void Evictor::claim_family(std::uint32_t slot) {
  const protocol::Key key = index_.key(slot);
  find_family(chunks_, key.namespace_handle, key.hash, family_, slot);
  const bool stays = !family_.granted.empty();            // a pinned family is pinned as a whole and never a candidate
  for (const std::uint32_t member : family_.committed) {  // mutation: family-together
    if (stays) {
      chunks_.touch_order(member);
    } else {
      chunks_.leave_order(member);
      index_.set_state(member, SlotState::kDying);  // mutation: evict-dying-first
      batch_.push_back(member);
    }
  }
  if (!stays) family_end_.push_back(static_cast<std::uint32_t>(batch_.size()));
}

// Frees a family, unless an engine reads it: then the family stays. Returns whether the family is
// free. REQUIRES: the words of the slots left the committed state, and all holds were scanned
// *after* that. The order matters: an engine announces a hold first and then checks the word, so
// one side always sees the other.
bool Evictor::release_family(std::span<const std::uint32_t> slots) {
  const bool held = std::any_of(slots.begin(), slots.end(),
                                [this](std::uint32_t slot) { return readers_.held(slot); });  // mutation: evict-held, family-hold
  for (const std::uint32_t slot : slots) {
    if (held) {                                       // that counts as use
      index_.set_state(slot, SlotState::kCommitted);  // mutation: evict-recommit
      chunks_.enter_order(slot);
      continue;
    }
    if (const auto age_ms = ages_.age_ms(table_.note(slot).used_stamp)) stats_.age_at_eviction.record(*age_ms);
    listeners_.count_lost(slot);
    chunks_.count_out(slot);
    index_.erase_key(slot);
    chunks_.free_slot(slot);
  }
  return !held;
}

}  // namespace larder::store
