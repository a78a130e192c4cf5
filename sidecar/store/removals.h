// Removals: takes chunks out of sight for good (bad, dropped, evicted by order), and frees each
// slot after its last reader.
//
// A doomed slot is dying, without a key, and perhaps still being read. A chunk that was reported
// bad waits for verify_next() first. Owned by the thread of the store.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/protocol/index_layout.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_table.h"
#include "sidecar/store/drop.h"
#include "sidecar/store/family.h"
#include "sidecar/store/readers.h"
#include "sidecar/store/recovery_grace.h"
#include "sidecar/store/session_book.h"
#include "sidecar/store/tier_listeners.h"

namespace larder::store {

class Removals {
 public:
  // All arguments outlive this object.
  Removals(ChunkTable& chunks, RecoveryGrace& grace, TierListeners& listeners,
           SessionBook& sessions, Readers& readers, stats::Stats& stats);
  Removals(const Removals&) = delete;

  // Hides a committed slot for good. Engines that are reading the slot notice the changed word.
  void doom(std::uint32_t slot) { doom(slot, doomed_); }
  // An engine found bytes that do not match the root: dooms the chunk, and verify_next() checks the
  // bytes.
  void report_bad(const protocol::SlotRef& slot);
  // Verifies one reported chunk. False if no chunk waits.
  bool verify_next();
  // Dooms every chunk of the namespace; grants in progress will not be committed. An open handle
  // stays valid. One slice (kSliceEffort) a call: the chunks of the time of the first slice are
  // gone after the last slice. An earlier index is superseded first, because engines could still
  // find the chunk there.
  void drop(Drop& drop);
  // Frees doomed slots without a reader.
  void free_doomed();
  // Takes over a slot of an earlier larderd that may still be read. REQUIRES: dying, without a key.
  void adopt(std::uint32_t slot) { table_.push_back(doomed_, slot); }

 private:
  void doom(std::uint32_t slot, SlotList& list);
  void drop_slot(Drop& drop, std::uint32_t slot);

  ChunkTable& chunks_;
  IndexWriter& index_;  // these three are of chunks_
  SlotTable& table_;
  NamespaceTable& namespaces_;
  RecoveryGrace& grace_;
  TierListeners& listeners_;
  SessionBook& sessions_;
  Readers& readers_;
  stats::Stats& stats_;
  SlotList doomed_;
  SlotList unverified_;               // doomed, and not verified yet
  std::vector<std::uint32_t> batch_;  // scratch of free_doomed()
  Family family_;                     // scratch of report_bad()
};

}  // namespace larder::store
