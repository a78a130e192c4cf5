// Chunks that a tier did not store: the time of the next offer, the log, and the end of their
// entries.
#include "sidecar/tiering/refused_chunks.h"

#include <gtest/gtest.h>

namespace larder::tiering {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
const Status kFull{Code::kResourceExhausted, "the server is full"};

protocol::SlotRef chunk(std::uint32_t slot, std::uint64_t generation = 1) {
  return {slot, 0, generation};
}

class RefusedChunksTest : public testing::Test {
 protected:
  // Seconds until the next offer.
  std::uint64_t pause_s(const protocol::SlotRef& one, std::uint64_t now_ns) const {
    std::uint64_t s = 0;
    while (s < 1000 && chunks_.waits(one, now_ns + s * kSecond)) ++s;
    return s;
  }
  RefusedChunks chunks_{"backend"};
};

// covers F-144
TEST_F(RefusedChunksTest, PausesDoubleUpToFiveMinutes) {
  std::uint64_t now = kSecond, before = 0;
  for (int i = 0; i < 12; ++i) {
    chunks_.refused(chunk(1), kFull, 0, now);
    const std::uint64_t pause = pause_s(chunk(1), now);
    EXPECT_GE(pause + 1, before);
    before = pause;
    now += 500 * kSecond;
  }
  EXPECT_GE(before, 300U);
  EXPECT_LE(before, 375U);
  EXPECT_EQ(pause_s(chunk(2), now), 0U) << "each has its own";
  EXPECT_EQ(pause_s(chunk(1, 2), now), 0U) << "another chunk has the slot";
}

// covers F-144
TEST_F(RefusedChunksTest, UnsentChunkWaitsAsLongAsTheTierRequests) {
  for (int i = 0; i < 10; ++i) chunks_.refused(chunk(1), kFull, 4 * kSecond, kSecond);
  EXPECT_EQ(pause_s(chunk(1), kSecond), 3U);
  EXPECT_EQ(chunks_.reason(), "the server is full");
}

// covers F-144
TEST_F(RefusedChunksTest, ReasonStaysWhileAChunkWaits) {
  EXPECT_EQ(chunks_.reason(), "");
  chunks_.refused(chunk(1), kFull, 0, kSecond);
  chunks_.refused(chunk(2), kFull, 0, kSecond);
  chunks_.refused(chunk(3), {Code::kUnavailable, "other"}, 0, kSecond);
  EXPECT_EQ(chunks_.reason(), "the server is full");
  chunks_.stored(chunk(1), 2 * kSecond);
  chunks_.stored(chunk(2), 2 * kSecond);
  EXPECT_EQ(chunks_.reason(), "other");
  chunks_.forget(chunk(3));
  EXPECT_EQ(chunks_.reason(), "");
  EXPECT_TRUE(chunks_.empty());
}

// covers F-144
TEST_F(RefusedChunksTest, StoredChunkReleasesTheOthers) {
  chunks_.refused(chunk(1), kFull, 0, kSecond);
  for (std::uint32_t slot = 2; slot < 10; ++slot)
    chunks_.refused(chunk(slot), kFull, 6 * kSecond, kSecond);
  chunks_.stored(chunk(1), 2 * kSecond);
  EXPECT_EQ(pause_s(chunk(5), 2 * kSecond), 0U);
  EXPECT_EQ(chunks_.reason(), "");
}

// covers F-144
TEST_F(RefusedChunksTest, EvictedChunksLeaveTheTable) {
  for (std::uint32_t slot = 0; slot < 10'000; ++slot)
    chunks_.refused(chunk(slot), kFull, 0, kSecond);
  EXPECT_EQ(chunks_.size(), 10'000U);
  for (int i = 0; i < 10; ++i)
    chunks_.give_back([](std::uint32_t slot, std::uint64_t) { return slot % 2 == 0; }, 2 * kSecond);
  EXPECT_EQ(chunks_.size(), 5000U);
  for (int i = 0; i < 10; ++i)
    chunks_.give_back([](std::uint32_t, std::uint64_t) { return true; }, 900 * kSecond);
  EXPECT_TRUE(chunks_.empty()) << "the chunk is offered no more";
  EXPECT_EQ(chunks_.reason(), "");
}

// covers F-144
TEST_F(RefusedChunksTest, FullTableIsBoundedAndPausesRetries) {
  const auto most = static_cast<std::uint32_t>(RefusedChunks::kMost);
  for (std::uint32_t slot = 0; slot < most + 100; ++slot)
    chunks_.refused(chunk(slot), kFull, 0, kSecond);
  EXPECT_EQ(chunks_.size(), RefusedChunks::kMost);
  EXPECT_EQ(pause_s(chunk(most + 50), kSecond), 5U);
}

// covers F-144
TEST_F(RefusedChunksTest, CausesOverTheLimitShareTheLastEntry) {
  for (std::uint32_t i = 0; i < 100; ++i)
    chunks_.refused(chunk(i), {Code::kUnavailable, "cause " + std::to_string(i)}, 0, kSecond);
  EXPECT_EQ(chunks_.reason(), "cause 7");
  for (std::uint32_t i = 0; i < 100; ++i) chunks_.forget(chunk(i));
  EXPECT_EQ(chunks_.reason(), "");
}

// covers F-144
TEST_F(RefusedChunksTest, EachCauseIsLoggedOnceAMinute) {
  testing::internal::CaptureStderr();
  for (std::uint64_t s = 1; s <= 180; ++s)
    for (std::uint32_t slot = 0; slot < 20; ++slot)
      chunks_.refused(chunk(slot), kFull, 0, s * kSecond);
  for (std::uint32_t slot = 0; slot < 20; ++slot) chunks_.stored(chunk(slot), 181 * kSecond);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_NE(text.find("the server is full; 1"), std::string::npos) << "with a count: " << text;
}

// covers F-144
TEST_F(RefusedChunksTest, UnavailableTierReportsItsOwnReason) {
  chunks_.refused(chunk(1), {Code::kUnavailable, ""}, 0, kSecond);
  EXPECT_EQ(chunks_.reason(), "");
  EXPECT_EQ(pause_s(chunk(1), kSecond), 1U);
  chunks_.tier_is_back();
  EXPECT_EQ(pause_s(chunk(1), kSecond), 0U);
}

}  // namespace
}  // namespace larder::tiering
