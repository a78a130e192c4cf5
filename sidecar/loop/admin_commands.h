// AdminCommands: the admin verbs of larderctl and HTTP. Each verb waits in the control queue and
// runs on the loop between two turns, in slices.
//
// drop_namespace(), act(), clear() and reconfigure() are thread-safe: the caller waits for the loop
// until its deadline at the latest. go_on() and close() belong to the thread of the loop. All
// arguments of the constructor outlive this object.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"
#include "shim/protocol/messages.h"
#include "sidecar/base/clock.h"
#include "sidecar/loop/control_queue.h"
#include "sidecar/loop/loop_stats.h"
#include "sidecar/session/chunk_verbs.h"
#include "sidecar/session/reuse_tracker.h"
#include "sidecar/store/store.h"
#include "sidecar/tiering/lower_tiers.h"

namespace larder::loop {

class AdminCommands {
 public:
  // `lower_tiers`: null without a lower tier. `wake` wakes the loop, from the thread of a caller.
  AdminCommands(store::Store& store, session::ReuseTracker& reuse_tracker,
                tiering::LowerTiers* lower_tiers, LoopStats& loop_stats, const base::Clock& clock,
                std::function<void()> wake)
      : store_(store),
        reuse_tracker_(reuse_tracker),
        lower_tiers_(lower_tiers),
        loop_stats_(loop_stats),
        clock_(clock),
        control_(std::move(wake)) {}
  AdminCommands(const AdminCommands&) = delete;

  // The contracts of stats::Control and of Sidecar.
  Result<std::uint64_t> drop_namespace(const std::string& id, std::uint32_t deadline_ms);
  Result<protocol::ActCounts> act(protocol::Verb verb, const std::string& id,
                                  const std::vector<protocol::BlockHash>& hashes,
                                  std::uint32_t deadline_ms);
  Result<std::uint64_t> clear(std::uint32_t deadline_ms);
  Status reconfigure(const config::Config& config, const std::string& why,
                     std::uint32_t deadline_ms);

  // Runs one slice of the first waiting verb. False if none waits.
  bool go_on() { return control_.go_on(); }
  // Answers waiting and future verbs with kUnavailable.
  void close() { control_.close(); }

 private:
  // Begins a drop by hand: of the namespace in each layout, and of states and tails beside. The
  // caller leaves the namespaces of all drops at the end. No drops: only lower tiers have the
  // namespace. `below` has the drops that begin in lower tiers at once.
  Result<std::vector<store::Drop>> begin_drop(const std::string& id, tiering::LowerTierDrop& below);
  // The id of the namespace with this line of namespace_kind.h (states, tails) beside that of the
  // handle. Empty if the latter has no whole chunks itself.
  std::optional<protocol::NamespaceId> id_beside(std::uint32_t handle, std::string_view line) const;
  // The open namespaces of that id, most chunks first; empty without an id.
  std::vector<std::uint32_t> open_of(const std::optional<protocol::NamespaceId>& id) const;
  // The work of act() on the states beside, after `tokens` on the hashes. A verb that brings or
  // keeps chunks takes one state alone: the last in the prefix of tokens, with which a hit ends.
  static session::ChunkVerb work_on_states(protocol::Verb verb, std::uint32_t handle,
                                           std::vector<protocol::BlockHash> hashes,
                                           const session::ChunkVerb& tokens);
  void drop_slice(store::Drop& drop, tiering::LowerTierDrop& below);

  store::Store& store_;
  session::ReuseTracker& reuse_tracker_;
  tiering::LowerTiers* const lower_tiers_;
  LoopStats& loop_stats_;
  stats::Stats& stats_ = loop_stats_.counters();
  const base::Clock& clock_;
  ControlQueue control_;
};

}  // namespace larder::loop
