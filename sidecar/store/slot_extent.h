// The records of SlotArena: an extent, which is a run of slots of one size, and a size of slots.
//
// Plain data without rules of their own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "shim/protocol/limits.h"

namespace larder::store {

inline constexpr std::uint64_t kPageBytes = protocol::kSlotAlignBytes;  // of the arena

struct Extent {
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t start = 0;       // page
  std::uint32_t slot_pages = 0;  // 0: this extent number is free
  std::uint32_t slots = 0;
  std::uint32_t fresh = 0;  // the first place that was never given out
  std::uint32_t used = 0;
  std::uint32_t candidates = 0;
  std::uint64_t stamps = 0;  // the sum over the candidates
  std::uint32_t size_class = 0;
  std::uint32_t free_head = kNone;               // kFreeBit and a place, or kNone
  std::uint32_t previous = kNone, next = kNone;  // in the list of extents of the class with room
  bool has_room = false, draining = false, avoided = false;
  // The slot number, or kFreeBit and the next free place, or kNone.
  std::vector<std::uint32_t> places;
};

// A size of slots, and its extents.
struct SizeClass {
  std::uint32_t slot_pages = 0;
  std::uint32_t with_room = Extent::kNone;  // first extent
  std::uint32_t extents = 0, slots = 0, used = 0;
};

// The length of a long extent and of a window: a 128th of the arena, at most 4096 slots.
inline std::uint32_t long_extent_slots(std::uint64_t arena_bytes, std::uint32_t slot_pages) {
  constexpr std::uint64_t kExtentShare = 128, kMaxExtentSlots = 4096;
  const std::uint64_t slots = arena_bytes / kPageBytes / kExtentShare / slot_pages;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(slots, 1, kMaxExtentSlots));
}

}  // namespace larder::store
