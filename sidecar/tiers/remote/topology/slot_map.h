// SlotMap: the master and the replica of each slot of a Cluster. A slot without a known node has
// nullptr. Owned by the thread of the tier; the nodes belong to NodeSet, which removes only nodes
// without slots.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "sidecar/tiers/remote/topology/node.h"
#include "sidecar/tiers/remote/topology/slots.h"

namespace larder::remote {

class SlotMap {
 public:
  using Slots = std::array<Node*, kSlots>;

  SlotMap() = default;
  SlotMap(const SlotMap&) = delete;
  SlotMap& operator=(const SlotMap&) = delete;

  Node* master(std::uint16_t slot) const { return slots_[slot]; }
  Node* replica(std::uint16_t slot) const { return replicas_[slot]; }
  // Whether commands for keys of the slot go to the node, in its role.
  bool leads_to(const Node& node, std::uint16_t slot) const {
    return (node.replica ? replicas_ : slots_)[slot] == &node;
  }

  // Both return whether the masters changed.
  bool move(std::uint16_t slot, Node* master) {
    return std::exchange(slots_[slot], master) != master;
  }
  bool replace(const Slots& masters) { return std::exchange(slots_, masters) != masters; }

  void clear_replicas() { replicas_ = {}; }
  void add_replica(const SlotRange& range, Node* replica) {
    for (std::size_t slot = range.first; slot <= range.last; ++slot) replicas_[slot] = replica;
  }

 private:
  Slots slots_{}, replicas_{};
};

}  // namespace larder::remote
