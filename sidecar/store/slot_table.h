// SlotTable: private notes of the store for each slot number, 16 bytes each, and the lists of
// slots.
//
// A slot number is an entry of the index. A number is in exactly one list: the stack of free
// numbers here, or a list of the store or its eviction policy. All lists are linked through the
// same note, so a slot cannot be in two lists. Every step is O(1) and allocates no memory; a page
// of the table is charged at its first write. Owned by the thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "sidecar/store/chunk_listener.h"
#include "sidecar/store/prefetch.h"

namespace larder::store {

inline constexpr std::uint32_t kNoSlot = 0xffffffff;
// Stamps of uses wrap after a year at a hundred thousand uses a second.
inline constexpr int kStampBits = 42;
inline constexpr std::uint64_t kMostStamp = (1ULL << kStampBits) - 1;
// Whether stamp `a` is older than `b`. REQUIRES: fewer than half of all stamps lie between them.
inline bool older(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>((a - b) << (64 - kStampBits)) < 0;
}

struct SlotList {
  std::uint32_t first = kNoSlot;
  std::uint32_t last = kNoSlot;
  std::uint32_t count = 0;
};

struct SlotNote {
  std::uint32_t previous;
  std::uint32_t next;
  std::uint64_t extent : 16;  // the extent of its place
  std::uint64_t pinned : 1;   // never evicted for room
  std::uint64_t written
      : kMaxTiers;  // a bit for each lower tier that has the chunk; valid while committed
  std::uint64_t
      guest : 2;  // a copy of another larderd's chunk: so many uses until it counts as an own chunk
  // The last use, in uses of all slots, or the stamp of the chunk that this chunk stands below
  // (EvictionPolicy); valid while a candidate for eviction.
  std::uint64_t used_stamp : kStampBits;
};
static_assert(sizeof(SlotNote) == 16);

class SlotTable {
 public:
  explicit SlotTable(std::uint64_t entry_count)
      : notes_(static_cast<SlotNote*>(std::calloc(entry_count, sizeof(SlotNote))), &std::free),
        entry_count_(entry_count) {
    if (notes_ != nullptr) return;
    if (const std::new_handler handler = std::get_new_handler()) handler();  // as operator new does
    throw std::bad_alloc();
  }

  // A free number, or kNoSlot. The number that was given back last is taken first: its entry is
  // still in cache.
  std::uint32_t take() {
    if (free_ == kNoSlot) return end_ < entry_count_ ? end_++ : kNoSlot;
    const std::uint32_t slot = free_;
    free_ = notes_[slot].next;
    if (free_ != kNoSlot) prefetch(free_);
    return slot;
  }
  // Whether no number is left.
  bool used_up() const { return free_ == kNoSlot && end_ == entry_count_; }
  // The number that take() returns next, if that number was given back before; else kNoSlot.
  std::uint32_t next_free() const { return free_; }
  // REQUIRES: taken, and in no list.
  void give(std::uint32_t slot) {
    notes_[slot].next = free_;
    free_ = slot;
  }
  // Takes all numbers below `end` for which taken(number) is true; they are in no list. REQUIRES:
  // no number was taken before.
  template <typename Taken>
  void restore(std::uint32_t end, const Taken& taken) {
    end_ = end;
    for (std::uint32_t slot = end; slot-- > 0;)
      if (!taken(slot)) give(slot);
  }
  // Above every number that was ever taken.
  std::uint32_t end() const { return end_; }

  SlotNote& note(std::uint32_t slot) { return notes_[slot]; }
  const SlotNote& note(std::uint32_t slot) const { return notes_[slot]; }

  void push_back(SlotList& list, std::uint32_t slot) {
    notes_[slot].previous = list.last;
    notes_[slot].next = kNoSlot;
    (list.last == kNoSlot ? list.first : notes_[list.last].next) = slot;
    list.last = slot;
    ++list.count;
  }
  // REQUIRES: `behind` is in list.
  void insert_before(SlotList& list, std::uint32_t slot, std::uint32_t behind) {
    const std::uint32_t previous = notes_[behind].previous;
    notes_[slot].previous = previous;
    notes_[slot].next = behind;
    (previous == kNoSlot ? list.first : notes_[previous].next) = slot;
    notes_[behind].previous = slot;
    ++list.count;
  }
  // REQUIRES: slot is in list.
  void remove(SlotList& list, std::uint32_t slot) {
    const std::uint32_t previous = notes_[slot].previous, next = notes_[slot].next;
    (previous == kNoSlot ? list.first : notes_[previous].next) = next;
    (next == kNoSlot ? list.last : notes_[next].previous) = previous;
    --list.count;
  }
  // Prefetches the note of a slot.
  void prefetch(std::uint32_t slot) const { store::prefetch(&notes_[slot]); }
  // The slot behind `slot`, or kNoSlot. REQUIRES: slot is in a list.
  std::uint32_t next(std::uint32_t slot) const { return notes_[slot].next; }

 private:
  std::unique_ptr<SlotNote[], decltype(&std::free)> notes_;
  std::uint64_t entry_count_;
  std::uint32_t end_ = 0;
  std::uint32_t free_ = kNoSlot;
};

}  // namespace larder::store
