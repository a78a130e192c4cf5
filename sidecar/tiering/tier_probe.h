// TierProbes: PROBE, the question how much a FETCH would find, including chunks that other larderd
// put into the backend.
//
// A probe goes through the families from the first on. larderd knows the chunks in memory, in
// promotion and in nearer tiers. About all other chunks it asks the backend in one round, even
// about chunks that it believes there: the server may have evicted them. The reply of the backend,
// or the deadline, ends the probe; without a reply memory and the nearer tiers count. A probe with
// kProbeEach asks about each family by itself, from the last one on. Owned by the thread of the
// loop.
//
// While the backend is too slow to rely on, no probe waits for it. One question at a time still
// goes to the backend: only a read of a known chunk can show that the backend is fast again.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
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
  // All arguments outlive this object. `sources`: the sources of `promotions`; `shared`, the
  // backend, is one of them.
  TierProbes(TierLink& backend, ReadableTier& shared, std::span<ReadableTier* const> sources, const Promoter& promotions,
             store::Store& store, stats::Stats& stats, const base::Clock& clock);

  // kInvalidArgument: a probe with this number runs. REQUIRES: the namespace is open.
  Status probe(store::SessionNumber session, std::uint32_t request, const protocol::Probe& asked,
               std::span<const protocol::BlockHash> hashes);
  void end_session(store::SessionNumber session);

  // Sends the questions for which the backend had no room.
  void tick() { ask_waiting(); }
  // Takes a message of a probe.
  void on_probe(const tiers::Message& message);
  // Runs one slice. True: more slices follow.
  bool go_on();
  // Answers late probes. Called once next_deadline_ns() has passed.
  void miss_deadlines();
  // UINT64_MAX without a probe.
  std::uint64_t next_deadline_ns() const { return deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first; }

  struct Answer {
    store::SessionNumber session;
    std::uint32_t request;
    protocol::Probed probed;
    std::optional<protocol::ProbedEach> each;  // of a probe with kProbeEach
  };
  // The answers since the last call.
  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }

 private:
  using ProbeId = std::pair<store::SessionNumber, std::uint32_t>;
  static constexpr std::size_t kMaxSources = store::kMaxTiers;
  // The needs of one family: the number of keys to ask the backend about, and the bytes from each
  // source.
  struct Family {
    bool reachable = false;  // as far as this larderd knows
    std::uint32_t keys = 0;
    std::array<std::uint64_t, kMaxSources> bytes{};
  };
  struct Probe {
    std::uint32_t handle = 0;
    std::vector<protocol::BlockHash> hashes;
    std::uint64_t begun_ns = 0, deadline_ns = 0;
    bool each = false;
    std::vector<Family> families;  // so far; with `each` in the reverse order of `hashes`
    std::vector<tiers::ChunkKey> keys;
    protocol::ProbeEnd reason = protocol::ProbeEnd::kAll;
    bool over_bound = false;  // too many probes of the session: the backend is not asked
    bool slow = false;        // the backend is too slow to wait for
    bool gone_through = false;
    bool waits = false;        // is in to_ask_
    tiers::Ticket ticket = 0;  // 0: the backend was not asked
  };
  using Entry = std::map<ProbeId, Probe>::iterator;

  bool go_through(Probe& probe, std::uint64_t until);
  bool add_family(Probe& probe, const protocol::BlockHash& hash);
  bool add_member(Probe& probe, Family& family, const store::Member& member);
  bool ask(Entry entry);
  void ask_waiting();
  void answer(Entry entry, protocol::ProbeEnd reason, const std::vector<bool>* there);
  static bool is_there(const Family& family, const std::vector<bool>* there, std::size_t first);
  // Each counts the reachable families, and returns the bytes of a FETCH from each source.
  std::array<std::uint64_t, kMaxSources> count_prefix(const Probe& probe, const std::vector<bool>* there,
                                                      protocol::Probed& probed) const;
  std::array<std::uint64_t, kMaxSources> count_each(const Probe& probe, const std::vector<bool>* there, Answer& answer) const;
  void tell_speed(const std::array<std::uint64_t, kMaxSources>& bytes, protocol::Probed& probed) const;
  void forget(Entry entry);

  TierLink& backend_;
  ReadableTier& shared_;
  std::vector<ReadableTier*> sources_;
  const Promoter& promoter_;
  store::Store& store_;
  stats::Stats& stats_;
  const base::Clock& clock_;
  std::map<ProbeId, Probe> tier_probes_;             // without an answer so far
  std::multimap<std::uint64_t, ProbeId> deadlines_;  // of tier_probes_
  std::deque<ProbeId> to_go_through_;                // some may have ended
  std::deque<ProbeId> to_ask_;                       // wait for room in the backend
  std::unordered_map<tiers::Ticket, ProbeId> asked_;
  tiers::Ticket asked_for_nobody_ = 0;  // the question to a slow backend; 0: none runs
  std::vector<Answer> answers_;
  std::vector<store::Member> members_;  // reused, to save allocations
};

}  // namespace larder::tiering
