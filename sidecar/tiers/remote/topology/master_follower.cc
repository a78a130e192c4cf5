#include "sidecar/tiers/remote/topology/master_follower.h"

#include <algorithm>
#include <vector>

#include "sidecar/base/log_throttle.h"
#include "sidecar/base/time_units.h"

namespace larder::remote {
namespace {

using base::kNsPerMs;
constexpr std::uint64_t kDoubtNs = 3'000'000'000;
// After a failover Sentinels may name the former master for this time.
constexpr std::uint64_t kSettleNs = 3'000'000'000;

}  // namespace

void MasterFollower::doubt() {
  doubt_until_ns_ = clock_.now_ns() + kDoubtNs;
}

void MasterFollower::maintain(std::uint64_t now_ns) {
  const bool doubted = now_ns < doubt_until_ns_, well = nodes_.ready() && !doubted;
  sentinels_.turn(!well);
  const std::vector<SentinelWatch::Named> named = sentinels_.named();
  if (named.empty()) return;
  // One Sentinel is enough to begin; the server itself must then confirm that it is a master.
  if (nodes_.empty()) return follow(named.front().endpoint);
  const Links& master = *nodes_.front()->links;
  if (master.ready()) {
    // In doubt only the Sentinels that answer count: the failover may have taken some Sentinels
    // along with the former master.
    const std::size_t voters = doubted ? sentinels_.answering() : options_.endpoints.size();
    const bool settled = doubted || now_ns >= followed_ns_ + kSettleNs;
    if (settled && named.front().endpoint != master.endpoint() && 2 * named.front().votes > voters)
      follow(named.front().endpoint);
    return;
  }
  if (master.failure().ok() || now_ns < followed_ns_ + options_.retry_ms * kNsPerMs) return;
  // The server is unreachable or a replica. Another Sentinel may know better.
  auto next = std::ranges::find(named, master.endpoint(), &SentinelWatch::Named::endpoint);
  // In turn through all named servers, so one wrong Sentinel cannot hold larderd at a dead server.
  next = next == named.end() || next + 1 == named.end() ? named.begin() : next + 1;
  if (next->endpoint != master.endpoint()) follow(next->endpoint);
}

void MasterFollower::follow(const Endpoint& master) {
  const bool other = !nodes_.empty();
  if (other) nodes_.remove(0, {Code::kUnavailable, "another server is the master now"});
  if (other)
    base::log_from("backend, master", base::LogLevel::kInfo,
                   "backend: " + text_of(master) + " is named as the master now");
  nodes_.add(Kind::kMaster, master);
  nodes_.changed();
  followed_ns_ = clock_.now_ns();
  doubt_until_ns_ = 0;
  if (other) other_life_();
}

}  // namespace larder::remote
