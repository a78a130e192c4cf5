// A remote tier driven by a test.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "sidecar/tiers/remote/chunks/remote_tier.h"
#include "tests/conformance/tier_chunks.h"
#include "tests/patient.h"

namespace larder::test {

inline constexpr std::uint64_t kSecondNs = 1'000'000'000;

// One larderd's view of a server.
struct Node {
  explicit Node(const remote::RemoteOptions& options)
      : tier(*remote::open_remote_tier(clock, options)), loop(*tier, clock) {}
  bool eventually(const std::function<bool()>& happens, std::uint64_t ms = 20'000) {
    for (const std::uint64_t end = clock.now_ns() + ms * 1'000'000; clock.now_ns() < end;) {
      if (happens()) return true;
      loop.collect(5);
    }
    return happens();
  }
  bool well() {
    return eventually([this] { return !tier->state().degraded(); });
  }
  base::MonotonicClock clock;
  std::unique_ptr<tiers::Tier> tier;
  tiers::testing_support::Loop loop;
};

}  // namespace larder::test
