// EventReader: takes an engine's events out of its ring and into the statistics and the store's recency.
//
// The ring is hostile memory: positions are bounded, a torn event counts as lost, and what an event says can falsify only
// counters. Owned by the loop's thread.
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
  // Where what is read goes. `model` is the session's row of the statistics,
  // `chunk_tokens` those of its namespace, `namespaces` the handles that it may speak of.
  struct To {
    store::Store& store;
    stats::Stats& stats;
    stats::ModelStats& model;
    std::uint32_t chunk_tokens;
    ReuseTracker& demand;
    std::span<const std::uint32_t> namespaces;
  };
  // Handles what was written since the last call: at most one ring's worth.
  void drain(const protocol::SessionRegion& region, const To& to);

 private:
  struct Copy;
  static std::optional<Copy> copy_event(const protocol::Event& event, std::uint64_t position);
  void apply(const Copy& event, const To& to);
  void gather(const Copy& event);
  void count_request(const Copy& event, const To& to);

  std::vector<std::uint64_t> asked_;  // hashes of the request that is told next; bounded by kMaxAskedChunks
  std::uint64_t position_ = 0;
  std::uint64_t unfinished_ = ~0ULL;  // the position that was being written at the last call
};

// The row of `model`, made if it is new; the row "other" once kMaxModels - 1 names are known.
stats::ModelStats& model_row(stats::Stats& stats, const std::string& model);

}  // namespace larder::session
