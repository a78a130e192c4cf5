// IndexWriter: the only writer of an index region (shim/protocol/index_layout.h describes the
// guarantees for readers).
//
// Owned by the thread of the store; readers run in other processes at the same time. The caller
// owns the memory, which outlives the writer. The order of a change: first the word of the slot
// leaves the committed state, by a sequentially consistent exchange; then the fields change; a
// committed word comes last. The hash table has the keys of granted and committed slots, and of no
// other slot.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/protocol/index_layout.h"
#include "sidecar/store/prefetch.h"

namespace larder::store {

struct IndexShape {
  std::uint64_t entry_count;   // one slot each
  std::uint64_t bucket_count;  // a power of two, at least 2
  std::uint64_t arena_bytes;
  std::uint64_t epoch;
  std::uint64_t first_generation;  // above every generation of an earlier larderd
  std::uint64_t tier = 0;          // the tier that fills slots; 0: no tier

  std::uint64_t bytes() const {
    return protocol::index_sizes(entry_count, bucket_count).total_bytes +
           entry_count * sizeof(std::uint32_t);  // the parents
  }
  // Buckets for a load of at most one half.
  static constexpr std::uint64_t buckets_for(std::uint64_t entry_count) {
    std::uint64_t buckets = 2;
    while (buckets * protocol::kBucketCells < 2 * entry_count) buckets *= 2;
    return buckets;
  }
};

class IndexWriter {
 public:
  // Formats the region. REQUIRES: `data` is zeroed, aligned to a page and shape.bytes() long.
  IndexWriter(std::byte* data, const IndexShape& shape);

  // The granted or committed slot of the key, or kNoSlot.
  std::uint32_t find(const protocol::Key& key) const;

  struct Place {
    std::uint64_t offset_bytes;
    std::uint32_t payload_bytes;
    std::uint32_t piece_bytes;
  };
  // Grants a free slot under a new generation and enters its key. Returns the generation, or 0 if
  // both buckets of the key are full: the slot stays free. REQUIRES: find(key) == kNoSlot.
  std::uint64_t grant(std::uint32_t slot, const protocol::Key& key, const Place& place,
                      std::uint32_t session);
  // granted -> committed.
  void commit(std::uint32_t slot, std::uint64_t root);
  // Copies an entry of an earlier index under its generation: not visible, in no bucket. REQUIRES:
  // an unused slot.
  void copy(const protocol::EntryView& view, std::uint32_t session);
  // Sets the state of a copied slot, and enters the key of a committed slot. False: both buckets of
  // the key are full.
  bool adopt(std::uint32_t slot, protocol::SlotState state);
  // Changes the state and keeps the generation.
  void set_state(std::uint32_t slot, protocol::SlotState state);
  // Prefetches the buckets of a key, or of the key of a slot. In a batch the cache misses then
  // overlap.
  void prefetch(const protocol::Key& key) const {
    for (const std::uint64_t bucket : protocol::key_place(key, bucket_count_).bucket)
      store::prefetch(&buckets_[bucket]);
  }
  void prefetch(std::uint32_t slot) const { prefetch(key(slot)); }
  // Prefetches the fields that grant() and set_parent() write.
  void prefetch_entry(std::uint32_t slot) const {
    store::prefetch(&entries_[slot]);
    store::prefetch(&parents_[slot]);
  }
  // Removes the key of the slot from the hash table.
  void erase_key(std::uint32_t slot);

  protocol::SlotState state(std::uint32_t slot) const { return protocol::word_state(word(slot)); }
  std::uint64_t generation(std::uint32_t slot) const {
    return protocol::word_generation(word(slot));
  }
  std::uint32_t session(std::uint32_t slot) const {
    return protocol::low_half(load(entries_[slot].origin));
  }
  std::uint64_t entry_count() const { return header_->entry_count; }
  // The highest generation so far.
  std::uint64_t last_generation() const { return last_generation_; }
  // The slot of the chunk before this one in its prompt; kNoSlot: unknown. A parent has an older
  // generation than its child. A slot that was reused since is therefore no parent, and each walk
  // from parent to parent ends.
  std::uint32_t parent(std::uint32_t slot) const;
  // As parent(), also of a parent that is neither committed nor granted.
  std::uint32_t link(std::uint32_t slot) const;
  // `parent` may be kNoSlot.
  void set_parent(std::uint32_t slot, std::uint32_t parent) {
    parents_[slot].store(parent + 1, std::memory_order_relaxed);
  }
  std::uint64_t offset_bytes(std::uint32_t slot) const {
    return static_cast<std::uint64_t>(protocol::low_half(load(entries_[slot].place))) *
           protocol::kSlotAlignBytes;
  }
  protocol::Key key(std::uint32_t slot) const;
  // The fields of the entry, whatever the state.
  protocol::EntryView view(std::uint32_t slot) const;

  // Removes the namespace from the key of the slot. REQUIRES: not committed, and in no bucket.
  void detach(std::uint32_t slot);

  void set_namespace(std::uint32_t handle, const protocol::NamespaceId& id);
  void clear_namespace(std::uint32_t handle);
  void mark_dead();
  std::uint64_t tier() const { return header_->tier; }
  void set_tier(std::uint64_t tier) { header_->tier = tier; }
  void set_touched_bytes(std::uint64_t bytes) { store(header_->touched_bytes, bytes); }

 private:
  static std::uint64_t load(const protocol::AtomicU64& value) {
    return value.load(std::memory_order_relaxed);
  }
  static void store(protocol::AtomicU64& value, std::uint64_t word) {
    value.store(word, std::memory_order_release);
  }
  std::uint64_t word(std::uint32_t slot) const { return load(entries_[slot].word); }
  protocol::AtomicU64* empty_cell(const protocol::KeyPlace& place);
  std::uint64_t next_generation();

  protocol::IndexHeader* header_;
  protocol::IndexEntry* entries_;
  protocol::Bucket* buckets_;
  protocol::NamespaceEntry* namespaces_;
  std::atomic<std::uint32_t>* parents_;
  std::uint64_t bucket_count_;
  std::uint64_t last_generation_;
  std::uint64_t high_water_;
};

}  // namespace larder::store
