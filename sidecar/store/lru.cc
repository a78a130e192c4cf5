#include "sidecar/store/lru.h"

namespace larder::store {

void Lru::insert(std::uint32_t slot, std::uint32_t size_class) {
  if (size_class >= classes_.size()) classes_.resize(size_class + 1);
  table_.push_back(lane_of(slot, size_class), slot);
  classes_[size_class].guest_count += table_.note(slot).guest != 0 ? 1 : 0;
}

void Lru::insert_below(std::uint32_t slot, std::uint32_t above, std::uint32_t size_class) {
  table_.insert_before(lane_of(slot, size_class), slot, above);
  classes_[size_class].guest_count += table_.note(slot).guest != 0 ? 1 : 0;
}

void Lru::erase(std::uint32_t slot, std::uint32_t size_class) {
  table_.remove(lane_of(slot, size_class), slot);
  classes_[size_class].guest_count -= table_.note(slot).guest != 0 ? 1 : 0;
}

std::size_t Lru::first_victims(std::uint32_t size_class, std::span<std::uint32_t> slots) const {
  if (size_class >= classes_.size()) return 0;
  const SizeClass& of_size = classes_[size_class];
  const std::size_t guests = of_size.guest_count == 0 ? 0 : take_oldest(of_size.guests, slots);
  return guests + take_oldest(of_size.own, slots.subspan(guests));
}

// Writes the oldest slots of the order into `slots`. Returns the number.
std::size_t Lru::take_oldest(const Order& order, std::span<std::uint32_t> slots) const {
  std::array<std::uint32_t, kLanes> heads;
  std::array<std::uint64_t, kLanes> stamps;
  const auto set_head = [&](std::size_t lane, std::uint32_t slot) {
    heads[lane] = slot;
    if (slot == kNoSlot) return;
    stamps[lane] = table_.note(slot).used_stamp;
    if (const std::uint32_t behind = table_.next(slot); behind != kNoSlot) table_.prefetch(behind);
  };
  for (const SlotList& lane : order)
    if (lane.first != kNoSlot) table_.prefetch(lane.first);
  for (std::size_t lane = 0; lane < kLanes; ++lane) set_head(lane, order[lane].first);
  for (std::size_t found = 0; found < slots.size(); ++found) {
    std::size_t lane = kLanes;  // of the oldest head
    for (std::size_t one = 0; one < kLanes; ++one)
      if (heads[one] != kNoSlot && (lane == kLanes || older(stamps[one], stamps[lane]))) lane = one;
    if (lane == kLanes) return found;
    slots[found] = heads[lane];
    set_head(lane, table_.next(heads[lane]));
  }
  return slots.size();
}

}  // namespace larder::store
