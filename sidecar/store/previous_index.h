// PreviousIndex: reads the index of an earlier larderd for a warm start.
//
// Engines still look up in that index. It is hostile input: this class copies and bounds every
// field, and Store::restore() checks the entries. The only write goes to the word that tells
// engines to stop using the index. The caller owns the memory, which outlives this object. Owned by
// the thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/base/status.h"
#include "shim/protocol/index_layout.h"

namespace larder::store {

class PreviousIndex {
 public:
  // kUnsupported: an unknown version or format. kFailedPrecondition: a known version that allows no
  // warm start. kDataLoss: damaged. kNotFound: dead already, or no index.
  static Result<PreviousIndex> open(std::byte* data, std::size_t size_bytes);

  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t arena_bytes() const { return arena_bytes_; }
  std::uint64_t entry_count() const { return entry_count_; }
  // At or above every generation of that larderd.
  std::uint64_t last_generation() const { return last_generation_; }
  // The tier from which that larderd read into slots of its own; 0: no tier, or unknown.
  std::uint64_t tier() const { return tier_; }
  // The present bytes of the arena, from the start.
  std::uint64_t touched_bytes() const { return touched_bytes_; }

  struct Entry {
    protocol::SlotState state;
    std::uint32_t session;
    protocol::EntryView view;
  };
  // An unchecked copy of the entry. REQUIRES: slot < entry_count().
  Entry read(std::uint32_t slot) const;
  // The slot of the chunk before this one in its prompt, + 1, unchecked; 0: unknown.
  // REQUIRES: slot < entry_count().
  std::uint32_t parent(std::uint32_t slot) const {
    return parents_ == nullptr ? 0 : parents_[slot].load(std::memory_order_relaxed);
  }
  // The zero id if the place of the handle is not in use.
  protocol::NamespaceId namespace_id(std::uint32_t handle) const;

  // From here on engines find no chunk in that index, and attach again.
  void supersede() {
    dead_->store(static_cast<std::uint64_t>(protocol::IndexRetirement::kSuperseded),
                 std::memory_order_seq_cst);
  }

 private:
  const protocol::IndexEntry* entries_ = nullptr;
  const protocol::NamespaceEntry* namespaces_ = nullptr;
  const std::atomic<std::uint32_t>* parents_ = nullptr;
  protocol::AtomicU64* dead_ = nullptr;
  std::uint64_t epoch_ = 0, arena_bytes_ = 0, entry_count_ = 0, last_generation_ = 0,
                touched_bytes_ = 0, tier_ = 0;
};

}  // namespace larder::store
