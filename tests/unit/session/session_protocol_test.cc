// The state machine without a socket: random damage to valid conversations. In any case it answers
// or ends the session, touches no memory outside, and leaves a store that another session can use.
#include "sidecar/session/session_protocol.h"

#include <algorithm>
#include <random>

#include "tests/unit/store/recording_listener.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::session {
namespace {

using protocol::Encoder;
using protocol::MessageType;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(Encoder& encoder) {
  const auto packet = encoder.packet();
  return {packet.begin(), packet.end()};
}

// A valid conversation; slots and generations are guessed, as a hostile engine would.
std::vector<Bytes> conversation(std::uint64_t first_generation) {
  std::vector<Bytes> messages;
  const auto add = [&](Encoder& encoder) { messages.push_back(bytes_of(encoder)); };
  protocol::Hello hello{};
  hello.version_major = 1;
  Encoder e1(MessageType::kHello, 1);
  add(e1.append(hello));
  Encoder e2(MessageType::kAttached, 0);
  add(e2.append(protocol::Attached{1, 0}).append(protocol::SlotRef{0, 0, 1}));
  const std::string text = "a: 1\n";
  protocol::OpenNamespace open{};
  open.id = protocol::namespace_id(text);
  open.group_count = open.shard_count = 1;
  open.text_bytes = static_cast<std::uint32_t>(text.size());
  Encoder e3(MessageType::kOpenNamespace, 2);
  add(e3.append(open).append(protocol::GroupLayout{4096, 1, 0}).append_text(text));
  Encoder e4(MessageType::kReserve, 3);
  add(e4.append(protocol::Reserve{1, 0, 0, 2, 0})
          .append(protocol::BlockHash{1, 1})
          .append(protocol::BlockHash{2, 2}));
  Encoder e5(MessageType::kCommit, 0);
  add(e5.append(protocol::SlotList{1, 0})
          .append(protocol::CommitRecord{0, 0, first_generation + 1, 5}));
  Encoder e6(MessageType::kDisown, 0);
  add(e6.append(protocol::SlotList{1, 0}).append(protocol::SlotRef{1, 0, first_generation + 2}));
  Encoder e7(MessageType::kBad, 0);
  add(e7.append(protocol::SlotList{1, 0}).append(protocol::SlotRef{0, 0, first_generation + 1}));
  Encoder e8(MessageType::kDropNamespace, 0);
  add(e8.append(protocol::DropNamespace{1, 0}));
  Encoder e9(MessageType::kStillWriting, 0);
  add(e9.append(protocol::SlotList{1, 0}).append(protocol::SlotRef{1, 0, first_generation + 2}));
  Encoder e10(MessageType::kAct, 4);
  add(e10.append(protocol::Act{1, 1 + static_cast<std::uint32_t>(first_generation % 4), 2, 0})
          .append(protocol::BlockHash{1, 1})
          .append(protocol::BlockHash{2, 2}));
  Encoder e11(MessageType::kCloseNamespace, 0);
  add(e11.append(protocol::CloseNamespace{2, protocol::kCloseDrop}));
  return messages;
}

class SessionProtocolTest : public testing::Test {
 protected:
  SessionProtocolTest()
      : box_(8), region_(store::testing_support::zeroed_pages(sizeof(protocol::SessionRegion))) {}

  SessionProtocol make(std::uint32_t number) {
    SessionFacts facts;
    facts.number = number;
    // only its log lines are bounded
    facts.peer.process = testing::UnitTest::GetInstance()->current_test_info()->name();
    facts.arena_bytes = 8 * store::testing_support::StoreBox::kSlotBytes;
    return SessionProtocol(facts, *reinterpret_cast<protocol::SessionRegion*>(region_.get()),
                           {.store = box_.store(), .stats = box_.stats(), .clock = clock_},
                           [] { return true; });
  }
  void end(const SessionProtocol& session) {
    if (session.state() != SessionProtocol::State::kAttached) return;
    box_.store().sessions().end(session.facts().number);
    box_.store().sessions().release_quarantine(session.facts().number);
  }

  store::testing_support::StoreBox box_;
  store::testing_support::Memory region_;
  base::ManualClock clock_;
};

TEST_F(SessionProtocolTest, WholeConversationIsHandled) {
  SessionProtocol session = make(1);
  std::vector<bool> answered;
  for (const Bytes& message : conversation(1000)) {
    const Result<Reply> reply = session.handle(message);
    ASSERT_TRUE(reply.ok()) << reply.status().to_string();
    answered.push_back(!reply->packet.empty());
  }
  EXPECT_EQ(answered, (std::vector<bool>{true, false, true, true, false, false, false, false, false,
                                         true, false}));
  EXPECT_EQ(box_.stats().chunks_committed, 1U);
  EXPECT_EQ(box_.stats().disowned, 1U);
  EXPECT_EQ(box_.stats().evicted_bad, 1U);
}

TEST_F(SessionProtocolTest, BadReportsLogOneLineASecond) {
  SessionProtocol session = make(1);
  const std::vector<Bytes> messages = conversation(1000);
  const Bytes& bad = messages[6];
  for (const Bytes& message : {messages[0], messages[1], messages[2]})
    ASSERT_TRUE(session.handle(message).ok());
  const base::MonotonicClock clock;
  const std::uint64_t begin_ms = clock.now_ms();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 300; ++i) EXPECT_TRUE(session.handle(bad).ok());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'),
            static_cast<std::ptrdiff_t>((clock.now_ms() - begin_ms) / 1000 + 4))
      << log;
  EXPECT_NE(log.find("session 1: 1 chunks did not match their checksum"), std::string::npos) << log;
  EXPECT_EQ(box_.stats().bad_reported, 300U);
  end(session);
}

// "again in a while": the drop of the engine's next session succeeds.
TEST_F(SessionProtocolTest, DropRefusedByAFullTierSucceedsLater) {
  store::testing_support::RecordingListener tier;
  box_.store().tiers().set(0, &tier);
  const std::vector<Bytes> messages = conversation(1000);
  const Bytes& drop = messages[7];
  const auto begin = [&](SessionProtocol& session) {
    for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(session.handle(messages[i]).ok());
  };
  SessionProtocol refused = make(1), again = make(2);
  begin(refused);
  tier.takes_more_drops = false;
  const Status status = refused.handle(drop).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_TRUE(status.text().ends_with("again in a while")) << status.text();
  EXPECT_TRUE(tier.drops.empty());
  end(refused);
  tier.takes_more_drops = true;
  begin(again);
  EXPECT_TRUE(again.handle(drop).ok());
  EXPECT_EQ(tier.drops.size(), 1U);
  end(again);
  box_.store().tiers().set(0, nullptr);
}

TEST_F(SessionProtocolTest, EveryTruncationIsAnError) {
  const std::vector<Bytes> messages = conversation(1000);
  std::uint32_t number = 1;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    for (std::size_t size = 0; size < messages[i].size(); ++size) {
      SessionProtocol session = make(number++);
      for (std::size_t before = 0; before < i; ++before)
        ASSERT_TRUE(session.handle(messages[before]).ok());
      Bytes cut(messages[i].begin(), messages[i].begin() + static_cast<long>(size));
      ASSERT_FALSE(session.handle(cut).ok()) << "message " << i << " cut to " << size;
      // A length field that agrees with the cut does not help.
      if (size >= sizeof(protocol::MessageHeader)) {
        const auto body = static_cast<std::uint32_t>(size - sizeof(protocol::MessageHeader));
        std::memcpy(cut.data() + offsetof(protocol::MessageHeader, body_bytes), &body,
                    sizeof(body));
        ASSERT_FALSE(session.handle(cut).ok()) << "message " << i << " cut to " << size;
      }
      end(session);
    }
  }
}

// covers F-104
TEST_F(SessionProtocolTest, RandomDamageIsContained) {
  constexpr std::uint64_t kSeed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  std::uint64_t errors = 0;
  for (std::uint32_t number = 1; number <= 20'000; ++number) {
    SessionProtocol session = make(number);
    for (Bytes message : conversation(random() % 2000)) {
      if (random() % 4 == 0) message[random() % message.size()] = static_cast<std::byte>(random());
      if (random() % 40 == 0) message.resize(random() % (message.size() + 1));
      if (session.handle(message).ok()) continue;
      ++errors;
      break;
    }
    end(session);
    box_.store().verify_next();
    box_.store().sweep();
  }
  EXPECT_GT(errors, 1000U);
  while (box_.store().verify_next()) {
  }
  box_.drop();
  const stats::Stats stats = box_.filled();
  EXPECT_EQ(stats.slots_granted + stats.slots_committed + stats.slots_quarantined, 0U);
  box_.add_session(1'000'000);
  for (std::uint64_t n = 0; n < 8; ++n) EXPECT_EQ(box_.put(1'000'000, n).status, 0U);
}

}  // namespace
}  // namespace larder::session
