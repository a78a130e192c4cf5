// Prefetch, pin, unpin and evict, as engines and people ask for them. Owned by the loop's thread.
#pragma once

#include <vector>

#include "shim/protocol/messages.h"
#include "sidecar/store/store.h"
#include "sidecar/tiering/promoter.h"

namespace larder::session {

// One verb on the chunks of many hashes, done a slice at a time, so that the loop answers others meanwhile.
class ChunkVerb {
 public:
  // Once the handle is none all are absent. REQUIRES: a verb that there is.
  ChunkVerb(protocol::Verb verb, std::uint32_t handle, std::vector<protocol::BlockHash> hashes)
      : verb_(verb), handle_(handle), hashes_(std::move(hashes)) {}

  // One slice. True: all is done. `promotions`: nullptr where there is no tier.
  bool go_on(store::Store& store, stats::Stats& stats, tiering::Promoter* promotions);
  // Of what is done.
  const protocol::ActCounts& counts() const { return counts_; }
  std::size_t asked() const { return hashes_.size(); }
  std::uint32_t handle() const { return handle_; }

 private:
  protocol::Verb verb_;
  std::uint32_t handle_;
  std::vector<protocol::BlockHash> hashes_;
  protocol::ActCounts counts_;
};

}  // namespace larder::session
