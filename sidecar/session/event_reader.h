// EventReader: reads the events of an engine from its ring into the statistics and the recency of
// the store.
//
// The ring is hostile memory: positions are bounded, a torn event counts as lost, and a forged
// event can only falsify counters. Owned by the thread of the loop.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shim/protocol/session_layout.h"
#include "sidecar/session/reuse_tracker.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/store.h"

namespace larder::session {

class EventReader {
 public:
  // The destination of events. `model`: the row of the session in the statistics; `chunk_tokens`:
  // of the namespace of the session; `namespaces`: the handles that events of the session may name.
  struct To {
    store::Store& store;
    stats::Stats& stats;
    stats::ModelStats& model;
    std::uint32_t chunk_tokens;
    ReuseTracker& demand;
    std::span<const std::uint32_t> namespaces;
  };
  // The treatment of an event that the engine is still writing.
  enum class Unfinished {
    kWaits,    // the event ends the call: messages may follow each other in an instant
    kOneTick,  // the same, but an event that was unfinished at the last such call counts as lost
    kLost,     // the session has ended, and no later call will read the events behind
  };
  // Handles the events since the last call: at most one ring.
  void drain(const protocol::SessionRegion& region, const To& to, Unfinished unfinished);

 private:
  struct Copy;
  static std::optional<Copy> copy_event(const protocol::Event& event, std::uint64_t position);
  void apply(const Copy& event, const To& to);
  void gather(const Copy& event);
  void count_request(const Copy& event, const To& to);

  std::vector<std::uint64_t> asked_;  // hashes of the next request; bounded by kMaxAskedChunks
  std::uint64_t position_ = 0;
  std::uint64_t unfinished_ = ~0ULL;  // the unfinished event at the last call with kOneTick
};

// The row of `model`, added for a new name; the row "other" once kMaxModels - 1 names are known.
stats::ModelStats& model_row(stats::Stats& stats, const std::string& model);

}  // namespace larder::session
