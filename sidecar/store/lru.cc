#include "sidecar/store/lru.h"

#include <algorithm>

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

std::uint32_t Lru::first_own_victim(std::uint32_t size_class) const {
  std::uint32_t slot = kNoSlot;
  if (size_class < classes_.size()) take_oldest(classes_[size_class].own, std::span(&slot, 1));
  return slot;
}

// Writes the oldest slots of the order into `slots`. Returns the number.
std::size_t Lru::take_oldest(const Order& order, std::span<std::uint32_t> slots) const {
  // A head's place in the order of use: the distance of its stamp from one long ago, then the lane.
  // A minimum of numbers has no branch that the processor could guess wrong.
  constexpr std::uint64_t kEmpty = UINT64_MAX;
  std::array<std::uint32_t, kLanes> heads;
  std::array<std::uint64_t, kLanes> places;
  std::uint64_t long_ago = 0;
  const auto set_head = [&](std::size_t lane, std::uint32_t slot) {
    heads[lane] = slot;
    places[lane] = kEmpty;
    if (slot == kNoSlot) return;
    places[lane] = ((table_.note(slot).used_stamp - long_ago) & kMostStamp) * kLanes + lane;
    if (const std::uint32_t behind = table_.next(slot); behind != kNoSlot) table_.prefetch(behind);
  };
  for (const SlotList& lane : order)
    if (lane.first != kNoSlot) table_.prefetch(lane.first);
  for (const SlotList& lane : order)
    if (lane.first != kNoSlot)
      long_ago = table_.note(lane.first).used_stamp - kMostStamp / 2;  // see older()
  for (std::size_t lane = 0; lane < kLanes; ++lane) set_head(lane, order[lane].first);
  for (std::size_t found = 0; found < slots.size(); ++found) {
    const std::uint64_t oldest = *std::ranges::min_element(places);
    if (oldest == kEmpty) return found;
    const std::size_t lane = oldest % kLanes;
    slots[found] = heads[lane];
    set_head(lane, table_.next(heads[lane]));
  }
  return slots.size();
}

}  // namespace larder::store
