#include "sidecar/sizing/simulation.h"

#include <gtest/gtest.h>

#include "sidecar/sizing/simulated_cache.h"
#include "tests/generated_trace.h"

namespace larder::sizing {
namespace {

// One request a letter, of one chunk of 1 byte and one token.
std::vector<TracedRequest> trace_of(std::string_view letters) {
  std::vector<TracedRequest> trace;
  for (const char letter : letters)
    trace.push_back({{static_cast<std::uint64_t>(letter)}, 1, 1, 1});
  return trace;
}
std::uint64_t hits(std::string_view letters, std::string_view policy, std::uint64_t size) {
  return simulate(trace_of(letters), policy, size)->chunks_hit;
}

TEST(SimulationTest, PoliciesMatchHandComputedResults) {
  EXPECT_EQ(hits("abcab", "lru", 2), 0U);
  EXPECT_EQ(hits("abcab", "lru", 3), 2U);
  EXPECT_EQ(hits("abacab", "lru", 2), 2U) << "c takes b's place";
  EXPECT_EQ(hits("abacab", "fifo", 2), 1U) << "c takes a's, though it was used";
  EXPECT_EQ(hits("abcab", "optimal", 2), 2U) << "c, which never comes again, is left out";
  EXPECT_EQ(hits("aaaa", "s3-fifo", 2), 3U);
}

// a is used often; then more new ones than fit come by once each.
TEST(SimulationTest, S3FifoKeepsUsedChunksThroughAScan) {
  std::string letters = "aaa";
  for (char once = 'A'; once <= 'Z'; ++once) letters += once;
  letters += "a";
  EXPECT_EQ(hits(letters, "s3-fifo", 10), 3U);
  EXPECT_EQ(hits(letters, "lru", 10), 2U);
}

// Of the prompts half are asked for again and again; the others come by once each.
TEST(SimulationTest, AdaptiveKeepsReturningPromptsThroughAFlood) {
  std::vector<TracedRequest> calm, flooded;
  std::uint64_t once = 1'000'000;
  for (std::uint64_t i = 0; i < 40'000; ++i) {
    const std::uint64_t prompt = i * 7919 % 60 * 100;
    calm.push_back({{prompt, prompt + 1, prompt + 2}, 1, 3, 1});
    flooded.push_back(calm.back());
    for (int n = 0; n < 4; ++n, once += 3) flooded.push_back({{once, once + 1, once + 2}, 1, 3, 1});
  }
  constexpr std::uint64_t kSize = 200;
  const auto kept = [&](std::string_view policy) {
    const auto hits = static_cast<double>(simulate(flooded, policy, kSize)->chunks_hit);
    return hits / static_cast<double>(simulate(calm, policy, kSize)->chunks_hit);
  };
  EXPECT_LT(kept("lru"), 0.1);
  EXPECT_GT(kept("adaptive"), 0.75) << "the first thousand prompts teach it";
}

TEST(SimulationTest, AdaptiveTakesChunksOfSeveralSizes) {
  std::vector<TracedRequest> trace;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t chunk = i * i % 40;
    trace.push_back({{chunk}, 1 + chunk % 3, 1, 1});
  }
  const std::uint64_t all = simulate(trace, "lru", 200)->chunks_hit;
  EXPECT_EQ(simulate(trace, "adaptive", 200)->chunks_hit, all);
  const std::uint64_t tight = simulate(trace, "adaptive", 12)->chunks_hit;
  EXPECT_GT(tight, all / 4);
  EXPECT_LT(tight, all);
}

TEST(SimulationTest, RequestHitsEndAtTheFirstMissingChunk) {
  const std::vector<TracedRequest> trace{
      {{1, 2, 3}, 1, 25, 10}, {{1, 9, 3}, 1, 30, 10}, {{1, 2, 3}, 1, 25, 10}};
  const Simulated all = *simulate(trace, "lru", 100);
  EXPECT_EQ(all.chunks, 9U);
  EXPECT_EQ(all.chunks_hit, 1U + 3);
  EXPECT_EQ(all.tokens, 80U);
  EXPECT_EQ(all.tokens_hit, 10U + 25) << "the last chunk is not whole";
  EXPECT_EQ(all.requests, 3U);
  EXPECT_EQ(all.requests_hit, 2U);
  EXPECT_EQ(distinct_bytes(trace), 4U);
}

TEST(SimulationTest, LruEvictsTailsBeforeHeads) {
  const TracedRequest first{{1, 2, 3, 4}, 1, 40, 10}, other{{5, 6}, 1, 20, 10};
  const std::vector<TracedRequest> trace{first, other, first};
  EXPECT_EQ(simulate(trace, "lru", 4)->chunks_hit, 2U) << "3 and 4 made room for 5 and 6";
  EXPECT_EQ(simulate(trace, "fifo", 4)->chunks_hit, 0U) << "the head made room";
  EXPECT_EQ(simulate(trace, "optimal", 4)->chunks_hit, 4U) << "5 and 6 never come again";
}

TEST(SimulationTest, APromptLongerThanTheMemoryKeepsItsHead) {
  const TracedRequest longer{{1, 2, 3, 4}, 1, 40, 10};
  const std::vector<TracedRequest> trace{longer, longer};
  EXPECT_EQ(simulate(trace, "lru", 3)->chunks_hit, 3U);
  EXPECT_EQ(simulate(trace, "fifo", 3)->chunks_hit, 0U);
}

TEST(SimulationTest, WarmUpFillsTheCacheWithoutCounting) {
  const Simulated all = *simulate(trace_of("aab"), "lru", 2, 1);
  EXPECT_EQ(all.requests, 2U);
  EXPECT_EQ(all.chunks_hit, 1U);
}

TEST(SimulationTest, AnUnknownPolicyIsRefusedByName) {
  const Status refused = simulate({}, "mru", 1).status();
  EXPECT_EQ(refused.text(), "'mru' is no policy: lru, adaptive, fifo, s3-fifo, optimal");
}

TEST(SimulationTest, PoliciesAreEqualWithoutEvictionAndNeverBeatOptimal) {
  const testing_support::GeneratedTrace trace({.requests = 1000});
  const std::uint64_t distinct = distinct_bytes(trace.requests());
  const double best = simulate(trace.requests(), "optimal", distinct)->hit_ratio();
  for (const std::string_view policy : policies()) {
    EXPECT_EQ(simulate(trace.requests(), policy, distinct)->hit_ratio(), best) << policy;
    EXPECT_LE(simulate(trace.requests(), policy, distinct / 8)->hit_ratio(),
              simulate(trace.requests(), "optimal", distinct / 8)->hit_ratio())
        << policy;
  }
}

}  // namespace
}  // namespace larder::sizing
