#include "sidecar/store/evictor.h"

#include <algorithm>

#include "shim/base/test_point.h"

namespace larder::store {

using protocol::SlotState;

namespace {
// Slots are evicted in batches ahead of need, so that one scan of all holds serves many slots: at
// most kMaxBatch, and at most a 256th of the slots of the size.
constexpr std::uint32_t kMaxBatch = 4096;
constexpr std::uint32_t kBatchShare = 256;
// The number of slots whose holds are checked before a window is chosen.
constexpr std::uint32_t kMaxWindowSlots = 4096;
// A window is drained only if its mean age exceeds the age of the size's coldest chunk by this
// factor; else two sizes would take the same pages from each other in turn.
constexpr double kColder = 1.5;
constexpr int kMaxWindows = 8;
// The share of the coldest slots of each size that a tier should have written, at most kMostAhead.
// One session may be granted this share at once: an engine reserves all chunks of a step together,
// and the evicted chunks must be written by then.
constexpr std::uint32_t kAheadShare = protocol::kSessionGrantedShare;
constexpr std::uint32_t kMostAhead = 4096;
// The cost of a search that finds only chunks that are too warm: windows are looked at, and the
// places of one message may fail one after the other.
constexpr std::uint32_t kFailedSearch = 1024;

// Prefetches for a walk over `slots` that has reached `at`: `distance` slots ahead, and a group of
// slots at a time. A walk has a locked exchange a slot, and a miss waits for the exchange before
// it. The misses of one group overlap. `fetched`: the slots so far.
template <typename Fetch>
void prefetch_ahead(std::span<const std::uint32_t> slots, std::size_t at, std::size_t distance,
                    std::size_t& fetched, const Fetch& fetch) {
  if (at + distance < fetched) return;
  const std::size_t end = std::min(at + distance + kPrefetchAhead, slots.size());
  for (; fetched < end; ++fetched) fetch(slots[fetched]);
}
}  // namespace

Evictor::Evictor(ChunkTable& chunks, TierListeners& listeners, Readers& readers,
                 const RecoveryGrace& grace, stats::Stats& stats)
    : chunks_(chunks),
      index_(chunks.index()),
      table_(chunks.table()),
      arena_(chunks.arena()),
      policy_(chunks.order().policy()),
      listeners_(listeners),
      readers_(readers),
      grace_(grace),
      stats_(stats) {}

SlotArena::Slot Evictor::take_slot(std::uint32_t size_class, std::uint32_t& may_examine,
                                   std::uint64_t colder_than) {
  kept_warmer_ = false;
  for (;;) {
    const SlotArena::Slot slot = arena_.take(size_class);
    if (slot.number != kNoSlot || may_examine == 0 ||
        !make_room(size_class, may_examine, colder_than))
      return slot;
  }
}

// One step towards a free slot. False: no room was made.
bool Evictor::make_room(std::uint32_t size_class, std::uint32_t& may_examine,
                        std::uint64_t colder_than) {
  // Engines may not have announced all holds again: only free slots are granted.
  if (grace_.active()) return false;  // mutation: settle-evict
  if (go_on_draining(may_examine) != 0) return true;
  if (table_.used_up()) {  // a place needs a number, and any evicted slot gives one
    const std::optional<std::uint32_t> coldest = coldest_candidate();
    if (coldest && evict_of(arena_.class_of(*coldest), may_examine, colder_than)) return true;
  } else if (!arena_.draining() && start_drain(size_class)) {
    return true;
  }
  if (evict_of(size_class, may_examine, colder_than)) return true;
  // Without a bound all slots are held or pinned: one search a message.
  may_examine -=
      std::min(may_examine, colder_than == PromptOrder::kAnyStamp ? may_examine : kFailedSearch);
  return false;
}

// Leaves out victims from the first own chunk on that is not colder.
void Evictor::keep_warmer(std::uint64_t colder_than) {
  const auto first = std::ranges::find_if(victims_, [&](std::uint32_t slot) {
    return table_.note(slot).guest == 0 && !older(table_.note(slot).used_stamp, colder_than);
  });
  kept_warmer_ = kept_warmer_ || first != victims_.end();
  chunks_.spend(static_cast<std::uint64_t>(victims_.end() - first));
  victims_.erase(first, victims_.end());  // mutation: own-prompt
}

bool Evictor::evict_of(std::uint32_t size_class, std::uint32_t& may_examine,
                       std::uint64_t colder_than) {
  std::uint32_t batch = std::clamp(arena_.class_slots(size_class) / kBatchShare, 1U, kMaxBatch);
  std::uint32_t left = std::min(may_examine, arena_.class_slots(size_class));
  if (colder_than != PromptOrder::kAnyStamp) {  // a look at the first one, for less than a batch
    victims_.resize(1);
    victims_.resize(policy_.first_victims(size_class, victims_));
    keep_warmer(colder_than);
    if (victims_.empty()) return false;
  }
  for (; left != 0; batch *= 2) {  // held slots moved to the end of the order: try the next ones
    victims_.resize(std::min(batch, left));
    victims_.resize(policy_.first_victims(size_class, victims_));
    if (colder_than != PromptOrder::kAnyStamp) keep_warmer(colder_than);
    if (victims_.empty()) break;
    left -= static_cast<std::uint32_t>(victims_.size());
    if (evict_families(victims_, victims_.size(), may_examine, stats_.evicted_capacity) != 0)
      return true;
    left = std::min(left, may_examine);
  }
  return false;
}

std::optional<std::uint32_t> Evictor::coldest_candidate() const {
  std::optional<std::uint32_t> coldest;
  std::uint32_t slot = kNoSlot;
  for (std::uint32_t number = 0; number < arena_.class_count(); ++number)
    if (policy_.first_victims(number, std::span(&slot, 1)) != 0 &&
        (!coldest || arena_.age(slot) > arena_.age(*coldest)))
      coldest = slot;
  return coldest;
}

// Starts to drain a window for this size, if the window is colder on average than the coldest chunk
// of the size, or if it joins spans that are too short for a slot at little loss. Returns whether a
// window is being drained.
bool Evictor::start_drain(std::uint32_t size_class) {
  std::uint32_t own = kNoSlot;
  const bool has_own = policy_.first_victims(size_class, std::span(&own, 1)) != 0;
  for (int i = 0; i < kMaxWindows; ++i) {
    std::optional<SlotArena::Window> window = arena_.scattered_window(size_class);
    if (!window) {
      const std::optional<std::uint32_t> coldest = coldest_candidate();
      window = arena_.coldest_window(size_class, coldest ? arena_.age(*coldest) : 0);
      if (window && has_own && window->mean_age <= kColder * static_cast<double>(arena_.age(own)))
        window.reset();
    }
    if (window && any_held(*window)) continue;
    arena_.clear_avoided();
    if (window) arena_.drain(*window);
    return arena_.draining();  // false for a window of free spans, which cannot be cut
  }
  arena_.clear_avoided();
  return false;
}

// A hint only: eviction scans the holds again in the safe order. The next choice avoids extents
// with held slots.
bool Evictor::any_held(const SlotArena::Window& window) {
  victims_.resize(kMaxWindowSlots);
  victims_.resize(arena_.slots_in(window.range, victims_));
  readers_.scan(victims_);
  bool any = false;
  for (const std::uint32_t slot : victims_) {
    if (!readers_.held(slot)) continue;
    arena_.avoid(slot);
    any = true;
  }
  return any;
}

std::uint32_t Evictor::go_on_draining(std::uint32_t& may_examine) {
  if (!arena_.draining() || may_examine == 0) return 0;
  victims_.resize(may_examine);
  victims_.resize(arena_.slots_in(arena_.drained_range(), victims_));
  return evict_families(victims_, victims_.size() + 1, may_examine, stats_.evicted_resized);
}

void Evictor::next_to_go(TierNumber tier, std::vector<protocol::SlotRef>& slots,
                         bool also_written) {
  if (grace_.active()) return;  // no eviction in the recovery grace
  for (std::uint32_t size_class = 0; size_class < arena_.class_count(); ++size_class) {
    const std::uint32_t all = arena_.class_slots(size_class);
    const std::uint32_t ahead = std::clamp(all / kAheadShare, 1U, kMostAhead);
    if (all == 0 || arena_.room(size_class) > all / kAheadShare) continue;
    victims_.resize(ahead);
    victims_.resize(policy_.first_victims(size_class, victims_));
    chunks_.spend(victims_.size());
    for (const std::uint32_t slot : victims_)
      if (also_written || !listeners_.written_to(tier, slot))
        slots.push_back({slot, 0, index_.generation(slot)});
  }
}

// Evicts the families of these slots, in order, until `enough` slots are free or `may_examine` is
// used up, and one family more at most. One scan of all holds serves the whole batch. A family with
// a held or unfinished chunk stays, and counts as used. Returns the number of free slots.
std::uint32_t Evictor::evict_families(std::span<const std::uint32_t> slots, std::size_t enough,
                                      std::uint32_t& may_examine, std::uint64_t& counter) {
  batch_.clear();
  family_end_.clear();
  stayed_.clear();
  std::size_t slots_fetched = 0, families_fetched = 0;
  for (std::size_t i = 0; i < slots.size() && batch_.size() < enough && may_examine != 0; ++i) {
    prefetch_ahead(slots, i, 2 * kPrefetchAhead, slots_fetched,
                   [this](std::uint32_t slot) { chunks_.prefetch_slot(slot); });
    prefetch_ahead(slots, i, kPrefetchAhead, families_fetched,
                   [this](std::uint32_t slot) { prefetch_family(chunks_, slot); });
    const std::uint64_t before = chunks_.effort();
    chunks_.spend(1);
    if (index_.state(slots[i]) == SlotState::kCommitted)
      claim_family(slots[i]);  // else gone with an earlier family
    may_examine -=
        static_cast<std::uint32_t>(std::min<std::uint64_t>(may_examine, chunks_.effort() - before));
  }
  LARDER_POINT(victims_dying);
  readers_.scan(batch_);
  LARDER_POINT(victims_scanned);
  for (const std::uint32_t slot : stayed_) keep_ancestors(slot);
  std::uint32_t freed = 0, begin = 0;
  std::size_t places_fetched = 0;
  slots_fetched = 0;
  for (const std::uint32_t end : family_end_) {
    prefetch_ahead(batch_, begin, 2 * kPrefetchAhead, slots_fetched,
                   [this](std::uint32_t slot) { chunks_.prefetch_slot(slot); });
    prefetch_ahead(batch_, begin, kPrefetchAhead, places_fetched,
                   [this](std::uint32_t slot) { chunks_.prefetch_freeing(slot); });
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
  // A pinned family is pinned as a whole and never a candidate.
  const bool stays = !family_.granted.empty();
  for (const std::uint32_t member : family_.committed) {  // mutation: family-together
    if (stays) {
      chunks_.order().touch(member);
      stayed_.push_back(member);
    } else {
      chunks_.order().leave(member);
      index_.set_state(member, SlotState::kDying);  // mutation: evict-dying-first
      batch_.push_back(member);
    }
  }
  if (!stays) family_end_.push_back(static_cast<std::uint32_t>(batch_.size()));
}

// A chunk stays, and its ancestors may be later victims of the batch: these also stay.
void Evictor::keep_ancestors(std::uint32_t slot) {
  do slot = index_.link(slot);
  while (slot != kNoSlot && index_.state(slot) == SlotState::kDying &&
         readers_.count_held(slot));  // mutation: ancestors-stay
}

// Frees a family, unless an engine reads it: then the family stays. Returns whether the family is
// free. REQUIRES: the words of the slots left the committed state, and all holds were scanned
// *after* that. The order matters: an engine announces a hold first and then checks the word, so
// one side always sees the other.
bool Evictor::release_family(std::span<const std::uint32_t> slots) {
  const bool held = std::any_of(slots.begin(), slots.end(), [this](std::uint32_t slot) {
    return readers_.held(slot);
  });  // mutation: evict-held, family-hold
  for (const std::uint32_t slot : slots) {
    if (held) {  // that counts as a use, also of a guest: kept guests do not stay the first victims
      keep_ancestors(slot);
      index_.set_state(slot, SlotState::kCommitted);  // mutation: evict-recommit
      chunks_.order().enter_used(slot);
      continue;
    }
    if (const auto age_ms = ages_.age_ms(arena_.uses() - arena_.age(slot)))
      stats_.age_at_eviction.record(*age_ms);
    listeners_.count_lost(slot);
    chunks_.count_out(slot);
    index_.erase_key(slot);
    chunks_.free_slot(slot);
  }
  return !held;
}

}  // namespace larder::store
