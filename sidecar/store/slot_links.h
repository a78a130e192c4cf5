// SlotLinks: doubly linked lists of slot numbers in two vectors: 8 bytes a slot, every step O(1), no allocation but when the
// range of slots grows.
//
// A slot stands in at most one of the lists that share one SlotLinks. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder::store {

inline constexpr std::uint32_t kNoSlot = 0xffffffff;

struct SlotList {
  std::uint32_t first = kNoSlot;
  std::uint32_t last = kNoSlot;
  std::uint32_t count = 0;
};

class SlotLinks {
 public:
  void push_back(SlotList& list, std::uint32_t slot) {
    if (slot >= links_.size()) links_.resize(slot + 1);
    links_[slot] = {list.last, kNoSlot};
    (list.last == kNoSlot ? list.first : links_[list.last].next) = slot;
    list.last = slot;
    ++list.count;
  }

  // REQUIRES: slot stands in list.
  void remove(SlotList& list, std::uint32_t slot) {
    const Link link = links_[slot];
    (link.previous == kNoSlot ? list.first : links_[link.previous].next) = link.next;
    (link.next == kNoSlot ? list.last : links_[link.next].previous) = link.previous;
    --list.count;
  }

  // The slot behind `slot`, or kNoSlot.
  std::uint32_t next(std::uint32_t slot) const { return links_[slot].next; }

 private:
  struct Link {
    std::uint32_t previous = kNoSlot;
    std::uint32_t next = kNoSlot;
  };
  std::vector<Link> links_;
};

}  // namespace larder::store
