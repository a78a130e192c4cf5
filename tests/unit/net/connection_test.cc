// One connection over a stream in the test's hands: the answer of each command, and the end of the
// connection.
#include "sidecar/net/connection.h"

#include <gtest/gtest.h>

#include "tests/unit/net/scripted_stream.h"

namespace larder::net::testing_support {
namespace {

class ConnectionTest : public testing::Test {
 protected:
  struct Seen {
    std::string lost;
    Reply reply;
    int times = 0;
  };
  std::size_t ask(const char* types, std::span<std::byte> target = {},
                  std::span<const std::byte> body = {}, std::uint64_t owner = 1) {
    const std::size_t number = seen_.size();
    seen_.emplace_back();
    Request request;
    request.around = {"<" + std::to_string(number), ">"};
    request.body = body;
    request.expect = {types, target.size(), target};
    request.owner = owner;
    request.then = [this, number](const Status& lost, Reply reply) {
      seen_[number].lost = lost.text();
      seen_[number].reply = std::move(reply);
      ++seen_[number].times;
    };
    connection_.ask(std::move(request), 0);
    return number;
  }
  Status hear(const std::string& bytes) {
    wire_->to_us += bytes;
    Status status;
    bool more = true;
    // At least as often as there are bytes to send one at a time.
    for (int i = 0; status.ok() && (i < 100 || more || !wire_->to_us.empty()); ++i)
      status = connection_.pump(0, more);
    return status;
  }

  std::shared_ptr<Wire> wire_ = std::make_shared<Wire>();
  Connection connection_{std::make_unique<ScriptedStream>(wire_)};
  std::deque<Seen> seen_;
  std::vector<std::byte> slot_ = std::vector<std::byte>(100'000, std::byte{0xee});
};

TEST_F(ConnectionTest, RepliesMatchCommandsInOrder) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{1000}, SIZE_MAX}) {
    wire_->receive_at_most = wire_->send_at_most = piece;
    seen_.clear();
    wire_->from_us.clear();
    const std::string payload(50'000, 'p'), body = "a body";
    ask("+", {}, std::as_bytes(std::span(body)));
    ask("$", std::span(slot_).first(payload.size()));
    ask("$");
    ask("$", std::span(slot_).subspan(60'000, 3));
    ASSERT_TRUE(hear("").ok());
    EXPECT_EQ(wire_->from_us, "<0a body><1><2><3>");
    ASSERT_TRUE(hear("-OOM full\r\n$50000\r\n" + payload + "\r\n$-1\r\n$2\r\nxy\r\n").ok());
    for (const Seen& seen : seen_) EXPECT_EQ(seen.times, 1);
    EXPECT_EQ(seen_[0].reply.text, "OOM full");
    EXPECT_EQ(seen_[1].reply.integer, 50'000);
    EXPECT_EQ(seen_[2].reply.kind, Reply::Kind::kNil);
    EXPECT_EQ(seen_[3].reply.integer, 2) << "shorter than asked for";
    EXPECT_EQ(std::memcmp(slot_.data(), payload.data(), payload.size()), 0);
    EXPECT_EQ(slot_[payload.size()], std::byte{0xee}) << "not a byte beyond";
    EXPECT_EQ(connection_.commands(), 0U);
    EXPECT_EQ(connection_.bytes(), 0U);
  }
}

// Redis reads no value with too large a length: Redis says so and hangs up. Once this was taken for
// a reply without a request.
TEST_F(ConnectionTest, ErrorToHalfSentCommandAnswersItAndClosesTheConnection) {
  const std::string body(1000, 'b');
  wire_->send_at_most = 1;
  ask("+", {}, std::as_bytes(std::span(body)));
  ask("$");
  const Status ended = hear("-ERR Protocol error: invalid bulk length\r\n");
  EXPECT_FALSE(ended.ok());
  EXPECT_EQ(seen_[0].times, 1);
  EXPECT_EQ(seen_[0].reply.text, "ERR Protocol error: invalid bulk length");
  EXPECT_EQ(seen_[1].times, 0);
  connection_.close(ended);
  EXPECT_EQ(seen_[0].times, 1);
  EXPECT_EQ(seen_[1].times, 1);
  EXPECT_EQ(seen_[1].lost, "the server refused a command before it was sent");
  EXPECT_EQ(connection_.bytes(), 0U);
}

// covers F-168
TEST_F(ConnectionTest, UnexpectedReplyTypeClosesTheConnection) {
  const std::string bulk = "$" + std::to_string(kMaxBulkBytes + 1) + "\r\n";
  for (const std::string& reply :
       {std::string("+OK\r\n"), std::string("*1\r\n+x\r\n"), std::string(":1\r\n"),
        std::string("HTTP/1.1 400\r\n"), std::string("$-3\r\n"), std::string("$x\r\n"),
        std::string("$123456789012345678901234\r\n"), bulk, std::string("$2\r\nabX\r\n")}) {
    auto wire = std::make_shared<Wire>();
    Connection connection(std::make_unique<ScriptedStream>(wire));
    int lost = 0, answered = 0;
    for (int i = 0; i < 3; ++i) {
      Request request;
      request.around.before = "x";
      request.expect.types = "$";
      request.then = [&](const Status& why, const Reply&) { ++(why.ok() ? answered : lost); };
      connection.ask(std::move(request), 0);
    }
    wire->to_us = "$1\r\na\r\n" + reply;
    bool more = false;
    const Status status = connection.pump(0, more);
    EXPECT_FALSE(status.ok()) << reply;
    connection.close(status);
    EXPECT_EQ(answered, 1) << reply;
    EXPECT_EQ(lost, 2) << reply;
  }
}

TEST_F(ConnectionTest, TooLongPayloadIsDiscardedUpToABound) {
  const std::string big(100'000, 'x');
  ask("$", std::span(slot_).first(10));
  ask("$", std::span(slot_).subspan(50, 2));
  ASSERT_TRUE(hear("$100000\r\n" + big + "\r\n$2\r\nab\r\n").ok());
  EXPECT_EQ(seen_[0].reply.integer, 100'000);
  EXPECT_EQ(slot_[0], std::byte{0xee});
  EXPECT_EQ(seen_[1].reply.integer, 2);
  EXPECT_EQ(slot_[51], std::byte{'b'});
  EXPECT_EQ(connection_.bytes(), 0U);
  ask("$", std::span(slot_).first(10));
  EXPECT_FALSE(hear("$100000000\r\n").ok());
}

TEST_F(ConnectionTest, PayloadWithoutTerminatorClosesTheConnection) {
  ask("$", std::span(slot_).first(3));
  EXPECT_FALSE(hear("$3\r\nabc+OK\r\n").ok());
}

TEST_F(ConnectionTest, UnrequestedReplyClosesTheConnection) {
  EXPECT_FALSE(hear("+OK\r\n").ok());
}

TEST_F(ConnectionTest, CancelledReplyIsDiscardedAndShiftsNoOther) {
  const std::string old(30'000, 'o'), next(30'000, 'n');
  ask("$", std::span(slot_).first(30'000), {}, 5);
  ask("$", std::span(slot_).subspan(40'000, 30'000), {}, 6);
  ASSERT_TRUE(hear("").ok());
  EXPECT_TRUE(connection_.cancel(5));
  ASSERT_TRUE(hear("$30000\r\n" + old + "\r\n$30000\r\n" + next + "\r\n").ok());
  EXPECT_EQ(seen_[0].times, 0);
  EXPECT_EQ(slot_[0], std::byte{0xee});
  EXPECT_EQ(seen_[1].times, 1);
  EXPECT_EQ(std::memcmp(slot_.data() + 40'000, next.data(), next.size()), 0);
}

// A server builds all requested replies before it sends the first: its memory, and the time to
// receive.
TEST_F(ConnectionTest, RequestsAreBoundedByTheWindow) {
  constexpr std::size_t kPart = 2 << 20;
  slot_.resize(3 * kPart);
  ask("+");
  ASSERT_TRUE(hear("+PONG\r\n").ok()) << "at once: the link is short";
  wire_->from_us.clear();
  for (std::size_t i = 0; i < 3; ++i) ask("$", std::span(slot_).subspan(i * kPart, kPart));
  ask(":");
  ASSERT_TRUE(hear("").ok());
  EXPECT_EQ(wire_->from_us, "<1><2>");
  EXPECT_FALSE(connection_.has_unsent()) << "no later call is needed for the bytes";
  EXPECT_FALSE(connection_.wants_write());
  ASSERT_TRUE(hear("$2097152\r\n" + std::string(kPart, 'a')).ok());
  EXPECT_EQ(wire_->from_us, "<1><2>");
  ASSERT_TRUE(hear("\r\n").ok());
  EXPECT_EQ(wire_->from_us, "<1><2><3><4>");
  const std::string second = "$2097152\r\n" + std::string(kPart, 'b') + "\r\n",
                    third = "$1\r\nc\r\n";
  ASSERT_TRUE(hear(second + third + ":7\r\n").ok());
  EXPECT_EQ(slot_[2 * kPart], std::byte{'c'});
  EXPECT_EQ(seen_[4].reply.integer, 7);
  // Commands that are held back can be taken back.
  for (std::size_t i = 0; i < 3; ++i)
    ask("$", std::span(slot_).subspan(i * kPart, kPart), {}, 5 + i);
  ASSERT_TRUE(hear("").ok());
  EXPECT_TRUE(connection_.cancel(7));
  ASSERT_TRUE(hear(third + third).ok());
  EXPECT_EQ(wire_->from_us, "<1><2><3><4><5><6>");
  EXPECT_EQ(connection_.commands(), 0U);
}

// The server reads together the bytes that lie there together, and copies them to their place: a
// length that came alone names the place.
TEST_F(ConnectionTest, BodyWaitsForThePreviousAnswerAndItsLengthDoesNot) {
  for (const std::size_t piece : {std::size_t{10'000}, SIZE_MAX}) {
    wire_->send_at_most = piece;
    const std::string first(300'000, 'f'), second(300'000, 's');
    ask("+");
    ASSERT_TRUE(hear("").ok() && hear("+PONG\r\n").ok()) << "at once: the link is short";
    wire_->from_us.clear();
    const std::size_t at = ask("+", {}, std::as_bytes(std::span(first)), 5);
    ask("+", {}, std::as_bytes(std::span(second)), 6);
    ask("+");
    ASSERT_TRUE(hear("").ok());
    const auto number = [at](std::size_t more) { return "<" + std::to_string(at + more); };
    EXPECT_EQ(wire_->from_us, number(0) + first + ">" + number(1));
    EXPECT_FALSE(connection_.has_unsent()) << "no later call is needed for the bytes";
    EXPECT_FALSE(connection_.wants_write());
    EXPECT_EQ(connection_.bytes(), first.size() + second.size())
        << "a sent and unanswered command counts";
    EXPECT_FALSE(connection_.cancel(6)) << "its length is there";
    ASSERT_TRUE(hear("+OK\r\n").ok());
    EXPECT_EQ(wire_->from_us, number(0) + first + ">" + number(1) + second + ">" + number(2) + ">");
    ASSERT_TRUE(hear("+OK\r\n+OK\r\n").ok());
    EXPECT_EQ(connection_.commands(), 0U);
    EXPECT_EQ(connection_.bytes(), 0U);
  }
}

// Redis keeps bytes that come alone in the memory that Redis made ready for the length before.
TEST_F(ConnectionTest, SmallBodyIsSentWithItsLengthAndAwaitedLikeALongOne) {
  const std::string first(300'000, 'f'), small = "small", last(300'000, 'l');
  ask("+");
  ASSERT_TRUE(hear("").ok() && hear("+PONG\r\n").ok());
  wire_->from_us.clear();
  for (const std::string& body : {std::cref(first), std::cref(small), std::cref(last)})
    ask("+", {}, std::as_bytes(std::span(body)));
  wire_->send_at_most = first.size() + 5;
  bool more = false;
  ASSERT_TRUE(connection_.pump(0, more).ok());
  EXPECT_EQ(wire_->from_us, "<1" + first + "><2");
  EXPECT_TRUE(connection_.wants_write());
  ASSERT_TRUE(hear("").ok());
  EXPECT_EQ(wire_->from_us, "<1" + first + "><2small><3");
  EXPECT_FALSE(connection_.wants_write());
  ASSERT_TRUE(hear("+OK\r\n").ok());
  EXPECT_EQ(wire_->from_us, "<1" + first + "><2small><3");
  ASSERT_TRUE(hear("+OK\r\n").ok());
  EXPECT_EQ(wire_->from_us, "<1" + first + "><2small><3" + last + ">");
}

TEST_F(ConnectionTest, LongLinkSendsBodiesWithoutWaiting) {
  ask("+");
  bool more = false;
  wire_->to_us = "+PONG\r\n";
  ASSERT_TRUE(connection_.pump(20'000'000, more).ok());
  const std::vector<std::byte> body(2 << 20);
  for (int i = 0; i < 4; ++i) ask("+", {}, body);
  ASSERT_TRUE(connection_.pump(20'000'000, more).ok());
  EXPECT_GT(wire_->from_us.size(), 4 * body.size());
}

// An ASKING is of the command behind: the next one would be taken for that.
TEST_F(ConnectionTest, PrefixCommandIsNeverSentAlone) {
  constexpr std::size_t kPart = 2 << 20;
  slot_.resize(3 * kPart);
  ask("+");
  ASSERT_TRUE(hear("+PONG\r\n").ok());
  wire_->from_us.clear();
  for (std::size_t i = 0; i < 2; ++i) ask("$", std::span(slot_).subspan(i * kPart, kPart));
  ask("+", {}, {}, 9);
  Request behind;
  behind.around.before = "GET";
  behind.expect = {"$", kPart, std::span(slot_).subspan(2 * kPart)};
  behind.owner = 9;
  behind.with_former = true;
  connection_.ask(std::move(behind), 0);
  ASSERT_TRUE(hear("").ok());
  ASSERT_EQ(wire_->from_us, "<1><2><3>") << "the window is full";
  EXPECT_TRUE(connection_.cancel(9));
  const std::size_t next = ask("+");
  ASSERT_TRUE(hear("$1\r\na\r\n$1\r\nb\r\n").ok() && hear("+OK\r\n$1\r\nc\r\n+OK\r\n").ok());
  EXPECT_EQ(wire_->from_us, "<1><2><3>GET<4>");
  EXPECT_EQ(slot_[2 * kPart], std::byte{0}) << "no command waits for the answer any more";
  EXPECT_EQ(seen_[next].times, 1);
  EXPECT_EQ(connection_.commands(), 0U);
}

// Otherwise the server, which has answered all known commands, waits until all received bytes have
// been taken.
TEST_F(ConnectionTest, NextRequestIsSentBeforeThePreviousReplyIsComplete) {
  constexpr std::size_t kPart = 2 << 20;
  slot_.resize(3 * kPart);
  ask("+");
  ASSERT_TRUE(hear("+PONG\r\n").ok());
  wire_->from_us.clear();
  for (std::size_t i = 0; i < 3; ++i) ask("$", std::span(slot_).subspan(i * kPart, kPart));
  ASSERT_TRUE(hear("").ok());
  EXPECT_EQ(wire_->from_us, "<1><2>");
  wire_->to_us =
      "$2097152\r\n" + std::string(kPart, 'a') + "\r\n$2097152\r\n" + std::string(kPart / 2, 'b');
  bool more = false;
  ASSERT_TRUE(connection_.pump(0, more).ok());
  EXPECT_EQ(seen_[1].times, 1);
  EXPECT_EQ(wire_->from_us, "<1><2><3>") << "in the turn in which the first came, not in the next";
}

// covers F-166
TEST_F(ConnectionTest, HalfReceivedOrHalfSentCommandCannotBeCancelled) {
  ask("$", std::span(slot_).first(1000), {}, 5);
  ASSERT_TRUE(hear("$1000\r\nabc").ok());
  EXPECT_FALSE(connection_.cancel(5));
  connection_.close({Code::kDeadlineExceeded, "late"});
  EXPECT_EQ(seen_[0].lost, "late");

  auto wire = std::make_shared<Wire>();
  wire->send_at_most = 4;
  Connection sending(std::make_unique<ScriptedStream>(wire));
  Request request;
  request.around.before = "SET";
  request.body = std::span<const std::byte>(slot_).first(1000);
  request.expect.types = "+";
  request.owner = 7;
  sending.ask(std::move(request), 0);
  bool more = false;
  ASSERT_TRUE(sending.pump(0, more).ok());
  EXPECT_FALSE(sending.cancel(7));
}

TEST_F(ConnectionTest, CancelledPayloadIsDiscardedWhileTheConnectionIsKept) {
  const std::string old(30'000, 'o'), next(30'000, 'n');
  ask("$", std::span(slot_).first(30'000), {}, 5);
  ask("$", std::span(slot_).subspan(40'000, 30'000), {}, 6);
  ASSERT_TRUE(hear("$30000\r\n" + old.substr(0, 10'000)).ok());
  EXPECT_FALSE(connection_.cancel(5));
  EXPECT_TRUE(connection_.cancel(5, true));
  std::fill(slot_.begin(), slot_.end(), std::byte{0x11});
  ASSERT_TRUE(hear(old.substr(10'000) + "\r\n$30000\r\n" + next + "\r\n").ok());
  EXPECT_EQ(seen_[0].times, 0);
  EXPECT_EQ(slot_[20'000], std::byte{0x11});
  EXPECT_EQ(seen_[1].times, 1);
  EXPECT_EQ(std::memcmp(slot_.data() + 40'000, next.data(), next.size()), 0);
  EXPECT_EQ(connection_.commands(), 0U);
  EXPECT_EQ(connection_.bytes(), 0U);
}

TEST_F(ConnectionTest, UnsentCommandIsWithdrawn) {
  ask("+", {}, {}, 5);
  ask("+", {}, {}, 6);
  EXPECT_TRUE(connection_.cancel(5));
  ASSERT_TRUE(hear("+OK\r\n").ok());
  EXPECT_EQ(wire_->from_us, "<1>");
  EXPECT_EQ(seen_[1].reply.text, "OK");
  EXPECT_EQ(seen_[0].times, 0);
}

// TLS keeps a record that could not be written: its bytes go out, even after their command is taken
// back.
// covers F-167
TEST_F(ConnectionTest, HeldTlsRecordIsSentAndItsReplyDiscarded) {
  const std::string body(20, 'b');
  wire_->record_bytes = 8;
  wire_->blocked = true;
  // <0><1><2><3>, of which <2> is half in the record
  for (std::uint64_t owner = 5; owner <= 8; ++owner) ask("+", {}, {}, owner);
  ASSERT_TRUE(hear("").ok());
  EXPECT_TRUE(connection_.cancel(6) && connection_.cancel(7) && connection_.cancel(8));
  ask("+", {}, std::as_bytes(std::span(body)), 9);
  wire_->blocked = false;
  ASSERT_TRUE(hear("+zero\r\n+one\r\n+two\r\n+four\r\n").ok());
  EXPECT_EQ(wire_->from_us, "<0><1><2><4" + body + ">");
  EXPECT_EQ(seen_[0].reply.text, "zero");
  EXPECT_EQ(seen_[4].reply.text, "four");
  EXPECT_EQ(seen_[1].times + seen_[2].times + seen_[3].times, 0);
  // A body is not its owner's any more after it is taken back: a held part of a body takes a close.
  wire_->blocked = true;
  ask("+", {}, {}, 10);
  ask("+", {}, std::as_bytes(std::span(body)), 11);
  ask("+", {}, std::as_bytes(std::span(body)), 12);
  ASSERT_TRUE(hear("").ok());
  EXPECT_TRUE(connection_.cancel(12));
  EXPECT_FALSE(connection_.cancel(11));
}

TEST_F(ConnectionTest, EndOfStreamIsReported) {
  ask("+");
  wire_->closed = true;
  bool more = false;
  const Status status = connection_.pump(0, more);
  EXPECT_EQ(status.code(), Code::kUnavailable);
}

// Like a server that wants a client's certificate: it says so and hangs up, before it reads our
// bytes.
// covers F-207
TEST_F(ConnectionTest, LastReplyIsReadBeforeTheHangup) {
  const std::size_t first = ask("+");
  ASSERT_TRUE(hear("").ok());
  ask("+");
  wire_->deaf = true;
  EXPECT_EQ(hear("+OK\r\n").text(), "deaf");
  EXPECT_EQ(seen_[first].reply.text, "OK");
  wire_->closed = true;
  EXPECT_EQ(hear("").text(), "closed");
}

}  // namespace
}  // namespace larder::net::testing_support
