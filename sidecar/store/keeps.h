// Keeps: the slots of chunks with the hint "keep", by the end of their time.
//
// A keep is a pin that ends by itself: the slot is out of the order of eviction, with
// SlotNote::pinned. 4 bytes a slot number, charged at the first keep in a page, and one list for
// each second in which keeps end, of kMaxKeepS at most. Owned by the thread of the store.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>

#include "sidecar/store/slot_table.h"

namespace larder::store {

class Keeps {
 public:
  // `table` outlives this object.
  Keeps(SlotTable& table, std::uint64_t entry_count);

  // The most bytes of all kept slots: a part of the arena. 0 until the first call.
  void set_most_bytes(std::uint64_t bytes) { most_bytes_ = bytes; }
  bool has_room(std::uint64_t bytes) const { return bytes_ + bytes <= most_bytes_; }
  // The time of the tick, in seconds.
  void set_now(std::uint32_t now_s) { now_s_ = now_s; }
  std::uint32_t now_s() const { return now_s_; }

  // The end of a slot's keep, in seconds; 0: no keep.
  std::uint32_t until_s(std::uint32_t slot) const { return until_s_[slot]; }
  bool has(std::uint32_t slot) const { return until_s_[slot] != 0; }
  // REQUIRES: the slot is in no list; until_s is not 0.
  void add(std::uint32_t slot, std::uint32_t until_s, std::uint64_t slot_bytes);
  // The slot is in no list afterwards. REQUIRES: has(slot).
  void remove(std::uint32_t slot, std::uint64_t slot_bytes);

  // A slot whose time has passed, the first kept first; kNoSlot without one.
  std::uint32_t over() const {
    return by_end_.empty() || by_end_.begin()->first > now_s_ ? kNoSlot
                                                              : by_end_.begin()->second.first;
  }
  // The slot with the least time left, the last kept first: the tail of a prompt. kNoSlot: none.
  std::uint32_t next_to_end() const {
    return by_end_.empty() ? kNoSlot : by_end_.begin()->second.last;
  }

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t count() const { return count_; }

 private:
  SlotTable& table_;
  const std::unique_ptr<std::uint32_t[], decltype(&std::free)> until_s_;  // by slot
  std::map<std::uint32_t, SlotList> by_end_;                              // none is empty
  std::uint64_t most_bytes_ = 0, bytes_ = 0, count_ = 0;
  std::uint32_t now_s_ = 0;
};

}  // namespace larder::store
