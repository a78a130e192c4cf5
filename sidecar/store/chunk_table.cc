#include "sidecar/store/chunk_table.h"

#include "sidecar/store/lru.h"

namespace larder::store {

ChunkTable::ChunkTable(const IndexShape& shape, std::byte* index)
    : index_(index, shape),
      table_(shape.entry_count),
      arena_(shape.arena_bytes, table_),
      policy_(std::make_unique<Lru>(table_)) {}

void ChunkTable::pin(std::uint32_t slot) {
  if (table_.note(slot).pinned) return;
  if (arena_.draining(slot)) arena_.stop_draining();  // the drain would never end
  leave_order(slot);
  table_.note(slot).pinned = 1;
  ++namespaces_.at(index_.key(slot).namespace_handle).pinned;
  table_.push_back(pinned_, slot);
  pinned_bytes_ += slot_bytes(slot);
}

void ChunkTable::unpin(std::uint32_t slot) {
  table_.remove(pinned_, slot);
  table_.note(slot).pinned = 0;
  --namespaces_.at(index_.key(slot).namespace_handle).pinned;
  pinned_bytes_ -= slot_bytes(slot);
}

void ChunkTable::unpin_all(std::span<const std::uint32_t> slots) {
  for (const std::uint32_t slot : slots) {
    if (!table_.note(slot).pinned) continue;
    unpin(slot);
    enter_order(slot);
  }
}

}  // namespace larder::store
