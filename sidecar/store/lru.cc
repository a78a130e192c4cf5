#include "sidecar/store/lru.h"

namespace larder::store {

void Lru::insert(std::uint32_t slot, std::uint32_t size_class) {
  if (size_class >= orders_.size()) orders_.resize(size_class + 1);
  table_.push_back(orders_[size_class], slot);
}

void Lru::touch(std::uint32_t slot, std::uint32_t size_class) {
  table_.remove(orders_[size_class], slot);
  table_.push_back(orders_[size_class], slot);
}

void Lru::erase(std::uint32_t slot, std::uint32_t size_class) {
  table_.remove(orders_[size_class], slot);
}

std::size_t Lru::first_victims(std::uint32_t size_class, std::span<std::uint32_t> slots) const {
  if (size_class >= orders_.size()) return 0;
  std::size_t found = 0;
  for (std::uint32_t slot = orders_[size_class].first; slot != kNoSlot && found < slots.size(); slot = table_.next(slot))
    slots[found++] = slot;
  return found;
}

}  // namespace larder::store
