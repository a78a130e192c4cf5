// SimLarderd: one life of larderd in the simulation: the real Store, TierWriter, Promoter,
// TierProbes, TierLink and DiskTier, called in the order of larderd's loop. Function calls stand
// for sockets, lock files and heartbeats.
//
// Destruction without close() is a kill. Owned by one thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shim/protocol/residency_layout.h"
#include "sidecar/tiering/promoter.h"
#include "sidecar/tiering/tier_probe.h"
#include "sidecar/tiering/tier_writer.h"
#include "tests/sim/sim_backend.h"
#include "tests/sim/sim_namespaces.h"
#include "tests/sim/watched_tier.h"

namespace larder::sim {

class SimLarderd {
 public:
  SimLarderd(Machine& machine, Model& model) : machine_(machine), model_(model) {}
  ~SimLarderd();
  // Opens the disk, then continues from the newest index, if there is one. `alive`: sessions whose
  // process lives. Error: no start.
  Status start(const std::set<SessionNumber>& alive);

  // ---- Requests of engines and tools ---- The engine of these earlier sessions attaches again,
  // and still writes the listed grants. Removes sessions that have ended from `earlier`.
  SessionNumber attach(std::shared_ptr<Region> region, std::set<SessionNumber>& earlier,
                       std::span<const protocol::SlotRef> still_written);
  void end_session(SessionNumber session);                      // the process lives
  void process_ended(const std::set<SessionNumber>& sessions);  // of one engine
  // kNoNamespace: all places are taken.
  std::uint32_t open_namespace(SessionNumber session, std::uint64_t space);
  void close_namespace(SessionNumber session, std::uint32_t handle, bool drop);
  // A request under a handle that the session has closed has no effect, and every grant is refused.
  protocol::Grant reserve(SessionNumber session, std::uint32_t handle, std::uint64_t number);
  void commit(SessionNumber session, std::uint64_t number, const protocol::CommitRecord& record);
  void bad(std::uint64_t number, const protocol::SlotRef& slot);
  // kSpaces: all namespaces. False: memory does not know the namespace.
  bool drop(std::uint64_t space);
  // For `families` families, from the chunk's family on.
  void fetch(SessionNumber session, std::uint32_t request, std::uint32_t handle,
             std::uint64_t number, std::uint64_t families, std::uint32_t deadline_ms);
  void end_fetch(SessionNumber session, std::uint32_t request) { promoter_->end(session, request); }
  // REQUIRES: there is a backend.
  void probe(SessionNumber session, std::uint32_t request, std::uint32_t handle,
             std::uint64_t number, std::uint64_t families, std::uint32_t deadline_ms);
  void act(protocol::Verb verb, std::uint64_t number, std::uint64_t families);
  void flush() {
    static_cast<void>(
        link_->tier().flush(link_->next_ticket(), machine_.clock.now_ns() + 1'000'000'000));
  }

  // ---- Steps of the loop ----
  void turn();
  void tick();
  using Answer = tiering::Promoter::Answer;
  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }
  using ProbeAnswer = tiering::TierProbes::Answer;
  std::vector<ProbeAnswer> take_probe_answers() {
    return tier_probes_ ? tier_probes_->take_answers() : std::vector<ProbeAnswer>();
  }
  // Stops in good order. False: the device did not answer in time.
  bool close();

  // ---- State ----
  store::Store& memory() { return *store_; }
  const std::shared_ptr<Index>& index() const { return index_; }
  const WatchedTier& disk() const { return *tier_; }
  const SimBackend* backend() const { return backend_; }  // nullptr: there is none
  bool in_recovery_grace() const { return store_->in_recovery_grace(); }
  bool idle() const;
  bool below(std::uint64_t number) const {
    return on_disk(number) || (backend_ != nullptr && backend_->probe(key_of(number)));
  }
  bool on_disk(std::uint64_t number) const { return tier_->probe(key_of(number)).has_value(); }
  bool announced_below(std::uint64_t number) const;
  // How often a chunk was dropped, evicted by name or found bad. A kept chunk is there while this
  // number does not change.
  std::uint64_t removals(std::uint64_t number) const { return removals_[number]; }
  SimNamespaces& namespaces() { return *namespaces_; }
  void fill(stats::Stats& stats) const;

 private:
  std::vector<protocol::BlockHash> hashes(std::uint64_t number, std::uint64_t families) const;
  Status open_disk();
  void open_backend();
  void came_up(const tiers::Message& message);
  void look_for_condemned();

  Machine& machine_;
  Model& model_;
  stats::Stats stats_;
  std::shared_ptr<Index> earlier_, index_;
  std::map<SessionNumber, std::shared_ptr<Region>> regions_;
  std::shared_ptr<tiering::ResidencyFilter> below_;
  std::unique_ptr<tiering::TierLink> link_;
  WatchedTier* tier_ = nullptr;  // owned by link_
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<SimNamespaces> namespaces_;
  std::unique_ptr<tiering::TierWriter> tier_writer_;
  std::unique_ptr<tiering::ReadableTier> source_;
  SimBackend* backend_ = nullptr;  // owned by backend_link_
  std::unique_ptr<tiering::TierLink> backend_link_;
  std::shared_ptr<tiering::ResidencyFilter> backend_region_;
  std::unique_ptr<tiering::TierWriter> backend_write_down_;
  std::unique_ptr<tiering::ReadableTier> backend_source_;
  std::unique_ptr<tiering::Promoter> promoter_;
  std::unique_ptr<tiering::TierProbes> tier_probes_;
  std::vector<Answer> answers_;
  std::uint64_t ticked_ms_ = 0, grace_ends_ns_ = 0;
  std::set<SessionNumber> awaited_;
  std::uint64_t removals_[kNumbers] = {};
  // Number and generation of bad chunks, which must not be on the disk. Cleared when the tier has
  // failed, since the tier may then keep bad chunks.
  std::set<std::pair<std::uint64_t, std::uint64_t>> condemned_;
  std::uint64_t times_degraded_ = 0;
};

}  // namespace larder::sim
