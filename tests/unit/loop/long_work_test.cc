// Large requests are done in slices, one a turn of the loop, and other sessions are answered in
// between.
#include <sys/wait.h>

#include <future>

#include "sidecar/loop/control_queue.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {
namespace {

using protocol::Verb;

class SlicedWorkTest : public SidecarTest {
 protected:
  void SetUp() override { start(); }

  // A namespace in which an ACT takes a slice for each shard; at most as many as there may be.
  static std::uint32_t open_large(Client& client, std::uint32_t shards = protocol::kMaxShards) {
    protocol::OpenNamespace open{};
    const std::string text = "shards: " + std::to_string(shards) + "\n";
    open.id = protocol::namespace_id(text);
    open.shard_count = shards;
    open.group_count = protocol::kMaxGroups;
    open.text_bytes = static_cast<std::uint32_t>(text.size());
    protocol::Encoder encoder(MessageType::kOpenNamespace, 0);
    encoder.append(open);
    for (std::uint32_t group = 0; group < protocol::kMaxGroups; ++group)
      encoder.append(protocol::GroupLayout{4096, 1, 0});
    EXPECT_TRUE(client.send(encoder.append_text(text)).ok());
    const Result<protocol::Packet> packet = client.receive();
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    protocol::Namespace opened{};
    EXPECT_TRUE(decoder.ok() && decoder->type() == MessageType::kNamespace &&
                decoder->read(opened));
    return opened.handle;
  }
  static void send_act(Client& client, std::uint32_t handle, Verb verb = Verb::kPrefetch) {
    protocol::Encoder encoder(MessageType::kAct, 9);
    encoder.append(
        protocol::Act{handle, static_cast<std::uint32_t>(verb), protocol::kMaxKeysPerAct, 0});
    for (std::uint64_t n = 0; n < protocol::kMaxKeysPerAct; ++n)
      encoder.append(protocol::BlockHash{n, n});
    ASSERT_TRUE(client.send(encoder).ok());
  }
  static MessageType next_type(Client& client) {
    const Result<protocol::Packet> packet = client.receive();
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    const Result<protocol::Decoder> decoder =
        protocol::Decoder::open(packet.ok() ? packet->bytes : std::vector<std::byte>());
    return decoder.ok() ? decoder->type() : MessageType::kError;
  }
};

// The first chunk is gone: the ACT has begun. The last one is there when the other session is
// answered: the ACT has not ended. A test that stands still for the time of all slices sees no
// slice, so the test looks more than once.
TEST_F(SlicedWorkTest, OtherSessionsAreAnsweredMeanwhile) {
  Client large(config_.socket), other(config_.socket);
  large.attach();
  other.attach();
  const std::uint32_t large_handle = open_large(large), handle = other.open_namespace("a: 1\n");
  constexpr std::uint64_t kLast = protocol::kMaxKeysPerAct - 1;
  const protocol::IndexReader index = large.index();
  const auto has = [&](std::uint64_t n) {
    return index.find({{n, n}, large_handle, 0, 0}).has_value();
  };
  bool other_first = false;
  for (int i = 0; i < 20 && !other_first; ++i) {
    for (const protocol::Grant& grant : large.reserve(large_handle, {{0, 0}, {kLast, kLast}}))
      large.commit(grant, 1);
    EXPECT_EQ(large.reserve(large_handle, {}).size(), 0U);
    ASSERT_TRUE(has(0) && has(kLast));
    send_act(large, large_handle, Verb::kEvict);
    while (has(0)) {
    }
    EXPECT_EQ(other.reserve(handle, {}).size(), 0U);
    other_first = has(kLast);
    EXPECT_EQ(next_type(large), MessageType::kActed);
    EXPECT_FALSE(has(kLast));
  }
  EXPECT_TRUE(other_first);
}

TEST_F(SlicedWorkTest, MessagesOfTheSessionWait) {
  Client large(config_.socket);
  large.attach();
  const std::uint32_t handle = open_large(large);
  send_act(large, handle);
  protocol::Encoder encoder(MessageType::kReserve, 0);
  ASSERT_TRUE(large.send(encoder.append(protocol::Reserve{handle, 0, 0, 0, 0})).ok());
  EXPECT_EQ(next_type(large), MessageType::kActed);
  EXPECT_EQ(next_type(large), MessageType::kGranted);
  EXPECT_TRUE(wait([&] { return stats().asked_to_prefetch == protocol::kMaxKeysPerAct; }));
}

TEST_F(SlicedWorkTest, SessionEndingDuringSlicedWorkIsHandled) {
  Client other(config_.socket);
  other.attach();
  const std::uint32_t handle = other.open_namespace("a: 1\n");
  for (std::uint64_t i = 0; i < 5; ++i) {
    Client large(config_.socket);
    large.attach();
    send_act(large, open_large(large, 16));  // of 256 the five take 20 s under ThreadSanitizer
    large.close();
    EXPECT_EQ(other.reserve(handle, {{i, 1}}).size(), 1U);
  }
  EXPECT_TRUE(wait([&] { return stats().sessions_ended == 5; }));
}

TEST_F(SlicedWorkTest, StopFinishesSlicedWork) {
  constexpr std::uint64_t kLast = protocol::kMaxKeysPerAct - 1;
  {
    Client large(config_.socket);
    large.attach();
    const std::uint32_t handle = open_large(large);
    for (const protocol::Grant& grant : large.reserve(handle, {{0, 0}, {kLast, kLast}}))
      large.commit(grant, 1);
    EXPECT_EQ(large.reserve(handle, {}).size(), 0U);
    const protocol::IndexReader index = large.index();
    send_act(large, handle, Verb::kEvict);
    while (index.find({{0, 0}, handle, 0, 0})) {
    }
    stop();
  }
  start();
  EXPECT_EQ(stats().slots_committed, 0U) << "the restart brought back dropped chunks";
}

TEST_F(SlicedWorkTest, WorkOfADeadProcessIsFinished) {
  stop();  // a child is made while there is one thread
  constexpr std::uint64_t kLast = protocol::kMaxKeysPerAct - 1;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!wait([&] { return Client(config_.socket).connected(); })) ::_exit(1);
    Client large(config_.socket);
    large.attach();
    const std::uint32_t handle = open_large(large);
    std::vector<protocol::Grant> grants;
    if (!wait([&] {
          return (grants = large.reserve(handle, {{0, 0}, {kLast, kLast}})).at(1).status == 0;
        }))
      ::_exit(2);
    for (const protocol::Grant& grant : grants) large.commit(grant, 1);
    large.reserve(handle, {});
    const protocol::IndexReader index = large.index();
    const bool stored =
        index.find({{0, 0}, handle, 0, 0}) && index.find({{kLast, kLast}, handle, 0, 0});
    send_act(large, handle, Verb::kEvict);
    ::_exit(stored ? 0 : 3);
  }
  start();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(wait([&] { return stats().sessions_ended == 1; }));
  EXPECT_EQ(stats().slots_committed, 0U);
}

TEST(ControlQueue, RunsOneSliceATime) {
  int wakes = 0;
  ControlQueue queue([&wakes] { ++wakes; });
  EXPECT_FALSE(queue.go_on());
  std::atomic<int> slices{0};
  auto answer = std::async(std::launch::async, [&] {
    return queue.call(
        [&]() -> std::optional<Result<std::uint64_t>> {
          if (++slices < 3) return std::nullopt;
          return Result<std::uint64_t>(7);
        },
        5000);
  });
  while (!queue.go_on()) std::this_thread::yield();
  EXPECT_EQ(slices, 1);
  EXPECT_TRUE(queue.go_on());
  EXPECT_TRUE(queue.go_on());
  EXPECT_EQ(*answer.get(), 7U);
  EXPECT_FALSE(queue.go_on());
  EXPECT_EQ(wakes, 1);
}

TEST(ControlQueue, CommandNotStartedInTimeIsDiscarded) {
  ControlQueue queue([] {});
  int slices = 0;
  const auto command = [&]() -> std::optional<Result<std::uint64_t>> {
    return ++slices, Result<std::uint64_t>(1);
  };
  EXPECT_EQ(queue.call(command, 1).status().code(), Code::kDeadlineExceeded);
  EXPECT_FALSE(queue.go_on());
  EXPECT_EQ(slices, 0);
  queue.close();
  EXPECT_EQ(queue.call(command, 1000).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace larder::loop::testing_support
