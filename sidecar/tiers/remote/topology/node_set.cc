#include "sidecar/tiers/remote/topology/node_set.h"

#include <algorithm>

namespace larder::remote {

NodeSet::NodeSet(const RemoteOptions& options, const base::Clock& clock, Poller& poller,
                 Listener listener)
    : options_(options),
      clock_(clock),
      poller_(poller),
      listener_(std::move(listener)),
      gate_seed_(clock.now_ns()) {}

Node& NodeSet::add(Kind kind, const Endpoint& endpoint) {
  const WriteGate::Pauses pauses{options_.refused_ms, options_.most_refused_ms,
                                 options_.trial_bytes_per_s};
  // Different seeds, so the trials of several servers do not
  // fall together.
  auto node = std::make_unique<Node>(Health(options_.retry_ms, options_.most_retry_ms),
                                     WriteGate(pauses, gate_seed_++));
  Node* const one = node.get();
  const auto ready = [this, one] {
    // The new handshake succeeded, so user and password fit now.
    one->denied = false;
    listener_.ready();
  };
  const auto heard = [this, one](Lane lane, const Reply& reply, bool chunk) {
    listener_.answered(*one, lane, reply, chunk);
  };
  // A restart of a replica loses no chunk: the master sends its data again.
  const auto other_life = [this, one, pauses, kind] {
    // A restarted server may have another limit of memory.
    one->gate = WriteGate(pauses, gate_seed_++);
    if (kind != Kind::kReplica) listener_.other_life();
  };
  node->links = std::make_unique<Links>(options_, clock_, poller_, kind, endpoint,
                                        Links::Listener{ready, other_life, heard});
  node->replica = kind == Kind::kReplica;
  node->used_ns = clock_.now_ns();
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

Node* NodeSet::at(const Endpoint& endpoint, Kind kind) {
  for (const std::unique_ptr<Node>& node : nodes_)
    if (node->replica == (kind == Kind::kReplica) && node->links->endpoint() == endpoint)
      return node.get();
  // Redirections come from the network: without a bound a hostile node could make larderd connect
  // everywhere.
  return nodes_.size() < kMost ? &add(kind, endpoint) : nullptr;
}

void NodeSet::remove(std::size_t number, const Status& why) {
  Node* const node = nodes_[number].get();
  // The callbacks may send commands to other nodes, and so add nodes. The pointer then finds the
  // node again.
  node->links->restart(why);
  past_sent_bytes_ += node->links->sent_bytes();
  past_received_bytes_ += node->links->received_bytes();
  std::erase_if(nodes_, [node](const std::unique_ptr<Node>& one) { return one.get() == node; });
}

bool NodeSet::ready() const {
  return std::ranges::any_of(nodes_, [this](const std::unique_ptr<Node>& node) {
    return counts(*node) && node->links->ready();
  });
}

void NodeSet::turn() {
  // Indexes and not iterators: a redirection in a callback may add a node.
  for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i]->links->turn();
}

void NodeSet::flush() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i]->links->flush();
}

std::uint64_t NodeSet::next_turn_ns() const {
  std::uint64_t wait = UINT64_MAX;
  for (const std::unique_ptr<Node>& node : nodes_)
    wait = std::min(wait, node->links->next_turn_ns());
  return wait;
}

void NodeSet::cancel(std::uint64_t owner) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i]->links->cancel(owner);
}

void NodeSet::restart(const Status& why) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i]->links->restart(why);
}

std::uint64_t NodeSet::sent_bytes() const {
  std::uint64_t bytes = past_sent_bytes_;
  for (const std::unique_ptr<Node>& node : nodes_) bytes += node->links->sent_bytes();
  return bytes;
}

std::uint64_t NodeSet::received_bytes() const {
  std::uint64_t bytes = past_received_bytes_;
  for (const std::unique_ptr<Node>& node : nodes_) bytes += node->links->received_bytes();
  return bytes;
}

}  // namespace larder::remote
