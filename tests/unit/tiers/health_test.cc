#include "sidecar/tiers/disk/health.h"

#include <gtest/gtest.h>

#include "sidecar/tiers/disk/time_to_live.h"

namespace larder::disk {
namespace {

TEST(TimeToLiveTest, ExpiresByItsLimitAndByAClockSetBack) {
  const TimeToLive day{86'400};
  EXPECT_FALSE(day.expired(1'000'000, 1'000'000));
  EXPECT_FALSE(day.expired(1'000'000, 1'086'399));
  EXPECT_TRUE(day.expired(1'000'000, 1'086'400));
  EXPECT_FALSE(day.expired(1'000'100, 1'000'000)) << "clocks differ a little";
  EXPECT_TRUE(day.expired(1'001'000, 1'000'000));
  EXPECT_FALSE(TimeToLive{}.expired(1, 4'000'000'000)) << "no limit";
}

TEST(HealthTest, GravestCauseIsReportedAndRetriesSpread) {
  Health health(10);
  EXPECT_FALSE(health.state().degraded());
  health.set(Health::kWrites, "writes");
  EXPECT_TRUE(health.state().takes_gets && !health.state().takes_puts);
  health.set(Health::kStalled, "stalled");
  EXPECT_EQ(health.state().reason, "stalled");
  EXPECT_FALSE(health.state().takes_gets);
  health.clear(Health::kStalled);
  EXPECT_EQ(health.state().reason, "writes");
  EXPECT_EQ(health.times(), 2U);
  std::uint64_t now = 1'000'000'000, tries = 0;
  for (const std::uint64_t end = now + 10'000'000'000; now < end; now += 1'000'000)
    tries += health.retry(now) ? 1 : 0;
  EXPECT_GT(tries, 20U);
  EXPECT_LT(tries, 40U) << "10 ms, 20, 40, then every 500";
}

}  // namespace
}  // namespace larder::disk
