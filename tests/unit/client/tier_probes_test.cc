// TierProbes: the question, and the part of the answer that the client believes.
#include "shim/client/tier_probes.h"

#include <gtest/gtest.h>

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
    const Result<std::uint64_t> ticket =
        tier_probes_.start(session_.attachment, hashes_of(hashes), 60'000);
    EXPECT_TRUE(ticket.ok()) << ticket.status().to_string();
    EXPECT_EQ(
        (session_.receive<protocol::Probe, protocol::BlockHash>(MessageType::kProbe, &request_)),
        hashes);
    return ticket.ok() ? *ticket : 0;
  }

  FakeSession session_{protocol::kCapabilityResidency | protocol::kCapabilityShared};
  TierProbes tier_probes_;
  std::uint32_t request_ = 0;
};

TEST_F(TierProbeTest, AnsweredProbeReportsItsChunksAndSendsNoMessage) {
  const std::uint64_t ticket = start(5);
  tier_probes_.answered(session_.attachment, request_,
                        {{4, 3, 1000, 2000, 7, static_cast<std::uint32_t>(ProbeEnd::kBound)}, {}});
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
  EXPECT_TRUE(session_.silent()) << "larderd keeps no chunk for the probe";
}

TEST_F(TierProbeTest, AnswerOverTheRequestIsClamped) {
  const std::uint64_t ticket = start(2);
  tier_probes_.answered(session_.attachment, request_, {{UINT32_MAX, UINT32_MAX, 0, 0, 0, 0}, {}});
  EXPECT_EQ(tier_probes_.poll(ticket, 0)->chunks, 2U);
  EXPECT_EQ(tier_probes_.poll(ticket, 0)->shared, 2U);
  const std::uint64_t second = start(4);
  tier_probes_.answered(session_.attachment, request_, {{1, 3, 0, 0, 0, 0}, {}});
  EXPECT_EQ(tier_probes_.poll(second, 0)->shared, 1U) << "more in the backend than anywhere";
}

class ProbeEachTest : public testing::Test {
 protected:
  static std::vector<protocol::BlockHash> some(std::uint64_t count) {
    std::vector<protocol::BlockHash> hashes;
    for (std::uint64_t n = 0; n < count; ++n) hashes.push_back(hash_of(n));
    return hashes;
  }
  static constexpr std::uint64_t kShared =
      protocol::kCapabilityResidency | protocol::kCapabilityShared;
  TierProbes tier_probes_;
};

TEST_F(ProbeEachTest, EachChunkIsReportedSeparately) {
  FakeSession session(kShared, 7);
  const auto hashes = some(70);
  const Result<std::uint64_t> ticket =
      tier_probes_.start(session.attachment, hashes_of(hashes), 60'000, protocol::kProbeEach);
  ASSERT_TRUE(ticket.ok()) << ticket.status().to_string();
  std::uint32_t request = 0;
  protocol::Probe head{};
  EXPECT_EQ(
      (session.receive<protocol::Probe, protocol::BlockHash>(MessageType::kProbe, &request, &head)),
      hashes);
  EXPECT_EQ(head.flags, protocol::kProbeEach);
  ProbeAnswer answer{{66, 1, 1000, 2000, 7, 0}, {}};
  answer.each.there = {1, 0b10, ~std::uint64_t{0}};
  tier_probes_.answered(session.attachment, request, answer);
  const Result<ProbeState> done = tier_probes_.poll(*ticket, 5000);
  ASSERT_TRUE(done.ok() && !done->running);
  EXPECT_EQ(done->chunks, 66U);
  EXPECT_EQ(done->there, (std::array<std::uint64_t, 16>{1, 0b10}))
      << "no bit of a chunk that was not asked about";
}

TEST_F(ProbeEachTest, OlderLarderdGetsNoProbe) {
  FakeSession session(kShared, 6);
  const auto hashes = some(2);
  EXPECT_EQ(tier_probes_.start(session.attachment, hashes_of(hashes), 60'000, protocol::kProbeEach)
                .status()
                .code(),
            Code::kUnsupported);
  EXPECT_TRUE(session.silent());
  EXPECT_TRUE(tier_probes_.start(session.attachment, hashes_of(hashes), 60'000).ok())
      << "the other question is older";
}

// However little time larderd reports.
TEST_F(TierProbeTest, ElapsedTimeIsMeasuredByTheClient) {
  const std::uint64_t ticket = start(2);
  ::usleep(20'000);
  tier_probes_.answered(session_.attachment, request_, {{1, 1, 0, 0, 1, 0}, {}});
  EXPECT_GE(tier_probes_.poll(ticket, 0)->elapsed_us, 20'000U);
}

TEST(ProbesWithoutSharedTier, AreRefusedWithoutMessage) {
  const std::vector<protocol::BlockHash> hashes{hash_of(0)};
  for (const std::uint64_t capabilities :
       {protocol::kCapabilityResidency, protocol::kCapabilityShared}) {
    FakeSession session(capabilities);
    TierProbes probes;
    EXPECT_FALSE(ProbeKind::shares(*session.attachment));
    EXPECT_EQ(probes.start(session.attachment, hashes_of(hashes), 1000).status().code(),
              Code::kUnsupported);
    EXPECT_TRUE(session.silent());
  }
}

}  // namespace
}  // namespace larder::client
