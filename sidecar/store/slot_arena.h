// SlotArena: which places of the arena are free. Numbers only; it never sees the memory.
//
// One slot size at a time: slot i stands at i * slot_bytes, and another size is taken up only while no slot is in use. Only slots
// whose bytes were touched are given out. Owned by the store's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sidecar/store/slot_links.h"

namespace larder::store {

class SlotArena {
 public:
  SlotArena(std::uint64_t arena_bytes, std::uint64_t entry_count) : arena_bytes_(arena_bytes), entry_count_(entry_count) {}

  // Only slots that end below it are given out. Never shrinks.
  void set_touched_bytes(std::uint64_t bytes) { touched_bytes_ = std::max(touched_bytes_, std::min(bytes, arena_bytes_)); }

  // Whether slots of this size can be given out, at once or after evictions; takes the size up if nothing is in use.
  bool adopt(std::uint64_t slot_bytes) {
    if (slot_bytes == slot_bytes_) return true;
    if (used_ != 0) return false;
    slot_bytes_ = slot_bytes;
    next_ = 0;
    free_.clear();
    return true;
  }

  // A free slot, or kNoSlot. REQUIRES: adopt().
  std::uint32_t take() {
    std::uint32_t slot = kNoSlot;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else if (next_ < touched_slots()) {
      slot = next_++;
    } else {
      return kNoSlot;
    }
    ++used_;
    return slot;
  }

  // REQUIRES: slot was taken.
  void give(std::uint32_t slot) {
    free_.push_back(slot);
    --used_;
  }

  std::uint64_t offset_bytes(std::uint32_t slot) const { return slot * slot_bytes_; }
  std::uint64_t arena_bytes() const { return arena_bytes_; }
  std::uint64_t slot_bytes() const { return slot_bytes_; }  // 0 before the first adopt()
  std::uint32_t used() const { return used_; }
  // Every slot ever taken at this size is below it.
  std::uint32_t end() const { return next_; }
  // Slots that may be given out now, used ones included.
  std::uint32_t touched_slots() const { return slots_in(touched_bytes_); }
  std::uint32_t total_slots() const { return slots_in(arena_bytes_); }

 private:
  std::uint32_t slots_in(std::uint64_t bytes) const {
    return slot_bytes_ == 0 ? 0 : static_cast<std::uint32_t>(std::min(bytes / slot_bytes_, entry_count_));
  }

  std::uint64_t arena_bytes_;
  std::uint64_t entry_count_;
  std::uint64_t touched_bytes_ = 0;
  std::uint64_t slot_bytes_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t used_ = 0;
  std::vector<std::uint32_t> free_;
};

}  // namespace larder::store
