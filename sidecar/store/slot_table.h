// SlotTable: what the store notes for itself about each slot number, 16 bytes each, and the lists that slots stand in.
//
// A slot number is an entry of the index. It stands in exactly one list at any time: the stack of free numbers here, or one that
// the store or its eviction policy owns, since all of them are linked through the same note. Every step is O(1) and allocates
// nothing; pages of the table are charged when they are first written. Slots are visited in no order of memory: give it large pages.
// Owned by the store's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>

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
  std::uint64_t extent : 16;      // where its place is
  std::uint64_t pinned : 1;       // never evicted for room
  std::uint64_t used_stamp : 47;  // when it was last used, in uses of all slots; meant while it is a candidate for eviction
};
static_assert(sizeof(SlotNote) == 16);

class SlotTable {
 public:
  // `memory` outlives it; it need not be zeroed, since a note means something from take() on.
  explicit SlotTable(std::uint64_t entry_count, std::pmr::memory_resource& memory = *std::pmr::new_delete_resource())
      : notes_(static_cast<SlotNote*>(memory.allocate(entry_count * sizeof(SlotNote)))),
        entry_count_(entry_count),
        memory_(memory) {}
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;
  ~SlotTable() { memory_.deallocate(notes_, entry_count_ * sizeof(SlotNote)); }

  // A number that nothing else has, or kNoSlot when all are taken. Last given back, first taken: its entry is still in cache.
  std::uint32_t take() {
    if (free_ == kNoSlot) return end_ < entry_count_ ? end_++ : kNoSlot;
    const std::uint32_t slot = free_;
    free_ = notes_[slot].next;
    return slot;
  }
  // No number is left to take.
  bool used_up() const { return free_ == kNoSlot && end_ == entry_count_; }
  // REQUIRES: taken, and in no list.
  void give(std::uint32_t slot) {
    notes_[slot].next = free_;
    free_ = slot;
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
  void prefetch(std::uint32_t slot) const { __builtin_prefetch(&notes_[slot], 1); }
  // The slot behind `slot`, or kNoSlot. REQUIRES: slot stands in a list.
  std::uint32_t next(std::uint32_t slot) const { return notes_[slot].next; }

 private:
  SlotNote* notes_;
  std::uint64_t entry_count_;
  std::pmr::memory_resource& memory_;
  std::uint32_t end_ = 0;
  std::uint32_t free_ = kNoSlot;
};

}  // namespace larder::store
