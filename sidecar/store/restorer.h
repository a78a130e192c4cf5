// Restorer: the warm restart. The index of an earlier larderd, read as hostile input, becomes the
// content of the store.
//
// A local object of Store::restore(), on the thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sidecar/store/chunk_table.h"
#include "sidecar/store/previous_index.h"
#include "sidecar/store/recovery_grace.h"
#include "sidecar/store/removals.h"
#include "sidecar/store/session_book.h"
#include "sidecar/store/tier_listeners.h"

namespace larder::store {

// A namespace of an earlier larderd, from its journal.
struct EarlierName {
  NamespaceSpec spec;
  // In the index of that larderd; empty if the journal has no handle.
  std::optional<std::uint32_t> handle = {};
};

struct Restored {
  std::uint64_t kept = 0, dropped = 0, quarantined = 0;  // chunks that were committed; slots
  std::uint64_t own = 0;  // of these, slots that a tier may still read into
  // The opened namespaces: the place in `names`, and the new handle.
  std::vector<std::pair<std::size_t, std::uint32_t>> names;
};

class Restorer {
 public:
  // REQUIRES: `grace` has begun; no slot was taken.
  Restorer(ChunkTable& chunks, const RecoveryGrace& grace, TierListeners& listeners,
           SessionBook& sessions, Removals& removals);
  Restorer(const Restorer&) = delete;

  // See Store::restore().
  Restored run(std::span<const EarlierName> names, std::span<const SessionNumber> alive);

 private:
  // A slot of the earlier larderd to keep: number, place and state.
  struct Found {
    std::uint32_t slot, start, pages;
    protocol::SlotState state;
  };
  using Handles = std::unordered_map<std::uint32_t,
                                     // Handles of this index, by handles of the earlier index.
                                     std::uint32_t>;
  Handles restore_namespaces(std::span<const EarlierName> names, Restored& restored);
  void restore_namespace(std::uint32_t earlier, std::span<const EarlierName> names,
                         Handles& handles, Restored& restored);
  void leave_restored();
  std::vector<Found> find_kept(const Handles& handles, Restored& restored);
  protocol::SlotState kept_as(PreviousIndex::Entry& entry, const Handles& handles) const;
  void keep_apart(std::vector<Found>& found, Restored& restored);
  void restore_places(std::vector<Found>& found, Restored& restored);
  void enter(const Found& one, Restored& restored);
  void restore_order(std::span<const Found> found);

  ChunkTable& chunks_;
  IndexWriter& index_;  // these four are of chunks_
  SlotTable& table_;
  SlotArena& arena_;
  NamespaceTable& namespaces_;
  const RecoveryGrace& grace_;
  TierListeners& listeners_;
  SessionBook& sessions_;
  Removals& removals_;
};

}  // namespace larder::store
