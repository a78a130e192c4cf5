// ChunkTable: the slots of the arena, and the moves of one slot from state to state.
//
// Each method does one move; the caller completes the change of state, so that index, notes, arena,
// namespaces, order of eviction and sums agree again. Removals, for example, calls order().leave(),
// count_out(), detach() and, after the last reader, free_slot(). Callers look after holds and
// sessions. Owned by the thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "shim/protocol/checksum.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/index_writer.h"
#include "sidecar/store/keeps.h"
#include "sidecar/store/namespace_table.h"
#include "sidecar/store/prompt_order.h"
#include "sidecar/store/slot_arena.h"
#include "sidecar/store/slot_table.h"

namespace larder::store {

class ChunkTable {
 public:
  // `index` and `arena` are mapped and outlive this object.
  ChunkTable(const IndexShape& shape, std::byte* index, const std::byte* arena);
  ChunkTable(const ChunkTable&) = delete;

  IndexWriter& index() { return index_; }
  SlotTable& table() { return table_; }
  SlotArena& arena() { return arena_; }
  NamespaceTable& namespaces() { return namespaces_; }
  PromptOrder& order() { return order_; }

  // Only memory below `bytes` is given out.
  void set_touched_bytes(std::uint64_t bytes) {
    if (bytes == touched_bytes_)
      return;  // a write would take the cache line of the header from all readers
    touched_bytes_ = bytes;
    arena_.set_touched_bytes(bytes);
    index_.set_touched_bytes(bytes);
  }

  // ---- Namespaces: see Store::join_namespace() ----
  // See NamespaceTable::open().
  Result<std::uint32_t> open_namespace(const NamespaceSpec& spec, std::string* difference);
  void leave_namespace(std::uint32_t handle);
  // Counts the key of a slot in its namespace.
  void enter_namespace(std::uint32_t slot) {
    ++namespaces_.at(index_.key(slot).namespace_handle).slots;
  }
  // Removes the namespace from the key of a slot that waits for its writer or its readers: such a
  // slot must not keep the namespace open. The last slot of a namespace that sessions have left
  // closes the namespace, here and in free_slot().
  void detach(std::uint32_t slot);

  // ---- The life of a slot ----
  // Counts a committed slot in the sums, or out of them.
  void count_in(std::uint32_t slot) {
    const protocol::EntryView view = index_.view(slot);
    Namespace& ns = namespaces_.at(view.key.namespace_handle);
    ++committed_;
    ++ns.chunks;
    committed_bytes_ += view.payload_bytes;
    ns.bytes += view.payload_bytes;
  }
  void count_out(std::uint32_t slot) {
    const protocol::EntryView view = index_.view(slot);
    Namespace& ns = namespaces_.at(view.key.namespace_handle);
    --committed_;
    --ns.chunks;
    committed_bytes_ -= view.payload_bytes;
    ns.bytes -= view.payload_bytes;
  }
  // REQUIRES: no key in the hash table, in no list.
  void free_slot(std::uint32_t slot) {
    leave_namespace_of(slot);
    index_.set_state(slot, protocol::SlotState::kFree);
    arena_.give(slot, index_.offset_bytes(slot));
  }
  // The chunk in a slot; empty if it is not committed at this generation.
  std::optional<protocol::EntryView> committed_chunk(std::uint32_t slot,
                                                     std::uint64_t generation) const {
    if (slot >= table_.end() || index_.state(slot) != protocol::SlotState::kCommitted ||
        index_.generation(slot) != generation)
      return std::nullopt;
    return index_.view(slot);
  }
  std::span<const std::byte> slot_memory(const protocol::EntryView& chunk) const {
    return {arena_memory_ + chunk.offset_bytes,
            protocol::slot_bytes(chunk.payload_bytes, chunk.piece_bytes)};
  }
  std::uint32_t committed() const { return committed_; }

  // ---- Pins and keeps ----
  // Takes a slot out of the order of eviction. Ends a keep. No effect on a pinned slot.
  void pin(std::uint32_t slot);
  // As pin(), up to a time at most. Prolongs a keep. No effect on a pinned slot.
  void keep(std::uint32_t slot, std::uint32_t until_s);
  // The slot is in no list afterwards; the caller enters it. REQUIRES: pinned or kept.
  void unpin(std::uint32_t slot);
  // Ends a keep; the slot enters the order alone. No effect without a keep.
  void end_keep(std::uint32_t slot);
  // Returns the pinned and kept ones of these slots to the order of eviction.
  void unpin_all(std::span<const std::uint32_t> slots);
  std::uint64_t pinned_bytes() const { return pinned_bytes_; }
  Keeps& keeps() { return keeps_; }

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

  // The number of look-ups and of slots looked at, in total: see Store::effort().
  void spend(std::uint64_t looks) { effort_ += looks; }
  std::uint64_t effort() const { return effort_ + order_.effort(); }

  // Writes the gauges of slots and the namespaces into `stats`.
  void fill(stats::Stats& stats) const;

 private:
  void leave_namespace_of(std::uint32_t slot);
  void take_from_order(std::uint32_t slot);
  void give_back_unused(std::uint32_t handle);

  IndexWriter index_;
  SlotTable table_;
  SlotArena arena_;
  NamespaceTable namespaces_;
  const std::byte* arena_memory_;
  PromptOrder order_;  // of index_, table_ and arena_
  Keeps keeps_;
  SlotList pinned_;
  std::uint64_t pinned_bytes_ = 0;
  std::uint32_t committed_ = 0;
  std::uint64_t committed_bytes_ = 0;
  std::uint64_t effort_ = 0;
  std::uint64_t touched_bytes_ = 0;
};

}  // namespace larder::store
