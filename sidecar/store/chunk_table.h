// ChunkTable: the slots of the arena, and the moves of one slot from state to state.
//
// Each method leaves index, notes, arena, namespaces, order of eviction and sums in agreement. Holds
// and sessions are the business of the callers. Owned by the thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "shim/protocol/checksum.h"
#include "sidecar/store/eviction_policy.h"
#include "sidecar/store/index_writer.h"
#include "sidecar/store/namespace_table.h"
#include "sidecar/store/slot_arena.h"
#include "sidecar/store/slot_table.h"

namespace larder::store {

class ChunkTable {
 public:
  // `index` is mapped and outlives this object.
  ChunkTable(const IndexShape& shape, std::byte* index);
  ChunkTable(const ChunkTable&) = delete;

  IndexWriter& index() { return index_; }
  SlotTable& table() { return table_; }
  SlotArena& arena() { return arena_; }
  NamespaceTable& namespaces() { return namespaces_; }
  EvictionPolicy& policy() { return *policy_; }

  // ---- The order of eviction ----
  void enter_order(std::uint32_t slot) {
    arena_.insert_candidate(slot);
    policy_->insert(slot, arena_.class_of(slot));
  }
  // A use of the slot. No effect on a pinned slot.
  void touch_order(std::uint32_t slot) {
    if (table_.note(slot).pinned) return;
    leave_order(slot);
    enter_order(slot);
  }
  void leave_order(std::uint32_t slot) {
    policy_->erase(slot, arena_.class_of(slot));
    arena_.erase_candidate(slot);
  }

  // ---- Pins ----
  // Takes a slot out of the order of eviction. No effect on a pinned slot.
  void pin(std::uint32_t slot);
  // The slot is in no list afterwards; the caller enters it. REQUIRES: pinned.
  void unpin(std::uint32_t slot);
  // Returns the pinned ones of these slots to the order of eviction.
  void unpin_all(std::span<const std::uint32_t> slots);
  std::uint32_t pinned() const { return pinned_.count; }
  std::uint64_t pinned_bytes() const { return pinned_bytes_; }

  std::uint64_t slot_bytes(std::uint32_t slot) const {
    const protocol::EntryView view = index_.view(slot);
    return protocol::slot_bytes(view.payload_bytes, view.piece_bytes);
  }
  void prefetch_slot(std::uint32_t slot) const {
    index_.prefetch_entry(slot);
    table_.prefetch(slot);
  }
  // Prefetches the lines that freeing a slot and erase_key() write.
  void prefetch_freeing(std::uint32_t slot) const {
    index_.prefetch(slot);
    arena_.prefetch_place(slot, index_.offset_bytes(slot));
  }

 private:
  IndexWriter index_;
  SlotTable table_;
  SlotArena arena_;
  NamespaceTable namespaces_;
  std::unique_ptr<EvictionPolicy> policy_;
  SlotList pinned_;
  std::uint64_t pinned_bytes_ = 0;
};

}  // namespace larder::store
