// The sizes that a server gets after a refusal, and the times.
#include "sidecar/tiers/remote/topology/write_gate.h"

#include <gtest/gtest.h>

namespace larder::remote {
namespace {

constexpr std::uint64_t kMib = 1 << 20, kSecond = 1'000'000'000;

class WriteGateTest : public testing::Test {
 protected:
  WriteGate::Put put(std::uint64_t bytes, std::uint64_t begun_ns) const {
    return {bytes, std::min(bytes, 2 * kMib), begun_ns};
  }
  // Sent and refused at this moment.
  void refuse(std::uint64_t bytes, std::uint64_t now_ns,
              WriteGate::Why why = WriteGate::Why::kKnown) {
    gate_.begin(bytes, now_ns);
    gate_.refused(put(bytes, now_ns), "refused", why, now_ns);
  }
  // How long no chunk of this size passes.
  std::uint64_t pause_s(std::uint64_t bytes, std::uint64_t now_ns) const {
    std::uint64_t s = 0;
    while (s < 1000 && !gate_.lets(bytes, now_ns + s * kSecond)) ++s;
    return s;
  }

  WriteGate gate_{{}, 7};
};

// covers F-171
TEST_F(WriteGateTest, SmallerChunksPassAndLargerOnesAreBlocked) {
  refuse(8 * kMib, kSecond);
  EXPECT_FALSE(gate_.lets(8 * kMib, 2 * kSecond) || gate_.lets(32 * kMib, 2 * kSecond));
  EXPECT_TRUE(gate_.lets(8 * kMib - 1, 2 * kSecond));
  refuse(3 * kMib, 3 * kSecond);
  EXPECT_FALSE(gate_.lets(3 * kMib, 4 * kSecond));
  gate_.stored(put(kMib, 5 * kSecond));
  EXPECT_FALSE(gate_.lets(3 * kMib, 6 * kSecond))
      << "a stored smaller chunk says no word about the larger";
  EXPECT_EQ(gate_.reason(), "refused");
}

// covers F-171
TEST_F(WriteGateTest, PausesGrowToMinutesAndWithTheSize) {
  refuse(8 << 10, kSecond);
  EXPECT_LE(pause_s(8 << 10, kSecond), 2U);
  std::uint64_t now = 10 * kSecond, before = 0;
  for (int i = 0; i < 12; ++i) {
    refuse(8 << 10, now);
    const std::uint64_t pause = pause_s(8 << 10, now);
    EXPECT_GE(pause + 1, before);
    before = pause;
    now += 500 * kSecond;
  }
  EXPECT_GE(before, 300U);
  EXPECT_LE(before, 375U);
  WriteGate large{{}, 7};
  large.refused(put(32 * kMib, 0), "refused", WriteGate::Why::kKnown, kSecond);
  EXPECT_FALSE(large.lets(32 * kMib, 200 * kSecond)) << "2 MiB at 8 KiB/s";
}

// A server that takes a small chunk now and then: once a large one was sent whole after each small
// one.
// covers F-171
TEST_F(WriteGateTest, StoredSmallChunkDoesNotOpenForLargeOnes) {
  constexpr std::uint64_t kSmall = 64 << 10, kLarge = 8 * kMib;
  refuse(kLarge, kSecond);  // for 256 s and more
  refuse(kSmall, 2 * kSecond);
  gate_.begin(kSmall, 200 * kSecond);  // early, say
  gate_.stored(put(kSmall, 200 * kSecond));
  EXPECT_TRUE(gate_.lets(kSmall, 200 * kSecond));
  EXPECT_FALSE(gate_.lets(kLarge, 200 * kSecond)) << "its pause is not over";
  EXPECT_EQ(gate_.closed_from(), kLarge);
  EXPECT_EQ(gate_.reason(), "refused");
  ASSERT_TRUE(gate_.lets(kLarge, 400 * kSecond));
  EXPECT_TRUE(gate_.begin(kLarge, 400 * kSecond)) << "as a trial";
  EXPECT_FALSE(gate_.lets(kLarge, 400 * kSecond));
  gate_.stored(put(kLarge, 400 * kSecond));
  EXPECT_TRUE(gate_.lets(kLarge, 400 * kSecond));
  EXPECT_EQ(gate_.reason(), "");
}

// Like a proxy whose server is just being replaced.
// covers F-171
TEST_F(WriteGateTest, UnknownErrorIsRetriedOnceSoon) {
  refuse(32 * kMib, kSecond, WriteGate::Why::kUnknown);
  EXPECT_LE(pause_s(32 * kMib, kSecond), 2U);
  refuse(32 * kMib, 10 * kSecond, WriteGate::Why::kUnknown);
  EXPECT_GE(pause_s(32 * kMib, 10 * kSecond), 250U);
}

// covers F-171
TEST_F(WriteGateTest, OneTrialAtATimeDecides) {
  refuse(kMib, kSecond);
  const std::uint64_t due = 1000 * kSecond;
  ASSERT_TRUE(gate_.lets(kMib, due));
  EXPECT_TRUE(gate_.begin(kMib, due));
  EXPECT_FALSE(gate_.lets(kMib, due)) << "the trial is under way";
  EXPECT_TRUE(gate_.lets(kMib - 1, due));
  EXPECT_FALSE(gate_.begin(kMib - 1, due));
  gate_.end_trial();
  EXPECT_TRUE(gate_.lets(kMib, due)) << "the trial was dropped";
  gate_.begin(kMib, due);
  gate_.stored(put(kMib, due));
  EXPECT_TRUE(gate_.lets(kMib, due) && gate_.lets(100 * kMib, due) && !gate_.closed());
  EXPECT_EQ(gate_.reason(), "");
}

// covers F-171
TEST_F(WriteGateTest, UnansweredTrialExpires) {
  refuse(kMib, kSecond);
  gate_.begin(kMib, 1000 * kSecond);
  EXPECT_TRUE(gate_.lets(kMib, 1060 * kSecond));
}

// covers F-171
TEST_F(WriteGateTest, ConcurrentPutsCountAsOneRefusal) {
  for (int i = 0; i < 20; ++i)
    gate_.refused(put(8 << 10, kSecond), "refused", WriteGate::Why::kKnown, 2 * kSecond + i);
  EXPECT_LE(pause_s(8 << 10, 2 * kSecond), 3U);
  gate_.stored(put(kMib, kSecond));
  EXPECT_TRUE(gate_.closed()) << "and an earlier put says no word";
}

// A chunk that ends its connection each time; a killed server ends all connections once.
// covers F-171
TEST_F(WriteGateTest, ThreeLossesInARowCloseAndOneEventCountsOnce) {
  for (int i = 0; i < 20; ++i) gate_.lost(put(kMib, kSecond), "gone", 2 * kSecond);
  EXPECT_FALSE(gate_.closed());
  gate_.stored(put(4096, 3 * kSecond));
  gate_.lost(put(kMib, 3 * kSecond), "gone", 4 * kSecond);
  EXPECT_FALSE(gate_.closed());
  gate_.lost(put(kMib, 5 * kSecond), "gone", 6 * kSecond);
  EXPECT_FALSE(gate_.lets(kMib, 7 * kSecond));
  EXPECT_TRUE(gate_.lets(4096, 7 * kSecond)) << "small ones are not why it ends";
}

// covers F-171
TEST_F(WriteGateTest, DistantLossesAreNotInARow) {
  for (std::uint64_t minute = 0; minute < 10; ++minute)
    gate_.lost(put(kMib, (minute * 61 + 1) * kSecond), "gone", (minute * 61 + 2) * kSecond);
  EXPECT_FALSE(gate_.closed());
}

// covers F-171
TEST_F(WriteGateTest, StoredChunkOfThatSizeResetsTheLosses) {
  for (std::uint64_t i = 1; i < 20; ++i) {
    gate_.lost(put(kMib, 2 * i * kSecond), "gone", (2 * i + 1) * kSecond);
    if (i % 2 == 0) gate_.stored(put(kMib, (2 * i + 1) * kSecond));
  }
  EXPECT_FALSE(gate_.closed());
}

// covers F-171
TEST_F(WriteGateTest, NewSpaceIsTriedAtOnceWithBackoff) {
  refuse(8 * kMib, kSecond, WriteGate::Why::kFull);
  gate_.has_room(5 * kMib, 2 * kSecond);  // the room that the refused one leaves
  EXPECT_FALSE(gate_.lets(8 * kMib, 2 * kSecond));
  gate_.has_room(12 * kMib, 3 * kSecond);
  EXPECT_FALSE(gate_.lets(8 * kMib, 3 * kSecond)) << "hardly more than at the refusal";
  gate_.has_room(13 * kMib, 4 * kSecond);
  ASSERT_TRUE(gate_.lets(8 * kMib, 4 * kSecond));
  std::uint64_t trials = 0;
  for (std::uint64_t s = 4; s < 3600; ++s) {  // a server that announces room and has no room
    gate_.has_room(s % 2 == 0 ? 100 * kMib : 0, s * kSecond);
    if (!gate_.lets(8 * kMib, s * kSecond)) continue;
    ++trials;
    refuse(8 * kMib, s * kSecond, WriteGate::Why::kFull);
  }
  EXPECT_LE(trials, 25U);
}

// With all at once, most were once refused again.
// covers F-171
TEST_F(WriteGateTest, LittleSpaceAllowsOneAtATime) {
  refuse(8 * kMib, kSecond, WriteGate::Why::kFull);
  gate_.has_room(0, 2 * kSecond);
  gate_.has_room(24 * kMib, 3 * kSecond);
  int stored = 0;
  for (; stored < 10 && gate_.lets(8 * kMib, (4 + stored) * kSecond); ++stored) {
    EXPECT_TRUE(gate_.begin(8 * kMib, (4 + stored) * kSecond));
    EXPECT_FALSE(gate_.lets(8 * kMib, (4 + stored) * kSecond));
    gate_.stored(put(8 * kMib, (4 + stored) * kSecond));
  }
  EXPECT_EQ(stored, 2) << "and a part of the third would be";
  gate_.has_room(1024 * kMib, 100 * kSecond);
  ASSERT_TRUE(gate_.lets(8 * kMib, 100 * kSecond));
  gate_.begin(8 * kMib, 100 * kSecond);
  gate_.stored(put(8 * kMib, 100 * kSecond));
  EXPECT_FALSE(gate_.closed());
}

// covers F-171
TEST_F(WriteGateTest, AServerWithoutALimitHasRoom) {
  refuse(8 * kMib, kSecond, WriteGate::Why::kFull);
  gate_.has_room(0, 2 * kSecond);
  gate_.has_room(UINT64_MAX / 2, 3 * kSecond);
  EXPECT_TRUE(gate_.lets(8 * kMib, 3 * kSecond));
}

// covers F-171
TEST_F(WriteGateTest, NewSpaceDoesNotOpenOtherRefusals) {
  refuse(8 * kMib, kSecond);
  gate_.has_room(0, 2 * kSecond);
  gate_.has_room(UINT64_MAX / 2, 3 * kSecond);
  EXPECT_FALSE(gate_.lets(8 * kMib, 3 * kSecond));
}

// covers F-171
TEST_F(WriteGateTest, BlockedChunkIsOfferedAgainWithinSeconds) {
  refuse(32 * kMib, kSecond);
  EXPECT_GT(gate_.again_ns(2 * kSecond), 2 * kSecond);
  EXPECT_LE(gate_.again_ns(2 * kSecond), 8 * kSecond);
}

// covers F-171
TEST_F(WriteGateTest, OpensEventuallyWithoutTrials) {
  refuse(kMib, kSecond);
  gate_.tick(400 * kSecond);
  EXPECT_TRUE(gate_.closed());
  gate_.tick(1000 * kSecond);
  EXPECT_FALSE(gate_.closed());
}

}  // namespace
}  // namespace larder::remote
