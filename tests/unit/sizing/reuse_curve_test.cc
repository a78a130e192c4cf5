#include "sidecar/sizing/reuse_curve.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/generated_trace.h"

namespace larder::sizing {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

void ask(ReuseCurve& curve, const TracedRequest& request) {
  for (const std::uint64_t chunk : request.chunks)
    curve.asked(chunk, request.chunk_bytes, static_cast<double>(request.chunk_tokens));
  curve.asked_in_vain(
      static_cast<double>(request.tokens - request.chunks.size() * request.chunk_tokens));
}

TEST(ReuseCurveTest, EmptyCurveHasNoHit) {
  const ReuseCurve curve(kMiB);
  stats::Estimate estimate;
  curve.fill(estimate);
  for (const stats::EstimatedHit& hit : estimate.hits) EXPECT_EQ(hit.ratio, 0) << hit.size;
  EXPECT_EQ(estimate.sampling_ratio, 1);
}

// Ten chunks of 1 MiB again and again: an LRU memory of ten has all, one of nine has no hit.
TEST(ReuseCurveTest, LoopHitsOnlyInMemoryThatHoldsIt) {
  ReuseCurve curve(10 * kMiB);
  for (int round = 0; round < 100; ++round)
    for (std::uint64_t chunk = 1; chunk <= 10; ++chunk) curve.asked(chunk, kMiB, 256);
  EXPECT_NEAR(curve.hit_ratio(1), 0.99, 1e-9);
  EXPECT_EQ(curve.hit_ratio(0.9), 0);
  EXPECT_NEAR(curve.hit_ratio(4), 0.99, 1e-9);
  stats::Estimate estimate;
  curve.fill(estimate);
  EXPECT_EQ(estimate.reuse_distance.count(stats::DistanceHistogram::kBuckets), 10U)
      << "asked for the first time";
  EXPECT_EQ(estimate.reuse_distance.sum(), 990 * 9 * kMiB) << "nine others between two uses";
}

TEST(ReuseCurveTest, StoredChunksTakeRoomWithoutBeingRequested) {
  ReuseCurve curve(2 * kMiB);
  curve.asked(1, kMiB, 256);
  curve.stored(1, kMiB);  // like a requested and missing chunk
  curve.stored(2, kMiB);
  curve.stored(3, kMiB);  // of answers
  curve.asked(1, kMiB, 256);
  EXPECT_EQ(curve.hit_ratio(1), 0);
  EXPECT_NEAR(curve.hit_ratio(2), 0.5, 1e-9);
}

// Dropped chunks would be missed in a memory of any size, and take no room in one.
TEST(ReuseCurveTest, DroppedChunksCountAsNew) {
  ReuseCurve curve(2 * kMiB);
  curve.asked(1, kMiB, 256, 7);
  curve.asked(2, kMiB, 256, 8);
  curve.stored(3, kMiB, 8);
  curve.dropped(8);
  curve.asked(2, kMiB, 256, 8);
  EXPECT_EQ(curve.hit_ratio(4), 0);
  curve.asked(1, kMiB, 256, 7);
  EXPECT_NEAR(curve.hit_ratio(1), 0.25, 1e-9) << "1 and 2 fit, since 3 is gone";
  curve.dropped();
  curve.asked(1, kMiB, 256, 7);
  EXPECT_NEAR(curve.hit_ratio(4), 0.2, 1e-9);
  stats::Estimate estimate;
  curve.fill(estimate);
  EXPECT_EQ(estimate.chunks_tracked, 1U);
}

TEST(ReuseCurveTest, TokensWithoutChunkNeverHit) {
  ReuseCurve curve(kMiB);
  curve.asked(1, kMiB, 100);
  curve.asked(1, kMiB, 100);
  curve.asked_in_vain(200);
  EXPECT_NEAR(curve.hit_ratio(1), 0.25, 1e-9);
}

TEST(ReuseCurveTest, RecentLoadDominates) {
  ReuseCurve curve(4 * kMiB);
  for (std::uint64_t chunk = 1; chunk <= 1000; ++chunk) curve.asked(chunk, kMiB, 256);
  curve.fade(0.001);
  for (int i = 0; i < 100; ++i) curve.asked(7777, kMiB, 256);
  EXPECT_GT(curve.hit_ratio(1), 0.97);
}

// With any number of requests: the given number of chunks is tracked, and no chunk that could not
// be found at any size of interest.
TEST(ReuseCurveTest, MemoryIsBounded) {
  ReuseCurve large(1ULL << 50), small(100 * kMiB);
  for (std::uint64_t chunk = 1; chunk <= 300'000; ++chunk) {
    large.asked(chunk, kMiB, 256);
    small.asked(chunk, kMiB, 256);
  }
  stats::Estimate estimate;
  large.fill(estimate);
  EXPECT_EQ(estimate.chunks_tracked, ReuseCurve::kMaxTracked);
  EXPECT_NEAR(estimate.sampling_ratio, ReuseCurve::kMaxTracked / 300'000.0, 0.002);
  EXPECT_NEAR(static_cast<double>(estimate.reuse_distance.total()), 300'000, 20'000) << "scaled up";
  small.fill(estimate);
  EXPECT_LE(estimate.chunks_tracked, 100 * ReuseCurve::kReach);
  EXPECT_EQ(estimate.sampling_ratio, 1) << "the past need not be sampled";
}

struct Fraction {
  const char* name;
  double of_distinct;  // the configured memory, of all that is asked for
};
class AgainstExactTest : public testing::TestWithParam<Fraction> {};

// The promise of the metric, on a trace of more chunks than are tracked.
TEST_P(AgainstExactTest, EstimateIsWithinTwoPointsOfExact) {
  testing_support::TraceShape shape;
  shape.requests = 12'000;
  shape.documents = 1200;
  const testing_support::GeneratedTrace trace(shape);
  const std::uint64_t distinct = distinct_bytes(trace.requests());
  const auto memory =
      static_cast<std::uint64_t>(static_cast<double>(distinct) * GetParam().of_distinct);
  ASSERT_GT(distinct / shape.chunk_bytes, 2 * ReuseCurve::kMaxTracked)
      << "else no chunk would be sampled";
  ReuseCurve curve(memory);
  for (const TracedRequest& request : trace.requests()) ask(curve, request);
  for (const double factor : {0.5, 1.0, 2.0, 4.0}) {
    const auto size = static_cast<std::uint64_t>(static_cast<double>(memory) * factor);
    EXPECT_NEAR(curve.hit_ratio(factor), simulate(trace.requests(), "lru", size)->hit_ratio(), 0.02)
        << factor;
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, AgainstExactTest,
                         testing::Values(Fraction{"Tight", 0.02}, Fraction{"Middling", 0.1},
                                         Fraction{"Ample", 0.5}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace larder::sizing
