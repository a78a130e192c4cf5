#include "sidecar/session/chunk_verbs.h"

namespace larder::session {
namespace {

// The counter of requested hashes, and the verb of the store; nullptr: a keep.
struct Doing {
  std::uint64_t stats::Stats::*asked;
  protocol::ActCounts (store::FamilyVerbs::*verb)(std::uint32_t,
                                                  std::span<const protocol::BlockHash>);
};

Doing doing(protocol::Verb verb) {
  switch (verb) {
    case protocol::Verb::kPrefetch:
    case protocol::Verb::kPrefetchLast:
      return {&stats::Stats::asked_to_prefetch, &store::FamilyVerbs::prefetch};
    case protocol::Verb::kPin: return {&stats::Stats::asked_to_pin, &store::FamilyVerbs::pin};
    case protocol::Verb::kUnpin: return {&stats::Stats::asked_to_unpin, &store::FamilyVerbs::unpin};
    case protocol::Verb::kDemote:
      return {&stats::Stats::asked_to_demote, &store::FamilyVerbs::demote};
    case protocol::Verb::kKeep: return {&stats::Stats::asked_to_keep, nullptr};
    case protocol::Verb::kEvict: break;
  }
  return {&stats::Stats::asked_to_evict, &store::FamilyVerbs::evict};
}

}  // namespace

bool ChunkVerb::go_on(store::Store& store, stats::Stats& stats, tiering::Promoter* promotions) {
  const Doing what = doing(verb_);
  // With a lower tier, a prefetch also reads chunks that memory lacks. The other verbs concern
  // memory alone.
  const bool below = what.verb == &store::FamilyVerbs::prefetch && promotions != nullptr;
  const auto act = [&](std::span<const protocol::BlockHash> hashes) {
    if (what.verb == nullptr) return store.families().keep(handle_, hashes, keep_s_);
    return below ? promotions->prefetch(handle_, hashes)
                 : (store.families().*what.verb)(handle_, hashes);
  };
  store.begin_uses();
  // The statistics grow by this slice only: go_on() runs once a turn until the verb is done.
  const std::uint64_t before = counts_.all();
  if (last_alone_)
    go_on_to_last(store, act);
  else
    go_on_from_first(store, act);
  stats.*what.asked += counts_.all() - before;
  return counts_.all() == hashes_.size();
}

template <typename Act>
// One hash at a time: store.effort() counts the work, and one hash may cost far more than another.
void ChunkVerb::go_on_from_first(const store::Store& store, const Act& act) {
  const std::uint64_t until = store.effort() + store::Store::kSliceEffort;
  while (counts_.all() < hashes_.size() && store.effort() < until) {
    counts_ += act(std::span<const protocol::BlockHash>(hashes_).subspan(counts_.all(), 1));
    // A prompt can use chunks only up to the first gap, so the prefix ends at the first absent
    // hash.
    if (counts_.absent == 0) prefix_ = counts_.all();
  }
}

template <typename Act>
// From the end: of the states of a prompt only the last one helps, because a hit ends with a state.
void ChunkVerb::go_on_to_last(const store::Store& store, const Act& act) {
  const std::span<const protocol::BlockHash> hashes(hashes_);
  const std::uint64_t until = store.effort() + store::Store::kSliceEffort;
  while (counts_.all() < hashes.size() && store.effort() < until) {
    const protocol::ActCounts done =
        act(hashes.subspan(hashes.size() - 1 - counts_.all(), 1));  // mutation: last-alone-right
    counts_ += done;
    if (done.absent == 0) counts_.absent += hashes.size() - counts_.all();  // mutation: last-alone
  }
}

}  // namespace larder::session
