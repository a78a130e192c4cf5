// Promoter: what engines ask to have in memory before they load it, out of the tiers below. FETCH, and the prefetch of ACT.
//
// A fetch is looked at family by family, from the first on: what is in memory is kept, what is below is read, and where neither is
// there it ends. It is answered once its prefix is decided, by its deadline at the latest, and what it answered for is kept until its
// engine ends it, or is gone, or has forgotten it. All bounds are of limits.h and chunk_reads.h. Owned by the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sidecar/store/store.h"
#include "sidecar/tiering/promotion_reads.h"
#include "sidecar/tiering/readable_tier.h"
#include "sidecar/tiers/tier.h"

namespace larder::tiering {

class Promoter {
 public:
  // All of them outlive it. `sources`: nearest first. `arena`: the store's.
  Promoter(std::span<ReadableTier* const> sources, store::Store& store, stats::Stats& stats, const base::Clock& clock,
           std::span<std::byte> arena);

  // kInvalidArgument: a fetch of this number runs. REQUIRES: the namespace is open.
  Status fetch(store::SessionNumber session, std::uint32_t request, const protocol::Fetch& asked,
               std::span<const protocol::BlockHash> hashes);
  void end(store::SessionNumber session, std::uint32_t request);
  void end_session(store::SessionNumber session);
  // A slice: of how many hashes, from the first on, all is in memory or on its way.
  protocol::ActCounts prefetch(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);

  // One slice of what there is to look at and to begin. True: there is more.
  bool go_on();
  // A message of a get, of whichever source. False: it is of none of these.
  bool on_get(const tiers::Message& message);
  // Answers what is late. Called once next_deadline_ns() has come.
  void miss_deadlines();
  // Ages and probes. `slept`: nobody was watching for a while.
  void tick(bool slept);
  // UINT64_MAX: there is none.
  std::uint64_t next_deadline_ns() const { return deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first; }

  struct Answer {
    store::SessionNumber session;
    std::uint32_t request;
    protocol::Fetched fetched;
  };
  // What is to be sent since the last call.
  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }

  // Why chunks of a namespace are never brought up, and what to set; empty: every fetch may have its first family.
  const std::string& too_large() const { return too_large_; }

  // Where a chunk comes up from; nullptr: it is not on its way.
  const ReadableTier* coming(const protocol::Key& key) const { return reads_.coming(key); }

 private:
  using FetchId = std::pair<store::SessionNumber, std::uint32_t>;
  struct Family {
    std::uint32_t missing = 0;
    std::uint64_t bytes = 0;  // of slots, counted in kept_bytes_
    std::vector<protocol::SlotRef> kept;
    std::vector<tiers::Ticket> reads;
  };
  struct Fetch {
    std::uint32_t handle = 0;
    std::vector<protocol::BlockHash> hashes;
    std::uint64_t begun_ns = 0, deadline_ns = 0, answered_ms = 0;
    std::vector<Family> families;  // looked at so far, below `limit`
    std::uint32_t limit = 0;       // no more of them than this will come
    std::uint32_t whole = 0;
    std::uint32_t reading = 0;
    std::uint64_t read_bytes = 0;
    protocol::FetchEnd reason = protocol::FetchEnd::kAll;
    bool answered = false, looking = false;
  };
  struct Waiter {
    FetchId fetch;
    std::uint32_t family;
  };
  // What a look at one family found.
  struct Probe {
    bool there = false;  // in memory, on its way, or below
    std::uint64_t bytes = 0;
  };

  bool may_keep(store::SessionNumber session, std::uint64_t bytes) const;
  void look_at_sizes();
  void look_on(const FetchId& id, Fetch& fetch);
  bool probe(const FetchId& id, Fetch& fetch);
  Probe look_at(std::uint32_t handle, const protocol::BlockHash& hash);
  void take_outcomes();
  void give(const PromotionReads::Outcome& outcome, const Waiter& waiter);
  void cut(const FetchId& id, Fetch& fetch, std::uint32_t limit, protocol::FetchEnd reason);
  void release(const FetchId& id, Fetch& fetch, std::uint32_t family);
  void decide(const FetchId& id, Fetch& fetch);
  void answer(const FetchId& id, Fetch& fetch);
  void forget(std::map<FetchId, Fetch>::iterator fetch);

  std::vector<ReadableTier*> sources_;
  store::Store& store_;
  stats::Stats& stats_;
  const base::Clock& clock_;
  std::uint64_t kept_cap_;
  PromotionReads reads_;
  std::map<FetchId, Fetch> fetches_;
  std::multimap<std::uint64_t, FetchId> deadlines_;  // of those that are not answered
  std::deque<FetchId> looking_;                      // with families to look at; some are over
  std::unordered_map<tiers::Ticket, std::vector<Waiter>> waiters_;
  std::vector<Answer> answers_;
  std::uint64_t kept_bytes_ = 0;
  std::string too_large_;
  std::unordered_map<store::SessionNumber, std::uint64_t> kept_of_;  // of that, by session; none: nothing
  // Kept, so that a look allocates nothing.
  std::vector<store::Store::Member> members_;
  std::vector<std::optional<Found>> found_;  // of those that are not in memory
};

}  // namespace larder::tiering
