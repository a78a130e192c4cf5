// Node: one server with chunks: its connections, its role, and its state of health. Owned by the
// thread of the tier; other nodes and parked commands refer to a node until NodeSet removes it.
#pragma once

#include <cstdint>
#include <memory>

#include "sidecar/tiers/remote/topology/health.h"
#include "sidecar/tiers/remote/topology/links.h"
#include "sidecar/tiers/remote/topology/write_gate.h"

namespace larder::remote {

struct Node {
  Node(const Health& fresh, const WriteGate& open) : health(fresh), gate(open) {}
  std::unique_ptr<Links> links;
  bool serves = false;        // has slots
  bool replica = false;       // used as a replica; as a master the server would be another Node
  bool stands_by = false;     // a replica of a master with slots
  std::uint64_t used_ns = 0;  // the time of the last command, or of the creation
  Health health;              // by its error replies; probed until a good reply
  bool denied = false;        // by an error that a new handshake may end
  bool probing = false;       // a reply is due
  WriteGate gate;             // the refused chunks
  bool asking_room = false;   // a reply is due
  std::uint64_t room_due_ns = 0;
};

}  // namespace larder::remote
