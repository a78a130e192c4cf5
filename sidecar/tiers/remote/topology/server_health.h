// ServerHealth: the health of each server, from its error replies and connections. A full or
// loading node of a Cluster does not affect the other nodes. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/topology/node_set.h"
#include "sidecar/tiers/remote/topology/slot_map.h"

namespace larder::remote {

class ServerHealth {
 public:
  // Faults of the servers, each empty without a fault. `reads`, `writes`: why no server answers, or
  // takes writes. `part`: which servers fail while others work. `chunks`: which chunks are refused,
  // set by Backend.
  struct Troubles {
    std::string reads, writes, part, chunks;
  };

  // All references outlive this object. `doubt`: the known roles may be wrong.
  ServerHealth(const RemoteOptions& options, const base::Clock& clock, NodeSet& nodes,
               const SlotMap& slots, std::function<void()> doubt)
      : options_(options), clock_(clock), nodes_(nodes), slots_(slots), doubt_(std::move(doubt)) {}
  ServerHealth(const ServerHealth&) = delete;
  ServerHealth& operator=(const ServerHealth&) = delete;

  // A good reply ends an error of the lane. The refusal of one chunk says nothing about smaller
  // chunks.
  void answered(Node& node, Lane lane, const Reply& reply, bool chunk);
  // Probes sick servers, each after a pause.
  void maintain(std::uint64_t now_ns);
  std::uint64_t next_ns(
      std::uint64_t now_ns) const;  // the time of the next probe, at least `now_ns`
  // Asks the server now whether it works.
  void probe(Node& node);

  // Why the server of this key refuses commands of the lane now. Ok without a fault, and for a
  // single server: see troubles().
  Status refusal(std::string_view key, Lane lane) const;
  Troubles troubles() const;

 private:
  bool cluster() const { return options_.mode == Mode::kCluster; }
  void note_error(Node& node, const ErrorMeaning& meaning, Lane lane);
  bool awaits_probe(const Node& node) const;
  std::optional<std::string> probe_key_of(const Node& node) const;
  // The fault of a node, or empty. The first connect of a node is no fault.
  std::string trouble_of(const Node& node, Lane lane) const;

  const RemoteOptions& options_;
  const base::Clock& clock_;
  NodeSet& nodes_;
  const SlotMap& slots_;
  const std::function<void()> doubt_;
};

}  // namespace larder::remote
