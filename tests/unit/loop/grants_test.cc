// Grants that outlive their purpose: asked about, quarantined, given back; and the grants of an
// engine that attached anew.
#include "sidecar/session/grant_ages.h"
#include "sidecar/session/grant_inquiry.h"
#include "tests/unit/loop/sidecar_fixture.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::loop::testing_support {
namespace {

using protocol::SlotRef;

SlotRef ref_of(const protocol::Grant& grant) {
  return {grant.slot, 0, grant.generation};
}

TEST(GrantAges, OverdueGrantsAreFoundByOneMarkASecond) {
  session::GrantAges ages;
  std::uint64_t generation = 100;
  for (std::uint64_t ms = 0; ms <= protocol::kGrantAgeMs; ms += 100) ages.tick(ms, generation++);
  EXPECT_EQ(ages.overdue(), 0U);
  ages.tick(protocol::kGrantAgeMs + 1, generation);
  EXPECT_EQ(ages.overdue(), 100U);
  ages.tick(protocol::kGrantAgeMs + 5001, generation);
  EXPECT_EQ(ages.overdue(), 150U) << "given in the first five seconds";
}

TEST(GrantAges, GrantsDoNotAgeWhileTheSidecarSleeps) {
  session::GrantAges ages;
  ages.tick(0, 100);
  ages.restart();
  ages.tick(10 * protocol::kGrantAgeMs, 200);
  EXPECT_EQ(ages.overdue(), 0U);
}

// One session with two grants; the test sets the time.
class GrantInquiryTest : public testing::Test {
 protected:
  GrantInquiryTest() {
    box_.add_session(1);
    old_ = box_.reserve(1, 1);
    all_are_old();
    young_ = box_.reserve(1, 2);
    inquiry_.restart(0);
  }
  // All grants so far.
  void all_are_old() {
    ages_.restart();
    ages_.tick(0, box_.store().last_generation());
    ages_.tick(kAge + 1, box_.store().last_generation());
  }
  // larderd's question to the engine now.
  std::vector<SlotRef> tick(std::uint64_t now_ms) {
    std::vector<SlotRef> asked;
    for (const auto& packet : inquiry_.tick(1, box_.store(), box_.stats(), now_ms, ages_)) {
      Result<protocol::Decoder> decoder = protocol::Decoder::open(packet);
      EXPECT_TRUE(decoder.ok() && decoder->type() == MessageType::kAskGrants);
      protocol::SlotList list{};
      std::vector<SlotRef> part;
      EXPECT_TRUE(decoder->read(list) &&
                  decoder->read_all(list.count, protocol::kMaxGrantsPerMessage, part));
      asked.insert(asked.end(), part.begin(), part.end());
    }
    return asked;
  }

  static constexpr std::uint64_t kAge = protocol::kGrantAgeMs;
  static constexpr std::uint64_t kAnswered = kAge + protocol::kGrantAnswerMs + 1;

  store::testing_support::StoreBox box_{protocol::kMaxGrants};
  session::GrantAges ages_;
  session::GrantInquiry inquiry_;
  protocol::Grant old_{}, young_{};
};

TEST_F(GrantInquiryTest, EngineIsAskedOnceAboutOldGrants) {
  EXPECT_TRUE(tick(kAge - 1).empty());
  const std::vector<SlotRef> asked = tick(kAge);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].generation, old_.generation);
  EXPECT_TRUE(tick(kAge + 100).empty());
  EXPECT_EQ(box_.stats().grants_asked, 1U);
}

// covers F-022
TEST_F(GrantInquiryTest, UnansweredInquiryQuarantinesTheGrants) {
  tick(kAge);
  tick(kAnswered - 1);
  EXPECT_EQ(box_.filled().slots_quarantined, 0U);
  tick(kAnswered);
  EXPECT_EQ(box_.filled().slots_quarantined, 1U);
  EXPECT_EQ(box_.filled().slots_granted, 1U) << "the young one";
  EXPECT_EQ(box_.stats().grants_unanswered, 1U);
  box_.add_session(2);
  EXPECT_EQ(box_.reserve(2, 1).status, 0U) << "its key is free for others";
  box_.store().disown(1, ref_of(old_));
  EXPECT_EQ(box_.filled().slots_quarantined, 0U);
}

TEST_F(GrantInquiryTest, ActiveGrantStaysAndIsAskedAboutAgain) {
  tick(kAge);
  const SlotRef ref = ref_of(old_);
  inquiry_.still_writing(std::span(&ref, 1));
  tick(kAnswered);
  EXPECT_EQ(box_.filled().slots_granted, 2U);
  EXPECT_TRUE(tick(2 * kAge - 1).empty());
  EXPECT_EQ(tick(2 * kAge).size(), 1U);
}

TEST_F(GrantInquiryTest, GrantCommittedDuringInquiryIsNotQuarantined) {
  tick(kAge);
  box_.store().commit(1, {old_.slot, 0, old_.generation, box_.write(old_, 1)});
  tick(kAnswered);
  EXPECT_TRUE(box_.find(1));
  EXPECT_EQ(box_.stats().grants_unanswered, 0U);
}

TEST_F(GrantInquiryTest, QuarantinedGrantsAreIncludedInInquiries) {
  box_.store().sessions().set_silent(1, true);
  box_.store().sessions().set_silent(1, false);
  EXPECT_EQ(tick(kAge).size(), 2U);
}

TEST_F(GrantInquiryTest, LargeInquiryIsSplitIntoMessages) {
  for (std::uint64_t n = 10; n < 3010; ++n) box_.reserve(1, n);
  all_are_old();
  EXPECT_EQ(tick(kAge).size(), 3002U);
  EXPECT_EQ(box_.stats().grants_asked, 3002U);
}

class GrantsTest : public SidecarTest {
 protected:
  // An engine with three grants and a lost session; its lock stays.
  void lose_session() {
    start();
    client_.emplace(config_.socket);
    client_->attach();
    grants_ = client_->reserve(client_->open_namespace("a: 1"), {{1, 1}, {2, 2}, {3, 3}});
    client_->close();
    ASSERT_TRUE(
        wait([&] { return stats().sessions_ended == 1 && stats().slots_quarantined == 3; }));
  }

  std::optional<Client> client_;
  std::vector<protocol::Grant> grants_;
};

// covers F-021
TEST_F(GrantsTest, EngineAnswerToInquiryIsApplied) {
  start();
  Client client(config_.socket);
  client.attach();
  const auto grants = client.reserve(client.open_namespace("a: 1"), {{1, 1}, {2, 2}, {3, 3}});
  pass_ms(protocol::kGrantAgeMs + 2000, {&client});
  ASSERT_EQ(client.receive_slots(MessageType::kAskGrants).size(), 3U);
  client.send_slot(MessageType::kStillWriting, grants[0].slot, grants[0].generation);
  client.send_slot(MessageType::kDisown, grants[1].slot, grants[1].generation);
  pass_ms(protocol::kGrantAnswerMs + 1000, {&client});
  EXPECT_EQ(stats().slots_granted, 1U) << "still written";
  EXPECT_EQ(stats().slots_quarantined, 1U) << "no answer";
  EXPECT_EQ(stats().grants_asked, 3U);
  EXPECT_EQ(stats().grants_unanswered, 1U);
  EXPECT_EQ(stats().sessions.size(), 1U);
  client.send_slot(MessageType::kDisown, grants[2].slot, grants[2].generation);
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 0; })) << "a late answer is an answer";
}

// covers F-020
TEST_F(GrantsTest, UnlistedGrantsAreFreedOnReattach) {
  lose_session();
  Client next(config_.socket);
  next.attach_after(&*client_, {ref_of(grants_[1])});
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 1; }));
  EXPECT_EQ(stats().grants_reclaimed, 2U);
  next.send_slot(MessageType::kDisown, grants_[1].slot, grants_[1].generation);
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 0; })) << "its writer has stopped";
}

TEST_F(GrantsTest, ListedGrantsAreFreedWithTheOldLock) {
  lose_session();
  Client next(config_.socket);
  next.attach_after(&*client_, {ref_of(grants_[1])});
  ASSERT_TRUE(wait([&] { return stats().slots_quarantined == 1; }));
  next.close();
  ASSERT_TRUE(wait([&] { return stats().sessions_ended == 2; }));
  EXPECT_EQ(stats().slots_quarantined, 1U)
      << "the end of the next session says no word about the first one's writers";
  client_->drop_lock();
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 0; }));
}

TEST_F(GrantsTest, LaterSessionInheritsActiveGrants) {
  lose_session();
  Client next(config_.socket);
  next.attach_after(&*client_, {ref_of(grants_[1])});
  next.close();
  ASSERT_TRUE(wait([&] { return stats().sessions_ended == 2 && stats().slots_quarantined == 1; }));
  Client third(config_.socket);
  third.attach_after(&next, {});
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 0; }));
}

// The handshake was lost behind ATTACHED: the engine never learnt of its session there, and names
// the one before again.
TEST_F(GrantsTest, EngineWithLostHandshakeIsKnownByPreviousSession) {
  lose_session();
  for (std::uint64_t opened = 2; opened <= 4; ++opened) {
    Client unheard(config_.socket);
    unheard.attach_after(&*client_, {ref_of(grants_[1])});
    ASSERT_TRUE(
        wait([&] { return stats().sessions_opened == opened && stats().slots_quarantined == 1; }));
  }
  ASSERT_TRUE(wait([&] { return stats().sessions_ended == 4; }));
  Client next(config_.socket);
  next.attach_after(&*client_, {ref_of(grants_[1])});
  next.send_slot(MessageType::kDisown, grants_[1].slot, grants_[1].generation);
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 0; }))
      << "the lock of the first one is still held";
}

TEST_F(GrantsTest, FullGrantListFreesNoSlot) {
  lose_session();
  Client next(config_.socket);
  next.attach_after(&*client_,
                    std::vector<SlotRef>(protocol::kMaxGrantsPerMessage, SlotRef{0, 0, 1}));
  ASSERT_TRUE(wait([&] { return stats().sessions_opened == 2; }));
  EXPECT_EQ(stats().slots_quarantined, 3U);
  for (const protocol::Grant& grant : grants_)
    next.send_slot(MessageType::kDisown, grant.slot, grant.generation);
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 0; }));
}

TEST_F(GrantsTest, UnrelatedSessionFreesNoSlot) {
  lose_session();
  Client stranger(config_.socket);
  stranger.attach();
  stranger.send_slot(MessageType::kDisown, grants_[0].slot, grants_[0].generation);
  Client other(config_.socket);
  other.attach_after(&stranger, {});
  ASSERT_TRUE(wait([&] { return stats().sessions_opened == 3; }));
  EXPECT_EQ(stats().slots_quarantined, 3U);
}

TEST_F(GrantsTest, ReattachEndsThePreviousSession) {
  start();
  Client client(config_.socket);
  client.attach();
  const auto grants = client.reserve(client.open_namespace("a: 1"), {{1, 1}, {2, 2}});
  Client next(config_.socket);
  next.attach_after(&client, {ref_of(grants[0])});
  EXPECT_TRUE(wait([&] { return stats().sessions_ended == 1 && stats().slots_quarantined == 1; }));
  EXPECT_EQ(stats().grants_reclaimed, 1U);
  EXPECT_EQ(stats().sessions.size(), 1U);
}

}  // namespace
}  // namespace larder::loop::testing_support
