#include "sidecar/store/lru.h"

namespace larder::store {

void Lru::insert(std::uint32_t slot) {
  links_.push_back(order_, slot);
}

void Lru::touch(std::uint32_t slot) {
  links_.remove(order_, slot);
  links_.push_back(order_, slot);
}

void Lru::erase(std::uint32_t slot) {
  links_.remove(order_, slot);
}

std::size_t Lru::take_victims(std::span<std::uint32_t> slots) {
  std::size_t taken = 0;
  while (taken < slots.size() && order_.count != 0) {
    const std::uint32_t slot = order_.first;
    links_.remove(order_, slot);
    slots[taken++] = slot;
  }
  return taken;
}

}  // namespace larder::store
