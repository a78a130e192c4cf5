// SlotTable: what the store notes for itself about each slot number, 16 bytes each, and the lists that slots stand in.
//
// A slot number is an entry of the index. It stands in exactly one list at any time: the stack of free numbers here, or one that
// the store or its eviction policy owns, since all of them are linked through the same note. Every step is O(1) and allocates
// nothing; pages of the table are charged when they are first written. Owned by the store's thread.
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

struct SlotList {
  std::uint32_t first = kNoSlot;
  std::uint32_t last = kNoSlot;
  std::uint32_t count = 0;
};

struct SlotNote {
  std::uint32_t previous;
  std::uint32_t next;
  std::uint64_t extent : 16;          // where its place is
  std::uint64_t pinned : 1;           // never evicted for room
  std::uint64_t written : kMaxTiers;  // a bit for each tier below that has its chunk; meant while it is committed
  std::uint64_t used_stamp : 45;      // when it was last used, in uses of all slots; meant while it is a candidate for eviction
};
static_assert(sizeof(SlotNote) == 16);

class SlotTable {
 public:
  explicit SlotTable(std::uint64_t entry_count)
      : notes_(static_cast<SlotNote*>(std::calloc(entry_count, sizeof(SlotNote))), &std::free), entry_count_(entry_count) {
    if (notes_ != nullptr) return;
    if (const std::new_handler handler = std::get_new_handler()) handler();  // as operator new does
    throw std::bad_alloc();
  }

  // A number that nothing else has, or kNoSlot when all are taken. Last given back, first taken: its entry is still in cache.
  std::uint32_t take() {
    if (free_ == kNoSlot) return end_ < entry_count_ ? end_++ : kNoSlot;
    const std::uint32_t slot = free_;
    free_ = notes_[slot].next;
    if (free_ != kNoSlot) prefetch(free_);
    return slot;
  }
  // No number is left to take.
  bool used_up() const { return free_ == kNoSlot && end_ == entry_count_; }
  // The number that take() gives next, if it was given back before; else kNoSlot.
  std::uint32_t next_free() const { return free_; }
  // REQUIRES: taken, and in no list.
  void give(std::uint32_t slot) {
    notes_[slot].next = free_;
    free_ = slot;
  }
  // Before anything else was taken: the numbers for which taken(number) are taken, in no list; `end` is above the last of them.
  template <typename Taken>
  void restore(std::uint32_t end, const Taken& taken) {
    end_ = end;
    for (std::uint32_t slot = end; slot-- > 0;)
      if (!taken(slot)) give(slot);
  }
  // Every number ever taken is below it.
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
  // REQUIRES: slot stands in list.
  void remove(SlotList& list, std::uint32_t slot) {
    const std::uint32_t previous = notes_[slot].previous, next = notes_[slot].next;
    (previous == kNoSlot ? list.first : notes_[previous].next) = next;
    (next == kNoSlot ? list.last : notes_[next].previous) = previous;
    --list.count;
  }
  // Starts bringing a slot's note into cache.
  void prefetch(std::uint32_t slot) const { store::prefetch(&notes_[slot]); }
  // The slot behind `slot`, or kNoSlot. REQUIRES: slot stands in a list.
  std::uint32_t next(std::uint32_t slot) const { return notes_[slot].next; }

 private:
  std::unique_ptr<SlotNote[], decltype(&std::free)> notes_;
  std::uint64_t entry_count_;
  std::uint32_t end_ = 0;
  std::uint32_t free_ = kNoSlot;
};

}  // namespace larder::store
