// Promoter: promotes chunks from lower tiers into memory before engines load them, for FETCH and
// for the prefetch of ACT.
//
// A fetch goes through its families from the first on. A chunk in memory is kept, a chunk in a
// lower tier is read, and a missing chunk ends the fetch. The answer follows once the prefix is
// decided, by the deadline at the latest. The answered chunks are kept until the engine ends the
// fetch, its session ends, or protocol::kMaxHoldAgeMs (one minute) has passed. All bounds are in
// shim/protocol/limits.h and promotion_reads.h. Owned by the thread of the loop.
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
  // All arguments outlive this object. `sources`: nearest first. `arena`: the arena of the store.
  Promoter(std::span<ReadableTier* const> sources, store::Store& store, stats::Stats& stats,
           const base::Clock& clock, std::span<std::byte> arena);

  // kInvalidArgument: a fetch with this number runs. REQUIRES: the namespace is open.
  Status fetch(store::SessionNumber session, std::uint32_t request, const protocol::Fetch& asked,
               std::span<const protocol::BlockHash> hashes);
  void end(store::SessionNumber session, std::uint32_t request);
  void end_session(store::SessionNumber session);
  // Runs one slice: counts the first hashes of the list by whether all chunks are in memory or in
  // promotion.
  protocol::ActCounts prefetch(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);

  // Runs one slice of looks and reads. True: more slices follow.
  bool go_on();
  // Takes a message of a get of any source. False: the message belongs to no read of this object.
  bool on_get(const tiers::Message& message);
  // Answers late fetches. Called once next_deadline_ns() has passed.
  void miss_deadlines();
  // Ends old fetches and starts probe reads. `slept`: larderd was stopped for a while.
  void tick(bool slept);
  // UINT64_MAX without an open fetch.
  std::uint64_t next_deadline_ns() const {
    return deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first;
  }

  struct Answer {
    store::SessionNumber session;
    std::uint32_t request;
    protocol::Fetched fetched;
  };
  // The answers since the last call.
  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }

  // Why chunks of a namespace are never promoted, and the remedy. Empty: every fetch has room for
  // its first family.
  const std::string& too_large() const { return too_large_; }

  // The source of a running promotion; nullptr without one.
  const ReadableTier* coming(const protocol::Key& key) const { return reads_.coming(key); }

 private:
  using FetchId = std::pair<store::SessionNumber, std::uint32_t>;
  struct Family {
    std::uint32_t missing = 0;
    std::uint64_t bytes = 0;  // of slots; part of kept_bytes_
    std::vector<protocol::SlotRef> kept;
    std::vector<tiers::Ticket> reads;
  };
  struct Fetch {
    std::uint32_t handle = 0;
    std::vector<protocol::BlockHash> hashes;
    std::uint64_t begun_ns = 0, deadline_ns = 0, answered_ms = 0;
    std::vector<Family> families;  // so far, fewer than `limit`
    std::uint32_t limit = 0;       // the largest possible number of families
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
  // The result of a look at one family.
  struct Probe {
    bool there = false;  // in memory, in promotion, or in a lower tier
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
  std::multimap<std::uint64_t, FetchId> deadlines_;  // of fetches without an answer
  std::deque<FetchId> looking_;  // fetches with families to look at; some may have ended
  std::unordered_map<tiers::Ticket, std::vector<Waiter>> waiters_;
  std::vector<Answer> answers_;
  std::uint64_t kept_bytes_ = 0;
  std::string too_large_;
  // By session: its part of kept_bytes_.
  std::unordered_map<store::SessionNumber, std::uint64_t> kept_of_;
  // Reused, so that a look allocates no memory.
  std::vector<store::Member> members_;
  std::vector<std::optional<Found>> found_;  // of the members that are not in memory
};

}  // namespace larder::tiering
