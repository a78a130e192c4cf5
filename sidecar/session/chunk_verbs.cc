#include "sidecar/session/chunk_verbs.h"

namespace larder::session {
namespace {

// The counter of requested hashes, and the verb of the store.
struct Doing {
  std::uint64_t stats::Stats::*asked;
  protocol::ActCounts (store::FamilyVerbs::*verb)(std::uint32_t, std::span<const protocol::BlockHash>);
};

Doing doing(protocol::Verb verb) {
  switch (verb) {
    case protocol::Verb::kPrefetch: return {&stats::Stats::asked_to_prefetch, &store::FamilyVerbs::prefetch};
    case protocol::Verb::kPin: return {&stats::Stats::asked_to_pin, &store::FamilyVerbs::pin};
    case protocol::Verb::kUnpin: return {&stats::Stats::asked_to_unpin, &store::FamilyVerbs::unpin};
    case protocol::Verb::kEvict: break;
  }
  return {&stats::Stats::asked_to_evict, &store::FamilyVerbs::evict};
}

}  // namespace

bool ChunkVerb::go_on(store::Store& store, stats::Stats& stats, tiering::Promoter* promotions) {
  const Doing what = doing(verb_);
  const std::span<const protocol::BlockHash> left = std::span(hashes_).subspan(counts_.all());
  const bool below = verb_ == protocol::Verb::kPrefetch && promotions != nullptr;
  const protocol::ActCounts more = below ? promotions->prefetch(handle_, left) : (store.families().*what.verb)(handle_, left);
  stats.*what.asked += more.all();
  counts_ += more;
  return counts_.all() == hashes_.size();
}

}  // namespace larder::session
