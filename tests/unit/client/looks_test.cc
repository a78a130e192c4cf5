// TierProbes: what is asked, and what is believed of the answer.
#include <gtest/gtest.h>

#include "shim/client/tier_probes.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/client/fake_session.h"

namespace larder::client {
namespace {

using protocol::MessageType;
using protocol::ProbeEnd;
using testing_support::FakeSession;
using testing_support::hash_of;
using testing_support::hashes_of;

class TierProbeTest : public testing::Test {
 protected:
  std::uint64_t start(std::uint64_t count) {
    std::vector<protocol::BlockHash> hashes;
    for (std::uint64_t n = 0; n < count; ++n) hashes.push_back(hash_of(n));
    const Result<std::uint64_t> ticket = tier_probes_.start(session_.attachment, hashes_of(hashes), 60'000);
    EXPECT_TRUE(ticket.ok()) << ticket.status().to_string();
    EXPECT_EQ((session_.receive<protocol::Probe, protocol::BlockHash>(MessageType::kProbe, &request_)), hashes);
    return ticket.ok() ? *ticket : 0;
  }

  FakeSession session_{protocol::kCapabilityBelow | protocol::kCapabilityShared};
  TierProbes tier_probes_;
  std::uint32_t request_ = 0;
};

TEST_F(TierProbeTest, WhatIsAskedIsToldAndNothingMoreIsSaid) {
  const std::uint64_t ticket = start(5);
  tier_probes_.answered(session_.attachment, request_, {4, 3, 1000, 2000, 7, static_cast<std::uint32_t>(ProbeEnd::kBound)});
  const Result<ProbeState> done = tier_probes_.poll(ticket, 5000);
  ASSERT_TRUE(done.ok() && !done->running);
  EXPECT_EQ(done->chunks, 4U);
  EXPECT_EQ(done->shared, 3U);
  EXPECT_EQ(done->read_latency_ns, 1000U);
  EXPECT_EQ(done->read_bytes_per_s, 2000U);
  EXPECT_EQ(done->reason, ProbeEnd::kBound);
  tier_probes_.end(ticket);
  EXPECT_EQ(tier_probes_.poll(ticket, 0).status().code(), Code::kNotFound);
  tier_probes_.end(start(5));
  EXPECT_TRUE(session_.silent()) << "larderd keeps nothing for it";
}

TEST_F(TierProbeTest, MoreThanWasAskedIsNotBelieved) {
  const std::uint64_t ticket = start(2);
  tier_probes_.answered(session_.attachment, request_, {UINT32_MAX, UINT32_MAX, 0, 0, 0, 0});
  EXPECT_EQ(tier_probes_.poll(ticket, 0)->chunks, 2U);
  EXPECT_EQ(tier_probes_.poll(ticket, 0)->shared, 2U);
  const std::uint64_t second = start(4);
  tier_probes_.answered(session_.attachment, request_, {1, 3, 0, 0, 0, 0});
  EXPECT_EQ(tier_probes_.poll(second, 0)->shared, 1U) << "more in the backend than anywhere";
}

// However little larderd says it took.
TEST_F(TierProbeTest, WhatItTookIsCountedHere) {
  const std::uint64_t ticket = start(2);
  ::usleep(20'000);
  tier_probes_.answered(session_.attachment, request_, {1, 1, 0, 0, 1, 0});
  EXPECT_GE(tier_probes_.poll(ticket, 0)->elapsed_us, 20'000U);
}

TEST(LooksOfASidecarThatSharesNothing, AreNotAskedFor) {
  const std::vector<protocol::BlockHash> hashes{hash_of(0)};
  for (const std::uint64_t capabilities : {protocol::kCapabilityBelow, protocol::kCapabilityShared}) {
    FakeSession session(capabilities);
    TierProbes probes;
    EXPECT_FALSE(ProbeKind::shares(*session.attachment));
    EXPECT_EQ(probes.start(session.attachment, hashes_of(hashes), 1000).status().code(), Code::kUnsupported);
    EXPECT_TRUE(session.silent());
  }
}

}  // namespace
}  // namespace larder::client
