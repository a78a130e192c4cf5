// PreviousIndex: what an earlier life of the sidecar left in its index, to start warm from.
//
// Engines still look up in it, and it is hostile input: every field is copied and bounded, and what is wrong with an entry is for
// Store::restore() to find. Written is one word of it alone, which tells engines to look nothing up there any more. The memory belongs
// to the caller and outlives it. Owned by the store's thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/base/status.h"
#include "shim/protocol/index_layout.h"

namespace larder::store {

class PreviousIndex {
 public:
  // kUnsupported: of a version or format that this sidecar does not know. kFailedPrecondition: of one that it knows and that nobody can
  // start warm from. kDataLoss: damaged. kNotFound: dead already, or no index at all.
  static Result<PreviousIndex> open(std::byte* data, std::size_t size_bytes);

  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t arena_bytes() const { return arena_bytes_; }
  std::uint64_t entry_count() const { return entry_count_; }
  // No generation above it was ever given.
  std::uint64_t last_generation() const { return last_generation_; }
  // Out of which it read into slots of its own; 0: it did not, or does not say.
  std::uint64_t tier() const { return tier_; }
  // Pages of the arena, from its start, that are there.
  std::uint64_t touched_bytes() const { return touched_bytes_; }

  struct Entry {
    protocol::SlotState state;
    std::uint32_t session;
    protocol::EntryView view;
  };
  // As it stands. REQUIRES: slot < entry_count().
  Entry read(std::uint32_t slot) const;
  // The zero id where the handle, of whichever generation, is not in use.
  protocol::NamespaceId namespace_id(std::uint32_t handle) const;

  // From here on engines find nothing in it and attach anew.
  void supersede() { dead_->store(static_cast<std::uint64_t>(protocol::LifeEnd::kSuperseded), std::memory_order_seq_cst); }

 private:
  const protocol::IndexEntry* entries_ = nullptr;
  const protocol::NamespaceEntry* namespaces_ = nullptr;
  protocol::AtomicU64* dead_ = nullptr;
  std::uint64_t epoch_ = 0, arena_bytes_ = 0, entry_count_ = 0, last_generation_ = 0, touched_bytes_ = 0, tier_ = 0;
};

}  // namespace larder::store
