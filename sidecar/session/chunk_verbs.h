// Prefetch, pin, unpin, evict, demote and keep, for engines (ACT) and admin verbs. Owned by the
// thread of the loop.
#pragma once

#include <vector>

#include "shim/protocol/messages.h"
#include "sidecar/store/store.h"
#include "sidecar/tiering/promoter.h"

namespace larder::session {

// One verb on the chunks of many hashes, done in slices, so that the loop serves other sessions in
// between.
class ChunkVerb {
 public:
  // All chunks count as absent once the handle is not open. `last_alone`, as for kPrefetchLast: the
  // verb is done on the last hash that counts as found or refused, and all others count as absent.
  // `keep_s`: of kKeep. REQUIRES: a known verb.
  ChunkVerb(protocol::Verb verb, std::uint32_t handle, std::vector<protocol::BlockHash> hashes,
            bool last_alone = false, std::uint32_t keep_s = 0)
      : verb_(verb),
        handle_(handle),
        hashes_(std::move(hashes)),
        last_alone_(last_alone || verb == protocol::Verb::kPrefetchLast),
        keep_s_(keep_s) {}

  // Runs one slice. True: all slices are done. `promotions`: nullptr without a lower tier.
  bool go_on(store::Store& store, stats::Stats& stats, tiering::Promoter* promotions);
  // The counts of the slices so far.
  const protocol::ActCounts& counts() const { return counts_; }
  std::size_t asked() const { return hashes_.size(); }
  // The hashes before the first absent one, of the slices so far. 0 for the verbs of the last hash.
  std::size_t prefix() const { return prefix_; }
  std::uint32_t handle() const { return handle_; }

 private:
  // One slice over the hashes from the first one on, and from the last one on.
  template <typename Act>
  void go_on_from_first(const store::Store& store, const Act& act);
  template <typename Act>
  void go_on_to_last(const store::Store& store, const Act& act);

  protocol::Verb verb_;
  std::uint32_t handle_;
  std::vector<protocol::BlockHash> hashes_;
  bool last_alone_;
  std::uint32_t keep_s_;
  protocol::ActCounts counts_;
  std::size_t prefix_ = 0;
};

}  // namespace larder::session
