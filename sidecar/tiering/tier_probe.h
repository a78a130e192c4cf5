// TierProbes: PROBE, which asks how much a FETCH would find, also of what others have put into the backend that larderds share.
//
// A look goes through the families, from the first on: what is in memory, on its way or in a nearer tier is known; about all else the
// backend is asked at once, also where it is believed to be there, for the server may have evicted it. What it answers, or that it
// does not in time, is the end of the look; without it what memory and the nearer tiers have counts. Owned by the loop's thread.
//
// While the backend is too slow to be relied on, nobody waits for it, and one question at a time goes there all the same: larderd must know
// of a chunk to read if it is to find out that the backend is fast again.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sidecar/store/store.h"
#include "sidecar/tiering/promoter.h"
#include "sidecar/tiering/readable_tier.h"
#include "sidecar/tiering/tier_link.h"

namespace larder::tiering {

class TierProbes {
 public:
  // All of them outlive it. `sources`: those of `promotions`, of which `shared`, the backend's, is one.
  TierProbes(TierLink& backend, ReadableTier& shared, std::span<ReadableTier* const> sources, const Promoter& promotions,
             store::Store& store, stats::Stats& stats, const base::Clock& clock);

  // kInvalidArgument: a look of this number runs. REQUIRES: the namespace is open.
  Status probe(store::SessionNumber session, std::uint32_t request, const protocol::Probe& asked,
               std::span<const protocol::BlockHash> hashes);
  void end_session(store::SessionNumber session);

  // Asks again for what the backend had no room for.
  void tick() { ask_waiting(); }
  // A message of a look.
  void on_probe(const tiers::Message& message);
  // One slice of what there is to go through. True: there is more.
  bool go_on();
  // Answers what is late. Called once next_deadline_ns() has come.
  void miss_deadlines();
  // UINT64_MAX: there is none.
  std::uint64_t next_deadline_ns() const { return deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first; }

  struct Answer {
    store::SessionNumber session;
    std::uint32_t request;
    protocol::Probed probed;
  };
  // What is to be sent since the last call.
  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }

 private:
  using ProbeId = std::pair<store::SessionNumber, std::uint32_t>;
  static constexpr std::size_t kMaxSources = store::kMaxTiers;
  // What one family needs: keys that the backend is asked about, and bytes out of each source, the backend's if they are there.
  struct Family {
    std::uint32_t keys = 0;
    std::array<std::uint64_t, kMaxSources> bytes{};
  };
  struct Probe {
    std::uint32_t handle = 0;
    std::vector<protocol::BlockHash> hashes;
    std::uint64_t begun_ns = 0, deadline_ns = 0;
    std::vector<Family> families;  // gone through so far
    std::vector<tiers::ChunkKey> keys;
    protocol::ProbeEnd reason = protocol::ProbeEnd::kAll;
    bool over_bound = false;  // too many of its session: the backend is not asked
    bool slow = false;        // it is, and nobody relies on it now
    bool gone_through = false;
    bool waits = false;        // in to_ask_
    tiers::Ticket ticket = 0;  // 0: the backend was not asked
  };
  using Entry = std::map<ProbeId, Probe>::iterator;

  bool go_through(Probe& probe, std::uint64_t until);
  bool add_family(Probe& probe, const protocol::BlockHash& hash);
  bool add_member(Probe& probe, Family& family, const store::Store::Member& member);
  bool ask(Entry entry);
  void ask_waiting();
  void answer(Entry entry, protocol::ProbeEnd reason, const std::vector<bool>* there);
  void tell_speed(const std::array<std::uint64_t, kMaxSources>& bytes, protocol::Probed& probed) const;
  void forget(Entry entry);

  TierLink& backend_;
  ReadableTier& shared_;
  std::vector<ReadableTier*> sources_;
  const Promoter& promoter_;
  store::Store& store_;
  stats::Stats& stats_;
  const base::Clock& clock_;
  std::map<ProbeId, Probe> tier_probes_;             // that are not answered
  std::multimap<std::uint64_t, ProbeId> deadlines_;  // of these
  std::deque<ProbeId> to_go_through_;                // some are over
  std::deque<ProbeId> to_ask_;                       // once the backend takes another one
  std::unordered_map<tiers::Ticket, ProbeId> asked_;
  tiers::Ticket asked_for_nobody_ = 0;  // 0: there is none
  std::vector<Answer> answers_;
  std::vector<store::Store::Member> members_;  // kept, so that a look allocates less
};

}  // namespace larder::tiering
