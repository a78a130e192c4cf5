#include "sidecar/tiering/frequency_sketch.h"

#include <gtest/gtest.h>

namespace larder::tiering {
namespace {

std::uint64_t hash_of(std::uint64_t number) {
  return (number + 1) * 0x9e3779b97f4a7c15ULL;
}

TEST(FrequencySketchTest, ChunkIsAdmittedFromItsSecondUse) {
  Admission admission(2, 1000);
  admission.see(hash_of(1));
  EXPECT_FALSE(admission.admits(hash_of(1)));
  admission.see(hash_of(1));
  EXPECT_TRUE(admission.admits(hash_of(1)));
  EXPECT_FALSE(admission.admits(hash_of(2)));
}

TEST(FrequencySketchTest, WithoutLimitEveryChunkIsAdmitted) {
  for (const std::uint32_t sights : {0U, 1U}) {
    Admission admission(sights, 1000);
    EXPECT_TRUE(admission.admits(hash_of(1)));
  }
}

TEST(FrequencySketchTest, ChunksSeenOnceAreRarelyOverestimated) {
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

TEST(FrequencySketchTest, OldCountsDecay) {
  constexpr std::uint64_t kChunks = 1000;
  FrequencySketch sketch(kChunks);
  for (int i = 0; i < 8; ++i) sketch.see(hash_of(1));
  for (std::uint64_t i = 0; i < 40 * kChunks; ++i) sketch.see(hash_of(100 + i));
  EXPECT_LE(sketch.estimate(hash_of(1)), 3U);
}

TEST(FrequencySketchTest, EstimateSaturatesAtFifteen) {
  FrequencySketch sketch(1000);
  for (int i = 0; i < 100; ++i) sketch.see(hash_of(1));
  EXPECT_EQ(sketch.estimate(hash_of(1)), 15U);
}

}  // namespace
}  // namespace larder::tiering
