#include "sidecar/tiers/plugin/drops.h"

#include <algorithm>

#include "sidecar/tiers/plugin/record.h"

namespace larder::plugin {

namespace {
constexpr std::uint64_t kLeastRetryNs = 100'000'000, kMostRetryNs = 5'000'000'000;
}  // namespace

bool Drops::covers(const protocol::NamespaceId& id) const {
  return std::ranges::any_of(drops_, [&](const Drop& drop) { return !drop.id || *drop.id == id; });
}

void Drops::pump(OpenCalls& calls, std::uint64_t now_ns) {
  // An open PUT from before the drop could store its object behind the CLEAR.
  if (drops_.empty() || sent_ || now_ns < next_ns_ || calls.puts_into(drops_.front().id)) return;
  const std::optional<protocol::NamespaceId>& id = drops_.front().id;
  calls.clear(id ? namespace_prefix(prefix_, *id) : pool_prefix(prefix_));
  sent_ = true;
}

Drop Drops::answered(Outcome outcome, std::uint64_t now_ns) {
  const Drop drop = drops_.front();
  sent_ = false;
  if (outcome == Outcome::kOk) {
    drops_.pop_front();
    wait_ns_ = next_ns_ = 0;
  } else {
    // A drop is never given up: a dropped chunk must not come back. The wait between tries grows.
    wait_ns_ = std::clamp(2 * wait_ns_, kLeastRetryNs, kMostRetryNs);
    next_ns_ = now_ns + wait_ns_;
  }
  return drop;
}

}  // namespace larder::plugin
