// ClusterRouting: routing in a Cluster: the node of a command, redirections, and the map of slots.
// Owned by the thread of the tier. Callbacks of commands come from NodeSet, maintain() and
// restart(), never from ask().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/topology/node_set.h"
#include "sidecar/tiers/remote/topology/slot_map.h"

namespace larder::remote {

class ClusterRouting {
 public:
  // Redirections of one command, then the command fails.
  static constexpr std::uint32_t kMostHops = 5;

  // All references outlive this object. `other_life`: a replica took over,
  // and may lack known chunks.
  ClusterRouting(const RemoteOptions& options, const base::Clock& clock, NodeSet& nodes,
                 SlotMap& slots, std::function<void()> other_life);
  ClusterRouting(const ClusterRouting&) = delete;
  ClusterRouting& operator=(const ClusterRouting&) = delete;

  // As in Backend.
  Status ask(Lane lane, std::string_view key, Request request);
  // Asks for the map, sends commands that waited, and removes unused nodes. REQUIRES: not within a
  // callback.
  void maintain(std::uint64_t now_ns);
  // A sign that the map is wrong: asks for the map again soon.
  void doubt();
  std::uint64_t next_ns(std::uint64_t now_ns) const;  // the time of the next maintain()

  void cancel(std::uint64_t owner);  // drops waiting commands of this owner
  void restart(const Status& why);   // answers waiting commands

  bool map_known() const { return map_known_; }
  const Status& map_failure() const {
    return map_failure_;
  }  // why no map is known; ok: none was asked for

 private:
  // A command to a node of a Cluster, kept until its reply: a redirection sends the command to
  // another node.
  struct Routed {
    Lane lane = Lane::kReads;
    std::uint16_t slot = 0;
    std::uint32_t hops = 0;
    Request request;
    Node* node = nullptr;  // the last node; not removed before its reply
  };
  using RoutedPtr = std::shared_ptr<Routed>;
  // Bounded by the accepted operations.
  struct Parked {
    RoutedPtr routed;
    bool asking = false;
    std::uint64_t from_ns = 0, until_ns = 0;
  };

  Status send(const RoutedPtr& routed, Node& node, bool asking);
  void came(const RoutedPtr& routed, const Status& lost, Reply reply);
  bool redirected(const RoutedPtr& routed, const std::string& error);
  void park(const RoutedPtr& routed, bool asking, std::uint64_t from_ns);
  void send_parked(std::uint64_t now_ns);
  void ask_map(std::uint64_t now_ns);
  void map_came(const std::string& asked, const Status& lost, const Reply& reply);
  void adopt(const std::vector<SlotRange>& map);
  void adopt_replicas(const std::vector<SlotRange>& map);
  void retire_nodes(std::uint64_t now_ns);

  const RemoteOptions& options_;
  const base::Clock& clock_;
  NodeSet& nodes_;
  SlotMap& slots_;
  const std::function<void()> other_life_;

  std::vector<Parked> parked_;
  Status map_failure_;
  bool map_known_ = false, map_asked_ = false;
  std::size_t map_turn_ = 0;  // the last node that was asked for the map
  std::uint64_t map_asked_ns_ = 0, map_due_ns_ = 0, map_wait_ns_;
};

}  // namespace larder::remote
