#include "sidecar/tiering/frequency_sketch.h"

#include <gtest/gtest.h>

#include "sidecar/tiers/disk/health.h"
#include "sidecar/tiers/disk/time_to_live.h"

namespace larder::tiering {
namespace {

std::uint64_t hash_of(std::uint64_t number) {
  return (number + 1) * 0x9e3779b97f4a7c15ULL;
}

TEST(FrequencySketchTest, AChunkGoesDownFromItsSecondSightOn) {
  Admission admission(2, 1000);
  admission.see(hash_of(1));
  EXPECT_FALSE(admission.admits(hash_of(1)));
  admission.see(hash_of(1));
  EXPECT_TRUE(admission.admits(hash_of(1)));
  EXPECT_FALSE(admission.admits(hash_of(2)));
}

TEST(FrequencySketchTest, WithoutALimitEverythingDoes) {
  for (const std::uint32_t sights : {0U, 1U}) {
    Admission admission(sights, 1000);
    EXPECT_TRUE(admission.admits(hash_of(1)));
  }
}

TEST(FrequencySketchTest, ChunksSeenOnceAreRarelyTakenForMore) {
  constexpr std::uint64_t kChunks = 10'000;
  FrequencySketch sketch(kChunks);
  for (std::uint64_t i = 0; i < kChunks; ++i) sketch.see(hash_of(i));
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kChunks; ++i) {
    ASSERT_GE(sketch.estimate(hash_of(i)), 1U);
    wrong += sketch.estimate(hash_of(i)) > 1 ? 1 : 0;
  }
  EXPECT_LT(wrong, kChunks / 50);
}

TEST(FrequencySketchTest, OldFashionsFade) {
  constexpr std::uint64_t kChunks = 1000;
  FrequencySketch sketch(kChunks);
  for (int i = 0; i < 8; ++i) sketch.see(hash_of(1));
  for (std::uint64_t i = 0; i < 40 * kChunks; ++i) sketch.see(hash_of(100 + i));
  EXPECT_LE(sketch.estimate(hash_of(1)), 3U);
}

TEST(FrequencySketchTest, AnEstimateEndsAtFifteen) {
  FrequencySketch sketch(1000);
  for (int i = 0; i < 100; ++i) sketch.see(hash_of(1));
  EXPECT_EQ(sketch.estimate(hash_of(1)), 15U);
}

TEST(TimeToLiveTest, EndsByItsLimitAndByAClockThatWasSetBack) {
  const TimeToLive day{86'400};
  EXPECT_FALSE(day.expired(1'000'000, 1'000'000));
  EXPECT_FALSE(day.expired(1'000'000, 1'086'399));
  EXPECT_TRUE(day.expired(1'000'000, 1'086'400));
  EXPECT_FALSE(day.expired(1'000'100, 1'000'000)) << "clocks differ a little";
  EXPECT_TRUE(day.expired(1'001'000, 1'000'000));
  EXPECT_FALSE(TimeToLive{}.expired(1, 4'000'000'000)) << "no limit";
}

TEST(HealthTest, TheGravestCauseIsTheReasonAndRetriesSpread) {
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
  for (const std::uint64_t end = now + 10'000'000'000; now < end; now += 1'000'000) tries += health.retry(now) ? 1 : 0;
  EXPECT_GT(tries, 20U);
  EXPECT_LT(tries, 40U) << "10 ms, 20, 40, then every 500";
}

}  // namespace
}  // namespace larder::tiering
