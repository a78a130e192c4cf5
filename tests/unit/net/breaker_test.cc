#include "sidecar/net/breaker.h"

#include <gtest/gtest.h>

#include "sidecar/base/time_units.h"

namespace larder::net {
namespace {

using base::kNsPerMs;

TEST(BreakerTest, WaitsGrowToABoundWithJitter) {
  Breaker breaker(50, 300, 1);
  std::uint64_t now = 5000 * kNsPerMs, longest = 0;
  ASSERT_TRUE(breaker.may_try(now));
  breaker.tried();
  EXPECT_FALSE(breaker.may_try(now)) << "one attempt at a time";
  breaker.failed(now);
  EXPECT_TRUE(breaker.may_try(now)) << "the first failure is tried again at once";
  for (int i = 0; i < 50; ++i) {
    breaker.tried();
    breaker.failed(now);
    EXPECT_FALSE(breaker.may_try(now));
    longest = std::max(longest, breaker.next_ns() - now);
    now = breaker.next_ns();
  }
  EXPECT_GT(longest, 250 * kNsPerMs);
  EXPECT_LE(longest, 375 * kNsPerMs);
}

TEST(BreakerTest, OnlySustainedServiceResetsTheWait) {
  Breaker breaker(50, 300, 1);
  std::uint64_t now = 5000 * kNsPerMs;
  for (int i = 0; i < 6; ++i) {  // a server that greets well and then breaks the protocol
    breaker.tried();
    breaker.succeeded(now);
    breaker.failed(now + kNsPerMs);
    now = breaker.next_ns();
  }
  EXPECT_FALSE(breaker.may_try(now - 1));
  breaker.tried();
  breaker.succeeded(now);
  breaker.failed(now + 999 * kNsPerMs);
  EXPECT_FALSE(breaker.may_try(now + 999 * kNsPerMs));
  now = breaker.next_ns();
  breaker.tried();
  breaker.succeeded(now);
  breaker.failed(now + 1001 * kNsPerMs);
  EXPECT_TRUE(breaker.may_try(now + 1001 * kNsPerMs));
}

}  // namespace
}  // namespace larder::net
