// NodeSet: the servers with chunks, and what concerns all of them: bytes, deadlines, version. Owned
// by the thread of the tier. Callbacks come from turn(), flush(), cancel(), restart() and remove().
//
// Callbacks may add nodes at the end: loops that call back use indexes, not iterators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/net/poller.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/topology/node.h"

namespace larder::remote {

class NodeSet {
 public:
  static constexpr std::size_t kMost = 256;  // at once, whatever redirections name

  struct Listener {
    std::function<void()> ready;       // a connection is ready
    std::function<void()> other_life;  // a server that is no replica restarted
    // As in Links.
    std::function<void(Node& node, Lane lane, const Reply& reply, bool chunk)> answered;
  };
  // All arguments except `listener` outlive this object.
  NodeSet(const RemoteOptions& options, const base::Clock& clock, Poller& poller,
          Listener listener);
  NodeSet(const NodeSet&) = delete;
  NodeSet& operator=(const NodeSet&) = delete;

  // Standalone and Sentinel: at most one node.
  auto begin() const { return nodes_.begin(); }
  auto end() const { return nodes_.end(); }
  std::size_t size() const { return nodes_.size(); }
  bool empty() const { return nodes_.empty(); }
  const std::unique_ptr<Node>& operator[](std::size_t number) const { return nodes_[number]; }
  const std::unique_ptr<Node>& front() const { return nodes_.front(); }

  Node& add(Kind kind, const Endpoint& endpoint);
  // The node of that address and kind, new if needed; nullptr: too many nodes.
  Node* at(const Endpoint& endpoint, Kind kind = Kind::kNode);
  // Answers all commands of the node with `why`; callbacks may send them to other nodes. REQUIRES:
  // not within a callback, and no slot and no parked command refers to the node.
  void remove(std::size_t number, const Status& why);

  // Whether the node has keys: replicas and former masters have none.
  bool counts(const Node& node) const { return node.serves || options_.mode != Mode::kCluster; }
  bool ready() const;  // whether commands are possible, for some keys at least
  // Changes whenever the masters or their slots change.
  std::uint64_t version() const { return version_; }
  void changed() { ++version_; }

  // As in Links, for all nodes.
  void turn();
  void flush();
  std::uint64_t next_turn_ns() const;  // UINT64_MAX without nodes
  void cancel(std::uint64_t owner);
  void restart(const Status& why);
  std::uint64_t sent_bytes() const;  // including the bytes of removed nodes
  std::uint64_t received_bytes() const;

 private:
  const RemoteOptions& options_;
  const base::Clock& clock_;
  Poller& poller_;
  const Listener listener_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::uint64_t version_ = 1;
  std::uint64_t past_sent_bytes_ = 0, past_received_bytes_ = 0;
  std::uint64_t gate_seed_;
};

}  // namespace larder::remote
