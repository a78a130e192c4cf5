#include "sidecar/tiers/tier_front.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <thread>

namespace larder::tiers {
namespace {

constexpr std::uint64_t kBlock = protocol::kSlotAlignBytes;
constexpr auto kHideNothing = [](const Command&) {};

Status too_large(std::uint64_t slot_bytes, std::uint64_t most_bytes) {
  return {Code::kOutOfRange, std::to_string(slot_bytes) + " of " + std::to_string(most_bytes)};
}

bool readable(int descriptor) {
  pollfd one{descriptor, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

class TierFrontTest : public testing::Test {
 protected:
  TierFrontTest() {
    EXPECT_TRUE(front_.open().ok());
    front_.set_wake([this] { ++wakes_; });
  }
  Command command(Operation operation, std::size_t blocks = 0) {
    Command made;
    made.operation = operation;
    made.slot = std::span(memory_).first(blocks * kBlock);
    return made;
  }
  Code pushed(Operation operation, std::size_t blocks = 0) {
    return front_.push(command(operation, blocks), kHideNothing).code();
  }
  void publish(TierFront::View view = {}, std::vector<Outcome> outcomes = {}) {
    front_.publish(outcomes, std::move(view));
  }
  static TierFront::View degraded(bool puts, bool gets) {
    TierFront::View view;
    view.state = {puts, gets, "the device is away", "threads"};
    return view;
  }
  // The outcome of a command, without its slot if the device still uses the slot.
  static Outcome outcome_of(const Command& command, bool busy = false) {
    Outcome outcome;
    outcome.message.operation = command.operation;
    outcome.message.slot_busy = busy;
    outcome.freed = !busy;
    outcome.freed_bytes = busy ? 0 : command.slot.size();
    return outcome;
  }

  std::array<std::byte, 8 * kBlock> memory_{};
  base::ManualClock clock_;
  int wakes_ = 0;
  TierFront front_{clock_,
                   {.bytes = 4 * kBlock, .operations = 3, .probes = 1, .drops = 2, .evictions = 3},
                   {"closed", "too much", "too many evictions", too_large}};
};

TEST_F(TierFrontTest, FirstRefusalReasonIsReportedAndEachIsCounted) {
  publish(degraded(false, true));
  EXPECT_EQ(front_.push(command(Operation::kPut, 5), kHideNothing).text(), "the device is away");
  EXPECT_EQ(front_.push(command(Operation::kGet, 5), kHideNothing).text(), "20480 of 16384");
  publish(degraded(false, false));
  EXPECT_EQ(pushed(Operation::kProbe), Code::kUnavailable);
  EXPECT_EQ(pushed(Operation::kFlush), Code::kOk) << "a degraded tier accepts flushes and drops";
  EXPECT_EQ(pushed(Operation::kDrop), Code::kOk);
  publish();
  EXPECT_EQ(front_.refuse({Code::kInvalidArgument, "malformed"}).text(), "malformed");
  front_.close(1000);
  EXPECT_EQ(front_.push(command(Operation::kPut, 5), kHideNothing).text(), "closed");
  EXPECT_EQ(front_.counters().refused, 5U);
}

TEST_F(TierFrontTest, BytesOperationsProbesAndDropsAreBounded) {
  const Command large = command(Operation::kPut, 4);
  EXPECT_TRUE(front_.push(large, kHideNothing).ok());
  EXPECT_EQ(pushed(Operation::kGet, 1), Code::kResourceExhausted) << "bytes";
  EXPECT_EQ(pushed(Operation::kProbe), Code::kOk);
  EXPECT_EQ(pushed(Operation::kProbe), Code::kResourceExhausted) << "probes";
  EXPECT_EQ(pushed(Operation::kFlush), Code::kOk);
  EXPECT_EQ(pushed(Operation::kFlush), Code::kResourceExhausted) << "operations";
  EXPECT_EQ(front_.counters().in_flight_bytes, 4 * kBlock);

  TierFront::View view;
  view.drops = 2;
  publish(view, {outcome_of(large), outcome_of(command(Operation::kProbe))});
  EXPECT_EQ(front_.counters().in_flight_bytes, 0U);
  EXPECT_EQ(pushed(Operation::kClear), Code::kResourceExhausted) << "drops";
  EXPECT_EQ(pushed(Operation::kProbe), Code::kOk);
  EXPECT_EQ(pushed(Operation::kGet, 4), Code::kOk);
  EXPECT_EQ(front_.take().held_operations, 3U);
}

TEST_F(TierFrontTest, SlotInUseByTheDeviceStaysHeld) {
  const Command put = command(Operation::kPut, 4);
  EXPECT_TRUE(front_.push(put, kHideNothing).ok());
  publish({}, {outcome_of(put, true)});
  EXPECT_EQ(front_.counters().in_flight_bytes, 4 * kBlock);
  EXPECT_EQ(front_.take().held_operations, 1U);
  publish({}, {outcome_of(put)});
  EXPECT_EQ(front_.take().held_operations, 0U);
}

TEST_F(TierFrontTest, AnAcceptedCommandIsHiddenBeforeTheEngineSeesIt) {
  int hidden = 0;
  const auto hide = [&](const Command& command) {
    hidden += command.operation == Operation::kDrop && wakes_ == 0 ? 1 : 0;
  };
  EXPECT_TRUE(front_.push(command(Operation::kDrop), hide).ok());
  EXPECT_EQ(hidden, 1);
  EXPECT_EQ(wakes_, 1);
  front_.close(0);
  wakes_ = 0;
  EXPECT_FALSE(front_.push(command(Operation::kDrop), hide).ok());
  EXPECT_EQ(hidden, 1) << "a refused drop hides no chunk";
}

TEST_F(TierFrontTest, ForgetsAndEvictionsAreBoundedAndNotCounted) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(front_.evict({}).ok());
  EXPECT_EQ(front_.evict({}).text(), "too many evictions");
  for (int i = 0; i < 9; ++i) front_.forget({}, 7);
  const std::vector<Command> commands = front_.take().commands;
  ASSERT_EQ(commands.size(), 6U) << "three forgets beside three evictions";
  EXPECT_EQ(commands.back().kind, Command::Kind::kForget);
  EXPECT_EQ(commands.back().facts.generation, 7U);

  TierFront::View view = degraded(false, false);
  view.evictions = 2;
  publish(view);
  EXPECT_EQ(front_.evict({}).text(), "the device is away");
  EXPECT_EQ(front_.take().commands.size(), 1U) << "accepted all the same";
  EXPECT_EQ(front_.counters().refused, 0U);
}

TEST_F(TierFrontTest, TheDescriptorIsReadableWhileMessagesWait) {
  std::vector<Message> messages;
  EXPECT_FALSE(readable(front_.message_fd()));
  publish();
  EXPECT_FALSE(readable(front_.message_fd())) << "no outcome, no message";
  Outcome outcome;
  outcome.message.ticket = 1;
  outcome.freed = false;
  publish({}, {outcome});
  EXPECT_TRUE(readable(front_.message_fd()));
  front_.take_messages(messages);
  EXPECT_FALSE(readable(front_.message_fd()));
  Message answer;
  answer.ticket = 2;
  EXPECT_TRUE(front_.answer(answer).ok());
  EXPECT_TRUE(readable(front_.message_fd()));
  front_.take_messages(messages);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].ticket, 1U);
  EXPECT_EQ(messages[1].ticket, 2U);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(front_.answer({}).ok());
  EXPECT_EQ(front_.answer({}).code(), Code::kResourceExhausted);
  publish(degraded(true, false));
  EXPECT_EQ(front_.answer({}).code(), Code::kUnavailable);
  EXPECT_EQ(front_.counters().refused, 2U);
}

TEST_F(TierFrontTest, AClosedFrontKeepsTheModeAndEndsOnce) {
  publish(degraded(true, false));
  front_.close(20);
  EXPECT_EQ(front_.state().reason, "closed");
  EXPECT_EQ(front_.state().mode, "threads");
  EXPECT_TRUE(front_.state().degraded());
  const TierFront::Taken taken = front_.take();
  EXPECT_TRUE(taken.closed);
  EXPECT_EQ(taken.close_by_ns, clock_.now_ns() + 20'000'000);
  EXPECT_FALSE(front_.wait_ended(0));
  front_.end();
  EXPECT_TRUE(front_.wait_ended(0));
  EXPECT_TRUE(front_.wait_ended(std::nullopt));
  wakes_ = 0;
  front_.close(20);
  EXPECT_EQ(wakes_, 0) << "the engine may be gone";
}

TEST_F(TierFrontTest, PushIsThreadSafe) {
  std::atomic<std::uint64_t> accepted = 0;
  std::uint64_t taken = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int n = 0; n < 1000; ++n) accepted += pushed(Operation::kGet, 1) == Code::kOk ? 1 : 0;
      });
    std::vector<Message> messages;
    for (int turn = 0; turn < 1000; ++turn) {
      std::vector<Outcome> outcomes;
      for (const Command& command : front_.take().commands) outcomes.push_back(outcome_of(command));
      taken += outcomes.size();
      front_.publish(outcomes, {});
      front_.take_messages(messages);
    }
  }
  taken += front_.take().commands.size();
  EXPECT_EQ(taken, accepted.load());
}

}  // namespace
}  // namespace larder::tiers
