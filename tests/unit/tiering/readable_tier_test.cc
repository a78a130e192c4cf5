// A tier as a source of reads: the reads by which larderd knows the tier's speed, and the receivers
// of the report.
#include "sidecar/tiering/readable_tier.h"

#include "tests/unit/tiering/promoter_fixture.h"

namespace larder::tiering::testing_support {
namespace {

class ReadableTierTest : public testing::Test {
 protected:
  tiers::ChunkKey chunk(std::uint64_t n) { return box_.chunk(box_.memory.key(n)); }

  PromoterBox box_{16};
  ReadableTier& source_ = box_.backend_source;
  HeldTier& tier_ = box_.backend;
};

TEST_F(ReadableTierTest, RefusedReadStopsServing) {
  ASSERT_TRUE(source_.in_time());
  tier_.degrade();
  std::vector<std::byte> slot(4096);
  EXPECT_EQ(source_.read(source_.next_ticket(), chunk(1), slot, UINT64_MAX).code(),
            Code::kUnavailable);
  EXPECT_FALSE(source_.in_time());
}

TEST_F(ReadableTierTest, TickDetectsDegradedReadsWithoutProbe) {
  tier_.degrade();
  EXPECT_TRUE(source_.in_time()) << "as of the last tick";
  source_.tick();
  EXPECT_FALSE(source_.in_time());
}

TEST_F(ReadableTierTest, OneProbeAtATimeAndNoneDuringAStuckRead) {
  box_.put_into_backend(1);
  source_.tick();
  ASSERT_EQ(tier_.waiting().size(), 1U);
  EXPECT_LE(tier_.waiting().front().deadline_ns, box_.clock.now_ns() + 5'000'000'000);
  source_.tick();
  EXPECT_EQ(tier_.waiting().size(), 1U);
  tier_.finish_one({Code::kDeadlineExceeded, "late"}, true);
  box_.turn();
  box_.clock.advance_ms(600'000);
  source_.tick();
  EXPECT_TRUE(tier_.waiting().empty()) << "it may still write there";
  tier_.release();
  box_.turn();
  source_.tick();
  EXPECT_EQ(tier_.waiting().size(), 1U);
}

TEST_F(ReadableTierTest, ProbeOfAMissingChunkMeasuresNoSpeed) {
  box_.put_into_backend(1);
  source_.tick();
  tier_.lose(tier_.waiting().front().key);
  tier_.finish_one();
  box_.turn();
  EXPECT_TRUE(source_.in_time());
}

TEST_F(ReadableTierTest, VeryLargeChunkIsNotUsedForProbes) {
  tier_.store(chunk(1), {1, 65ULL << 20, 64 << 10, 1}, {});
  box_.backend_region->added(chunk(1));
  source_.tick();
  EXPECT_TRUE(tier_.waiting().empty());
}

}  // namespace
}  // namespace larder::tiering::testing_support
