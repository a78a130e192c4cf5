// The plug-in tier beside a plug-in that dies, hangs, or breaks the contract: misses, never wrong
// bytes, and never a wait beyond the deadline.
#include <functional>

#include "tests/unit/tiers/plugin/plugin_fixture.h"

namespace larder::plugin::testing_support {
namespace {

class HostilePluginTest : public PluginFixture {
 protected:
  // The reason in the status contains these words soon.
  testing::AssertionResult says(const std::string& words) const {
    if (test::eventually([&] { return tier->state().reason.find(words) != std::string::npos; },
                         5000))
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << tier->state().reason;
  }
  // A new plug-in stores and loads a chunk.
  void works_again() {
    const auto fake = connect();
    const Ticket stored = put(77);
    fake->serve();
    EXPECT_EQ(ended(stored), Code::kOk);
    const Ticket got = get(77);
    fake->serve();
    EXPECT_EQ(ended(got), Code::kOk);
    EXPECT_TRUE(holds(last_slot(), 77, facts));
  }
};

// covers F-340
TEST_F(HostilePluginTest, PlugInExitEndsItsCallsAtOnce) {
  open();
  auto fake = connect();
  const Ticket got = get(1), stored = put(2);
  fake->receive();
  fake.reset();
  EXPECT_EQ(ended(got), Code::kUnavailable);
  EXPECT_EQ(ended(stored), Code::kUnavailable);
  EXPECT_TRUE(says("has ended its connection"));
  works_again();
}

// covers F-341
TEST_F(HostilePluginTest, UnansweredCallEndsAtItsDeadlineAndLateAnswersAreDiscarded) {
  open();
  const auto fake = connect();
  const std::uint64_t begun_ns = clock.now_ns();
  const Ticket got = get(1, 100);
  const AskedEntry call = fake->receive().entries.at(0);
  EXPECT_EQ(ended(got), Code::kDeadlineExceeded);
  EXPECT_LT(clock.now_ns() - begun_ns, 2'000'000'000U);
  EXPECT_EQ(tier->counters().in_flight_bytes, 0U) << "the slot is free";
  const std::span<std::byte> slot = last_slot();
  const std::vector<std::byte> before(slot.begin(), slot.end());
  const std::string object = object_of(1);
  std::memcpy(fake->at(call.offset, call.bytes).data(), object.data(), object.size());
  fake->done(call.ticket, Outcome::kOk, object.size());
  const Ticket next = get(2);
  fake->serve();
  EXPECT_EQ(ended(next), Code::kNotFound);
  EXPECT_TRUE(std::ranges::equal(before, slot));
  EXPECT_TRUE(well()) << "a late answer is no fault";
}

TEST_F(HostilePluginTest, SilentPlugInLosesItsRegion) {
  options.patience_ms = 300;
  open();
  const auto fake = connect();
  fake->at(0, 1)[0] = std::byte{7};
  const Ticket got = get(1, 100);
  EXPECT_EQ(ended(got), Code::kDeadlineExceeded);
  EXPECT_TRUE(fake->ended());
  EXPECT_TRUE(away());
  EXPECT_TRUE(says("answered no call for 300 ms"));
  EXPECT_EQ(fake->at(0, 1)[0], std::byte{0}) << "larderd has given the memory back";
  works_again();
}

TEST_F(HostilePluginTest, TooManyRetiredBytesEndTheConnection) {
  options.patience_ms = 60'000;
  open();
  const auto fake = connect();
  // 16 MiB are half of the region; a piece has 69 KiB.
  for (int round = 0; round < 12 && !tier->state().degraded(); ++round) {
    std::vector<Ticket> tickets;
    for (std::uint64_t i = 0; i < 20; ++i) {
      Slot slot(protocol::slot_bytes(1 << 20, kPiece));
      const Ticket ticket = loop->next();
      if (tier->get(ticket, key_of(i), slot.span(), loop->in_ms(50)).ok())
        tickets.push_back(ticket);
      for (const Ticket one : tickets) EXPECT_NE(ended(one), Code::kOk);
      tickets.clear();
    }
  }
  EXPECT_TRUE(away());
  EXPECT_TRUE(says("beyond the deadlines"));
  works_again();
}

// covers F-343
TEST_F(HostilePluginTest, EachBreachOfTheContractEndsTheConnectionAndCostsMisses) {
  open();
  const std::map<std::string, std::function<void(const FakePlugin&, const AskedEntry&)>> breaches{
      {"unknown ticket",
       [](const FakePlugin& fake, const AskedEntry& call) { fake.done(call.ticket + 999); }},
      {"more bytes than its room",
       [](const FakePlugin& fake, const AskedEntry& call) {
         fake.done(call.ticket, Outcome::kOk, call.bytes + 1);
       }},
      {"another call with FOUND",
       [](const FakePlugin& fake, const AskedEntry& call) { fake.found(call.ticket, {true}); }},
      {"unknown kind",
       [](const FakePlugin& fake, const AskedEntry&) {
         fake.send(packet_of(static_cast<Kind>(99), 0, 0, ""));
       }},
      {"another size",
       [](const FakePlugin& fake, const AskedEntry&) {
         fake.send(packet_of(Kind::kDone, 2, 0, std::string(24, 'x')));
       }},
      {"in its header",
       [](const FakePlugin& fake, const AskedEntry&) { fake.send(std::string(40, '\x11')); }},
      {"READY twice",
       [](const FakePlugin& fake, const AskedEntry&) {
         fake.send(packet_of(Kind::kReady, 0, 0,
                             std::string("\1\0\0\0\0\0\0\0", 8) + std::string(4, '\0')));
       }},
      {"a file descriptor",
       [](const FakePlugin& fake, const AskedEntry&) {
         fake.send_with_descriptor(packet_of(Kind::kState, 0, 0, std::string(10, '\0')));
       }},
  };
  for (const auto& [words, breach] : breaches) {
    SCOPED_TRACE(words);
    const auto fake = connect();
    const Ticket got = get(1);
    breach(*fake, fake->receive().entries.at(0));
    EXPECT_EQ(ended(got), Code::kUnavailable);
    EXPECT_TRUE(fake->ended());
    EXPECT_TRUE(away());
    EXPECT_TRUE(says(words));
  }
  works_again();
}

TEST_F(HostilePluginTest, ASecondAnswerEndsTheConnection) {
  open();
  const auto fake = connect();
  const Ticket got = get(1);
  const AskedEntry call = fake->receive().entries.at(0);
  fake->done(call.ticket, Outcome::kNotFound);
  EXPECT_EQ(ended(got), Code::kNotFound);
  fake->done(call.ticket, Outcome::kNotFound);
  EXPECT_TRUE(fake->ended());
  works_again();
}

// A service that lost its memory hands out the bytes of other keys.
// covers F-344
TEST_F(HostilePluginTest, ObjectNotMatchingItsKeyIsAMissAndRemoved) {
  open();
  const auto fake = connect();
  const std::string right = object_of(1);
  std::string damaged = right;
  damaged[70] = static_cast<char>(damaged[70] ^ 1);
  const std::vector<std::string> wrong{object_of(2), damaged, right.substr(0, right.size() - 1),
                                       right.substr(0, 100), std::string(right.size(), '\0')};
  for (const std::string& object : wrong) {
    fake->objects[key(1)] = object;
    const Ticket got = get(1);
    fake->serve();  // GET
    EXPECT_EQ(ended(got), Code::kDataLoss);
    fake->serve();  // REMOVE
    EXPECT_TRUE(fake->objects.empty());
    EXPECT_EQ(loop->flush().code(), Code::kOk);
  }
  EXPECT_EQ(tier->counters().records_corrupt, wrong.size());
}

TEST_F(HostilePluginTest, BytesWrittenIntoTheRegionAfterTheAnswerReachNoSlot) {
  open();
  const auto fake = connect();
  const Ticket stored = put(1);
  fake->serve();
  EXPECT_EQ(ended(stored), Code::kOk);
  const Ticket got = get(1);
  fake->serve();
  EXPECT_EQ(ended(got), Code::kOk);
  const std::span<std::byte> region = fake->at(0, fake->region_bytes());
  std::memset(region.data(), 0x5a, 4 << 20);
  EXPECT_TRUE(holds(last_slot(), 1, facts));
}

// covers F-345
TEST_F(HostilePluginTest, SecondPlugInIsRefusedWithAReason) {
  open();
  const auto fake = connect();
  const FakePlugin second(options.socket);
  EXPECT_EQ(second.refusal(), "another plug-in is connected");
  EXPECT_TRUE(second.ended());
  EXPECT_FALSE(tier->state().degraded());
}

TEST_F(HostilePluginTest, PlugInOfOtherProtocolIsReportedInTheStatus) {
  open();
  const FakePlugin fake(options.socket, 7);
  EXPECT_TRUE(fake.ended());
  EXPECT_TRUE(says("speaks protocol 7, larderd speaks 1"));
  works_again();
}

TEST_F(HostilePluginTest, PlugInNeverReadyIsClosed) {
  options.ready_ms = 100;
  open();
  const FakePlugin fake(options.socket, 0);
  EXPECT_TRUE(fake.ended());
  EXPECT_TRUE(says("did not become ready"));
  works_again();
}

}  // namespace
}  // namespace larder::plugin::testing_support
