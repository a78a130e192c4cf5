#include "sidecar/store/use_ages.h"

#include <gtest/gtest.h>

namespace larder::store {
namespace {

TEST(UseAgesTest, AgeIsUnknownBeforeTheFirstTick) {
  EXPECT_EQ(UseAges().age_ms(1), std::nullopt);
}

TEST(UseAgesTest, AgeIsThatOfTheNextTick) {
  UseAges ages;
  for (std::uint64_t tick = 0; tick <= 100; ++tick) ages.tick(1000 + 100 * tick, 10 * tick);
  EXPECT_EQ(ages.age_ms(1000), 0U);
  EXPECT_EQ(ages.age_ms(2000), 0U) << "since the last tick";
  EXPECT_EQ(ages.age_ms(991), 0U);
  EXPECT_EQ(ages.age_ms(990), 100U);
  EXPECT_EQ(ages.age_ms(5), 9900U);
}

// A week of ticks, one a second: ages of every size are exact to a few parts in a hundred of the
// time since the first.
TEST(UseAgesTest, AgesOfAWeekAreAccurateToAFewPercent) {
  UseAges ages;
  constexpr std::uint64_t kTicks = 7ULL * 24 * 3600;
  for (std::uint64_t tick = 0; tick <= kTicks; ++tick) ages.tick(1000 * tick, tick);
  for (const std::uint64_t stamp : {kTicks / 100, kTicks / 2, kTicks - kTicks / 20, kTicks}) {
    const double age = 1000.0 * static_cast<double>(kTicks - stamp),
                 told = static_cast<double>(*ages.age_ms(stamp));
    EXPECT_NEAR(told, age, 1000.0 * kTicks / 200) << stamp;
  }
}

}  // namespace
}  // namespace larder::store
