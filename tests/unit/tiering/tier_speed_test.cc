#include "sidecar/tiering/tier_speed.h"

#include <gtest/gtest.h>

#include <utility>

namespace larder::tiering {
namespace {

constexpr std::uint64_t kMs = 1'000'000, kMiB = 1 << 20;

// A tier of a latency and a rate, whose reads come one behind the other.
class TierSpeedTest : public testing::Test {
 protected:
  explicit TierSpeedTest(bool many = false) : speed_(many) {}
  void read(std::uint64_t reads, std::uint64_t bytes) {
    const std::uint64_t begin = now_ns_;
    for (std::uint64_t i = 0; i < reads; ++i) speed_.began(now_ns_, bytes);
    now_ns_ += latency_ns_;
    for (std::uint64_t i = 0; i < reads; ++i) {
      now_ns_ += bytes * 1000 / mb_per_s_;
      speed_.ended(now_ns_, bytes, true, begin);
    }
    now_ns_ += kMs;
  }
  void probe(bool ok = true) {
    ASSERT_TRUE(speed_.wants_probe(now_ns_ / kMs));
    EXPECT_FALSE(speed_.wants_probe(now_ns_ / kMs)) << "one at a time";
    const std::uint64_t begin = now_ns_;
    speed_.began(now_ns_, kMiB);
    now_ns_ += latency_ns_ + kMiB * 1000 / mb_per_s_;
    speed_.ended(now_ns_, kMiB, ok, begin);
    speed_.probe_ended(now_ns_ / kMs, kMiB, now_ns_ - begin, ok);
  }
  // A fetch of this size, until its deadline.
  void miss(std::uint64_t bytes, std::uint64_t deadline_ms) {
    const std::uint64_t begin = now_ns_;
    speed_.began(now_ns_, bytes);
    now_ns_ += deadline_ms * kMs;
    speed_.missed_deadline(now_ns_);
    now_ns_ += kMs;
    speed_.ended(now_ns_, bytes, true, begin);
  }
  void expect_figures(double latency_ns, double mb_per_s, double within) {
    const protocol::ResidencySpeed view = speed_.view(true);
    EXPECT_NEAR(static_cast<double>(view.read_latency_ns) / latency_ns, 1, within);
    EXPECT_NEAR(static_cast<double>(view.read_bytes_per_s) / 1e6 / mb_per_s, 1, within);
  }
  bool serving() { return speed_.view(true).serving; }

  TierSpeed speed_;
  std::uint64_t now_ns_ = 1000 * kMs, latency_ns_ = 200'000, mb_per_s_ = 1000;
};

// covers F-146
TEST_F(TierSpeedTest, SeparatesLatencyFromRate) {
  for (int i = 0; i < 12; ++i) read(32, kMiB);
  expect_figures(200'000, 1000, 0.05);
  latency_ns_ = 2 * kMs;
  mb_per_s_ = 100;
  for (int i = 0; i < 12; ++i) read(32, kMiB);
  expect_figures(2e6, 100, 0.1);
}

// With one chunk at a time latency and rate cannot be told apart, and their promise for one chunk
// is right.
// covers F-146
TEST_F(TierSpeedTest, SingleReadsArePredicted) {
  mb_per_s_ = 10;
  for (int i = 0; i < 12; ++i) read(1, 2 * kMiB);
  const protocol::ResidencySpeed view = speed_.view(true);
  const double foretold = static_cast<double>(view.read_latency_ns) +
                          2.0 * kMiB / static_cast<double>(view.read_bytes_per_s) * 1e9;
  EXPECT_NEAR(foretold / (200e3 + 2.0 * kMiB * 100), 1, 0.1);
}

// covers F-146
TEST_F(TierSpeedTest, AStallEndsServingUntilAFastProbe) {
  for (int i = 0; i < 8; ++i) read(32, kMiB);
  miss(kMiB, 100);
  EXPECT_FALSE(serving());
  EXPECT_FALSE(speed_.wants_probe(now_ns_ / kMs)) << "not at once";
  now_ns_ += TierSpeed::kFirstProbeMs * kMs;
  probe();
  EXPECT_TRUE(serving());
  expect_figures(200'000, 1000, 0.1);
}

// As a speed, this once took minutes of probes to be forgotten.
// covers F-146
TEST_F(TierSpeedTest, StallWithoutMissedDeadlineIsNotMeasured) {
  for (int i = 0; i < 12; ++i) read(32, kMiB);
  const std::uint64_t latency_ns = std::exchange(latency_ns_, 3000 * kMs);
  read(4, kMiB);
  EXPECT_FALSE(serving());
  latency_ns_ = latency_ns;
  now_ns_ += TierSpeed::kFirstProbeMs * kMs;
  probe();
  EXPECT_TRUE(serving());
  expect_figures(200'000, 1000, 0.05);
}

// covers F-146
TEST_F(TierSpeedTest, ShortDeadlineIsNoFault) {
  for (int i = 0; i < 8; ++i) read(32, kMiB);
  miss(256 * kMiB, 20);
  EXPECT_TRUE(serving());
}

// covers F-146
TEST_F(TierSpeedTest, SlowTierServesAgainOnceMeasured) {
  for (int i = 0; i < 8; ++i) read(32, kMiB);
  mb_per_s_ = 5;
  miss(32 * kMiB, 200);
  for (std::uint32_t i = 0; i < TierSpeed::kProbesToLearn; ++i) {
    EXPECT_FALSE(serving());
    now_ns_ += TierSpeed::kLastProbeMs * kMs;
    probe();
  }
  EXPECT_TRUE(serving());
  EXPECT_LT(speed_.view(true).read_bytes_per_s, 12'000'000U);
  mb_per_s_ = 1000;
  for (int i = 0; i < 20; ++i) {  // and probes find out when the tier is fast again
    now_ns_ += TierSpeed::kLastProbeMs * kMs;
    probe();
  }
  EXPECT_GT(speed_.view(true).read_bytes_per_s, 500'000'000U);
}

// covers F-146
TEST_F(TierSpeedTest, FailedProbesBackOff) {
  for (int i = 0; i < 8; ++i) read(32, kMiB);
  miss(kMiB, 100);
  std::uint64_t waited_ms = TierSpeed::kFirstProbeMs;
  now_ns_ += waited_ms * kMs;
  probe(false);
  EXPECT_FALSE(serving());
  for (int i = 0; i < 8; ++i) {
    waited_ms = std::min(2 * waited_ms, TierSpeed::kLastProbeMs);
    EXPECT_FALSE(speed_.wants_probe(now_ns_ / kMs + waited_ms - 10));
    now_ns_ += waited_ms * kMs;
    probe(false);
  }
  now_ns_ += waited_ms * kMs;
  probe();
  EXPECT_TRUE(serving());
}

// covers F-146
TEST_F(TierSpeedTest, DegradedTierServesNoRead) {
  EXPECT_TRUE(speed_.view(true).serving);
  EXPECT_FALSE(speed_.view(false).serving);
}

class ManyDevicesSpeedTest : public TierSpeedTest {
 protected:
  ManyDevicesSpeedTest() : TierSpeedTest(true) {
    for (int i = 0; i < 8; ++i) read(32, kMiB);
  }
  // A read that ends without the chunk, as of a device that stands still.
  void fail(std::uint64_t after_ms) {
    const std::uint64_t begin = now_ns_;
    speed_.began(now_ns_, kMiB);
    speed_.missed_deadline(now_ns_ + 100 * kMs);
    now_ns_ += after_ms * kMs;
    speed_.ended(now_ns_, kMiB, false, begin);
  }
};

// covers F-275
TEST_F(ManyDevicesSpeedTest, StuckDeviceIsNoFaultOfTheTier) {
  for (int i = 0; i < 10; ++i) {
    fail(500);
    EXPECT_TRUE(serving()) << i;
    read(32, kMiB);
  }
  miss(kMiB, 300);
  EXPECT_TRUE(serving()) << "a stall of one is no stall of all";
  expect_figures(200'000, 1000, 0.05);
  now_ns_ += TierSpeed::kLastProbeMs * kMs;
  probe(false);
  EXPECT_TRUE(serving());
}

// covers F-275
TEST_F(ManyDevicesSpeedTest, FaultsInARowAreFaultsOfTheTier) {
  for (std::uint32_t i = 0; i < TierSpeed::kProbesToLearn; ++i) {
    EXPECT_TRUE(serving()) << i;
    fail(500);
  }
  EXPECT_FALSE(serving());
  now_ns_ += TierSpeed::kFirstProbeMs * kMs;
  probe();
  EXPECT_TRUE(serving());
  fail(500);
  EXPECT_TRUE(serving()) << "the count begins anew";
}

// covers F-275
TEST_F(ManyDevicesSpeedTest, SlowReadsThatEndWellGiveTheSpeed) {
  mb_per_s_ = 100;
  for (int i = 0; i < 12; ++i) {
    read(32, kMiB);
    EXPECT_TRUE(serving()) << i;
  }
  EXPECT_LT(speed_.view(true).read_bytes_per_s, 200e6);
}

// covers F-275
TEST_F(ManyDevicesSpeedTest, ServiceBetweenFaultsCountsAfterAMiss) {
  for (int i = 0; i < 10; ++i) {
    fail(500);
    EXPECT_TRUE(serving()) << i;
    const std::uint64_t begin = now_ns_;
    speed_.began(now_ns_, kMiB);
    speed_.began(now_ns_, kMiB);
    now_ns_ += kMs;
    speed_.ended(now_ns_, kMiB, true, begin);
    speed_.ended(now_ns_, kMiB, false, begin);
    now_ns_ += kMs;
  }
}

// One stretch holds the read from the device that stands still, and all reads meanwhile.
// covers F-275
TEST_F(ManyDevicesSpeedTest, ServiceBesideAStuckDeviceCounts) {
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t begin = now_ns_;
    speed_.began(now_ns_, kMiB);
    now_ns_ += 300 * kMs;
    speed_.missed_deadline(now_ns_);
    now_ns_ += kMs;
    read(3, kMiB);
    now_ns_ += 200 * kMs;
    speed_.ended(now_ns_, kMiB, false, begin);
    EXPECT_TRUE(serving()) << i;
  }
}

// covers F-275
TEST_F(ManyDevicesSpeedTest, SlowReadsBehindAFaultAreNoService) {
  for (std::uint32_t i = 0; i < TierSpeed::kProbesToLearn; ++i) {
    EXPECT_TRUE(serving()) << i;
    const std::uint64_t begin = now_ns_;
    speed_.began(now_ns_, kMiB);
    now_ns_ += 300 * kMs;
    speed_.missed_deadline(now_ns_);
    const std::uint64_t later = now_ns_ += kMs;
    speed_.began(now_ns_, kMiB);
    now_ns_ += 300 * kMs;
    speed_.ended(now_ns_, kMiB, true, later);
    speed_.ended(now_ns_, kMiB, true, begin);
  }
  EXPECT_FALSE(serving());
}

}  // namespace
}  // namespace larder::tiering
