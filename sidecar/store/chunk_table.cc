#include "sidecar/store/chunk_table.h"

#include "sidecar/store/lru.h"

namespace larder::store {

namespace {
// The most ancestors that one use looks at, and among them the most that are no candidates: grants in
// progress, and pinned chunks. A longer prompt is touched chunk by chunk all the same.
constexpr std::size_t kMostAncestors = 4096;
constexpr std::uint32_t kMostPassed = protocol::kMaxKeysPerReserve;
}  // namespace

ChunkTable::ChunkTable(const IndexShape& shape, std::byte* index, const std::byte* arena)
    : index_(index, shape),
      table_(shape.entry_count),
      arena_(shape.arena_bytes, table_),
      arena_memory_(arena),
      policy_(std::make_unique<Lru>(table_)) {}

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

// Lists in ancestors_ the ancestors that this batch has not used yet, the nearest first. Returns the
// first ancestor that this batch has used, or kNoSlot.
std::uint32_t ChunkTable::list_ancestors(std::uint32_t slot) {
  ancestors_.clear();
  std::uint32_t passed = 0;
  for (std::uint32_t above = index_.parent(slot);
       above != kNoSlot && ancestors_.size() < kMostAncestors && passed < kMostPassed;
       above = index_.parent(above)) {
    ++effort_;
    if (!candidate(above)) {
      ++passed;
    } else if (table_.note(above).used_stamp > uses_begun_) {
      return above;
    } else {
      ancestors_.push_back(above);
    }
  }
  return kNoSlot;
}

void ChunkTable::enter_order(std::uint32_t slot) {
  const std::uint32_t used = list_ancestors(slot);
  if (used == kNoSlot) {  // the later a use, the warmer: the slot first, its root last
    enter_below(slot, kNoSlot);
    for (const std::uint32_t ancestor : ancestors_)
      move_up(ancestor, kNoSlot);  // mutation: head-last
    return;
  }
  std::uint32_t above = used;
  for (std::size_t i = ancestors_.size(); i-- > 0; above = ancestors_[i])
    move_up(ancestors_[i], above);
  enter_below(slot, above);
}

void ChunkTable::move_up(std::uint32_t slot, std::uint32_t above) {
  leave_order(slot);
  enter_below(slot, above);
}

// Adds a slot directly below another, or as the warmest. Guests and own chunks, and slots of two sizes,
// have orders of their own.
void ChunkTable::enter_below(std::uint32_t slot, std::uint32_t above) {
  const std::uint32_t size_class = arena_.class_of(slot);
  if (above == kNoSlot || arena_.class_of(above) != size_class ||
      (table_.note(above).guest != 0) != (table_.note(slot).guest != 0)) {
    arena_.insert_candidate(slot);
    return policy_->insert(slot, size_class);
  }
  arena_.insert_candidate(slot, table_.note(above).used_stamp);
  policy_->insert_below(slot, above, size_class);  // mutation: child-below
}

std::uint64_t ChunkTable::use_for_child(std::uint32_t parent) {
  std::uint32_t passed = 0;
  while (parent != kNoSlot && !candidate(parent) && passed++ < kMostPassed)
    parent = index_.parent(parent);
  if (parent == kNoSlot || !candidate(parent)) return kAnyStamp;
  if (table_.note(parent).used_stamp <= uses_begun_) {
    leave_order(parent);
    enter_order(parent);
  }
  return table_.note(parent).used_stamp;
}

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
