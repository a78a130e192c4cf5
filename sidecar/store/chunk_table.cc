#include "sidecar/store/chunk_table.h"

namespace larder::store {

ChunkTable::ChunkTable(const IndexShape& shape, std::byte* index, const std::byte* arena)
    : index_(index, shape),
      table_(shape.entry_count),
      arena_(shape.arena_bytes, table_),
      arena_memory_(arena),
      order_(index_, table_, arena_),
      keeps_(table_, shape.entry_count) {}

Result<std::uint32_t> ChunkTable::open_namespace(const NamespaceSpec& spec,
                                                 std::string* difference) {
  Result<std::uint32_t> handle = namespaces_.open(spec, arena_.arena_bytes(), difference);
  if (handle.ok()) index_.set_namespace(*handle, spec.id);
  return handle;
}

void ChunkTable::leave_namespace(std::uint32_t handle) {
  namespaces_.leave(handle);
  give_back_unused(handle);
}

void ChunkTable::give_back_unused(std::uint32_t handle) {
  if (namespaces_.give_back(handle)) index_.clear_namespace(handle);
}

void ChunkTable::leave_namespace_of(std::uint32_t slot) {
  const std::uint32_t handle = index_.key(slot).namespace_handle;
  // A detached slot counted out of its namespace when it was detached.
  if (handle == protocol::kNoNamespace) return;
  --namespaces_.at(handle).slots;
  give_back_unused(handle);
}

void ChunkTable::detach(std::uint32_t slot) {
  const std::uint32_t handle = index_.key(slot).namespace_handle;
  if (handle == protocol::kNoNamespace) return;
  index_.detach(slot);
  --namespaces_.at(handle).slots;
  give_back_unused(handle);
}

// Of the order of eviction, or of the keeps: a kept slot has left the order before.
void ChunkTable::take_from_order(std::uint32_t slot) {
  if (keeps_.has(slot)) return keeps_.remove(slot, slot_bytes(slot));
  if (arena_.draining(slot)) arena_.stop_draining();  // the drain would never end
  // A slot is in exactly one list (free, granted, quarantined, committed in order or pinned,
  // doomed; model_test.cc checks). A pinned slot leaves the order of eviction.
  order_.leave(slot);
  table_.note(slot).pinned = 1;
}

void ChunkTable::pin(std::uint32_t slot) {
  if (table_.note(slot).pinned && !keeps_.has(slot)) return;
  take_from_order(slot);
  ++namespaces_.at(index_.key(slot).namespace_handle).pinned;
  table_.push_back(pinned_, slot);
  pinned_bytes_ += slot_bytes(slot);
}

void ChunkTable::keep(std::uint32_t slot, std::uint32_t until_s) {
  if (table_.note(slot).pinned && !keeps_.has(slot)) return;
  if (keeps_.until_s(slot) >= until_s) return;  // mutation: keep-longest
  take_from_order(slot);
  keeps_.add(slot, until_s, slot_bytes(slot));
}

void ChunkTable::unpin(std::uint32_t slot) {
  table_.note(slot).pinned = 0;
  if (keeps_.has(slot)) return keeps_.remove(slot, slot_bytes(slot));
  table_.remove(pinned_, slot);
  --namespaces_.at(index_.key(slot).namespace_handle).pinned;
  pinned_bytes_ -= slot_bytes(slot);
}

void ChunkTable::end_keep(std::uint32_t slot) {
  if (!keeps_.has(slot)) return;
  unpin(slot);
  order_.enter_alone(slot);  // no use of its ancestors
}

void ChunkTable::unpin_all(std::span<const std::uint32_t> slots) {
  for (const std::uint32_t slot : slots) {
    if (!table_.note(slot).pinned) continue;
    unpin(slot);
    order_.enter(slot);
  }
}

void ChunkTable::fill(stats::Stats& stats) const {
  stats.slot_sizes.clear();
  stats.slots_free = 0;
  for (const SlotArena::ClassView& of_size : arena_.classes()) {
    stats.slots_free += of_size.slots - of_size.used;
    if (stats.slot_sizes.size() == stats::kMaxSlotSizes) continue;
    stats.slot_sizes.push_back({of_size.slot_bytes, of_size.extents, of_size.slots, of_size.used});
  }
  stats.unused_bytes = arena_.unused_bytes();
  stats.pinned_bytes = pinned_bytes_;
  stats.slots_pinned = pinned_.count;
  stats.keep_bytes = keeps_.bytes();
  stats.keep_slots = keeps_.count();
  stats.used_bytes = committed_bytes_;
  stats.slots_committed = committed_;
  stats.namespaces.clear();
  stats.namespaces_given_back = namespaces_.given_back();
  for (const std::uint32_t handle : namespaces_.handles()) {
    const Namespace& ns = namespaces_.at(handle);
    stats.namespaces.push_back({ns.spec.id.to_hex(), ns.spec.model, ns.spec.fingerprint, ns.chunks,
                                ns.bytes, ns.sessions});
  }
}

}  // namespace larder::store
