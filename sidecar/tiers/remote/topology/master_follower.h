// MasterFollower: keeps the one node of NodeSet on the master that the Sentinels name. Owned by the
// thread of the tier.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "sidecar/base/clock.h"
#include "sidecar/net/poller.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/topology/node_set.h"
#include "sidecar/tiers/remote/topology/sentinel_watch.h"

namespace larder::remote {

class MasterFollower {
 public:
  // All references outlive this object. `other_life`: another server is the master now, and may
  // lack known chunks.
  MasterFollower(const RemoteOptions& options, const base::Clock& clock, Poller& poller,
                 NodeSet& nodes, std::function<void()> other_life)
      : options_(options),
        clock_(clock),
        nodes_(nodes),
        other_life_(std::move(other_life)),
        sentinels_(options, clock, poller) {}
  MasterFollower(const MasterFollower&) = delete;
  MasterFollower& operator=(const MasterFollower&) = delete;

  // Follows the server that most Sentinels name, while it is a reachable master; else the next
  // server that a Sentinel names. REQUIRES: not within a callback.
  void maintain(std::uint64_t now_ns);
  // A sign that the master has another role now: asks often for a while, and believes the Sentinels
  // that answer.
  void doubt();

  const SentinelWatch& sentinels() const { return sentinels_; }
  void flush() { sentinels_.flush(); }

 private:
  void follow(const Endpoint& master);

  const RemoteOptions& options_;
  const base::Clock& clock_;
  NodeSet& nodes_;
  const std::function<void()> other_life_;
  SentinelWatch sentinels_;
  std::uint64_t doubt_until_ns_ = 0;  // the role of the master is in doubt until then
  std::uint64_t followed_ns_ = 0;     // the time of the choice of this master
};

}  // namespace larder::remote
