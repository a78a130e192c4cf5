// TierProbes: PROBE, the question how much a FETCH would find, including chunks of other larderd in
// the shared tiers: peers and the backend.
//
// A probe goes through the families from the first on. larderd knows the chunks in memory, in
// promotion and in its own tiers. About all other chunks it asks all shared tiers side by side in
// one round, even about chunks that it believes there: the server may have evicted them. A chunk
// counts for the nearest tier that has it. The replies of all tiers, or the deadline, end the
// probe; a tier without a reply has nothing. A probe with kProbeEach asks about each family by
// itself, from the last one on. Owned by the thread of the loop.
//
// While a shared tier is too slow to rely on, no probe waits for it. One question at a time still
// goes to the tier: only a read of a known chunk can show that the tier is fast again.
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

// A tier that other larderd fill too, as a tier to ask and as a source of reads.
struct SharedTier {
  TierLink* link = nullptr;
  ReadableTier* source = nullptr;
};

class TierProbes {
 public:
  // All arguments outlive this object. `sources`: the sources of `promotions`; those of `shared`
  // are among them. Both nearest first. REQUIRES: one shared tier at least.
  TierProbes(std::span<const SharedTier> shared, std::span<ReadableTier* const> sources,
             const Promoter& promotions, store::Store& store, stats::Stats& stats,
             const base::Clock& clock);

  // kInvalidArgument: a probe with this number runs. REQUIRES: the namespace is open.
  Status probe(store::SessionNumber session, std::uint32_t request, const protocol::Probe& asked,
               std::span<const protocol::BlockHash> hashes);
  void end_session(store::SessionNumber session);

  // Sends the questions for which a tier had no room.
  void tick() { ask_waiting(); }
  // Takes a message of a probe.
  void on_probe(const tiers::Message& message);
  // Runs one slice. True: more slices follow.
  bool go_on();
  // Answers late probes. Called once next_deadline_ns() has passed.
  void miss_deadlines();
  // UINT64_MAX without a probe.
  std::uint64_t next_deadline_ns() const {
    return deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first;
  }

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
  using Bytes =
      std::array<std::uint64_t, store::kMaxTiers>;  // from each source, by the number of the tier
  // The needs of one family: the number of keys to ask about, and the bytes from known places.
  struct Family {
    bool reachable = false;  // as far as this larderd knows
    std::uint32_t keys = 0;
    Bytes bytes{};
  };
  // The question of a probe to one shared tier.
  struct Question {
    enum class State : std::uint8_t { kUnasked, kAsked, kAnswered, kFailed, kLate };
    State state = State::kUnasked;
    tiers::Ticket ticket = 0;
    std::vector<bool> there = {};  // kAnswered: for each key
  };
  struct Probe {
    std::uint32_t handle = 0;
    std::vector<protocol::BlockHash> hashes;
    std::uint64_t begun_ns = 0, deadline_ns = 0;
    bool each = false;
    std::vector<Family> families;  // so far; with `each` in the reverse order of `hashes`
    std::vector<tiers::ChunkKey> keys;
    std::vector<std::uint64_t> key_bytes;  // of the slot of each key
    std::vector<Question> questions;       // one for each shared tier
    protocol::ProbeEnd reason = protocol::ProbeEnd::kAll;
    bool over_bound = false;  // too many probes of the session: no shared tier is asked
    bool gone_through = false;
    bool waits = false;  // is in to_ask_
  };
  using Entry = std::map<ProbeId, Probe>::iterator;

  bool go_through(Probe& probe, std::uint64_t until);
  bool add_family(Probe& probe, const protocol::BlockHash& hash);
  bool add_member(Probe& probe, Family& family, const store::Member& member);
  const ReadableTier* own_place_of(const store::Member& member, const tiers::ChunkKey& chunk) const;
  bool ask(Entry entry);
  Question::State ask_tier(const Entry& entry, std::size_t tier);
  void ask_waiting();
  void leave_out_other_layouts(const Probe& probe, const ReadableTier& tier,
                               std::vector<bool>& there) const;
  void answer_if_complete(Entry entry);
  void answer(Entry entry, protocol::ProbeEnd reason);
  // The nearest shared tier that has the key; null without one.
  const ReadableTier* place_of(const Probe& probe, std::size_t key) const;
  // The bytes of a FETCH of the family from each source; empty if the family is not complete.
  // `first`: the place of the family's keys.
  std::optional<Bytes> bytes_of(const Probe& probe, const Family& family, std::size_t first) const;
  bool any_shared(const Bytes& bytes) const;
  // Each counts the reachable families, and returns the bytes of a FETCH from each source.
  Bytes count_prefix(const Probe& probe, protocol::Probed& probed) const;
  Bytes count_each(const Probe& probe, Answer& answer) const;
  void tell_speed(const Bytes& bytes, protocol::Probed& probed) const;
  void forget(Entry entry);

  struct Shared : SharedTier {
    tiers::Ticket asked_for_nobody = 0;  // the question to a slow tier; 0: none runs
  };
  std::vector<Shared> shared_;  // nearest first; fixed
  std::vector<ReadableTier*> sources_;
  const Promoter& promoter_;
  store::Store& store_;
  stats::Stats& stats_;
  const base::Clock& clock_;
  std::map<ProbeId, Probe> tier_probes_;             // without an answer so far
  std::multimap<std::uint64_t, ProbeId> deadlines_;  // of tier_probes_
  std::deque<ProbeId> to_go_through_;                // some may have ended
  std::deque<ProbeId> to_ask_;                       // wait for room in a tier
  struct Asked {
    ProbeId probe;
    std::size_t tier = 0;  // in shared_
  };
  std::unordered_map<tiers::Ticket, Asked> asked_;
  std::vector<Answer> answers_;
  std::vector<store::Member> members_;  // reused, to save allocations
};

}  // namespace larder::tiering
