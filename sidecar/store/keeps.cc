#include "sidecar/store/keeps.h"

#include <new>

namespace larder::store {

Keeps::Keeps(SlotTable& table, std::uint64_t entry_count)
    : table_(table),
      until_s_(static_cast<std::uint32_t*>(std::calloc(entry_count, sizeof(std::uint32_t))),
               &std::free) {
  if (until_s_ != nullptr) return;
  if (const std::new_handler handler = std::get_new_handler()) handler();  // as in SlotTable
  throw std::bad_alloc();
}

void Keeps::add(std::uint32_t slot, std::uint32_t until_s, std::uint64_t slot_bytes) {
  table_.push_back(by_end_[until_s], slot);
  until_s_[slot] = until_s;
  bytes_ += slot_bytes;
  ++count_;
}

void Keeps::remove(std::uint32_t slot, std::uint64_t slot_bytes) {
  const auto of_second = by_end_.find(until_s_[slot]);
  table_.remove(of_second->second, slot);
  if (of_second->second.count == 0) by_end_.erase(of_second);
  until_s_[slot] = 0;
  bytes_ -= slot_bytes;
  --count_;
}

}  // namespace larder::store
