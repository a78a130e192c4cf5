// Malformed, unexpected and truncated messages end their session with a named error, and no other
// session notices.
#include <sys/resource.h>

#include <algorithm>
#include <random>

#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {
namespace {

using protocol::Encoder;

class HostileTest : public SidecarTest {
 protected:
  void SetUp() override {
    start();
    bystander_ = std::make_unique<Client>(config_.socket);
    bystander_->attach();
    handle_ = bystander_->open_namespace("a: 1");
    hostile_ = std::make_unique<Client>(config_.socket);
  }

  // The session ended with this error, the error was counted, and the other engine is still served.
  void expect_ended(Code code, const std::string& text) {
    const Status status = hostile_->receive_error();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.text().find(text), std::string::npos) << status.to_string();
    EXPECT_EQ(hostile_->receive().status().code(), Code::kUnavailable);
    EXPECT_TRUE(wait([&] { return stats().protocol_errors == 1; }));
    EXPECT_EQ(bystander_->reserve(handle_, {{9, 9}}).size(), 1U);
  }

  std::unique_ptr<Client> bystander_, hostile_;
  std::uint32_t handle_ = 0;
};

// covers F-104
TEST_F(HostileTest, Garbage) {
  const std::vector<std::byte> garbage(100, std::byte{0xab});
  ASSERT_TRUE(hostile_->send_raw(garbage).ok());
  expect_ended(Code::kInvalidArgument, "wrong magic");
}

// covers F-104
TEST_F(HostileTest, AMessageShorterThanItsHeader) {
  const std::vector<std::byte> garbage(3, std::byte{0});
  ASSERT_TRUE(hostile_->send_raw(garbage).ok());
  expect_ended(Code::kInvalidArgument, "shorter than its header");
}

// covers F-104
TEST_F(HostileTest, APacketOverTheLimit) {
  const std::vector<std::byte> large(protocol::kMaxPacketBytes + 1);
  ASSERT_EQ(::send(hostile_->socket(), large.data(), large.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(large.size()));
  expect_ended(Code::kInvalidArgument, "over its limit");
}

// covers F-104, F-111
TEST_F(HostileTest, UnknownMajorVersion) {
  ASSERT_TRUE(hostile_->hello(9).ok());
  expect_ended(Code::kUnsupported, "protocol version 9 is not served: this larderd speaks 1.11");
}

// covers F-104
TEST_F(HostileTest, UnknownMessageType) {
  hostile_->attach();
  Encoder encoder(static_cast<MessageType>(999), 0);
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument, "message type 999 is unknown");
}

// covers F-104
TEST_F(HostileTest, ReserveBeforeHello) {
  Encoder encoder(MessageType::kReserve, 0);
  encoder.append(protocol::Reserve{});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kFailedPrecondition, "RESERVE where HELLO was expected");
}

// covers F-104
TEST_F(HostileTest, HelloTwice) {
  hostile_->attach();
  ASSERT_TRUE(hostile_->hello().ok());
  expect_ended(Code::kFailedPrecondition, "HELLO where a request was expected");
}

// covers F-104
TEST_F(HostileTest, AttachedWithoutTheLock) {
  ASSERT_TRUE(hostile_->hello().ok());
  ASSERT_TRUE(hostile_->receive().ok());
  Encoder encoder(MessageType::kAttached, 0);
  encoder.append(protocol::Attached{0, 0});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kFailedPrecondition, "lock file is not locked");
}

// covers F-104
TEST_F(HostileTest, Descriptors) {
  hostile_->attach();
  Encoder encoder(MessageType::kReserve, 0);
  encoder.append(protocol::Reserve{});
  const int fds[] = {0};
  ASSERT_TRUE(hostile_->send(encoder, fds).ok());
  expect_ended(Code::kInvalidArgument, "descriptors only with EXPORT");
}

// covers F-104
TEST_F(HostileTest, ACountBeyondThePacket) {
  hostile_->attach();
  Encoder encoder(MessageType::kCommit, 0);
  encoder.append(protocol::SlotList{1000, 0});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument, "COMMIT: count 1000");
}

// covers F-104
TEST_F(HostileTest, ParentsOfUnreservedChunks) {
  hostile_->attach();
  Encoder encoder(MessageType::kReserve, 0);
  encoder.append(protocol::Reserve{hostile_->open_namespace("a: 1"), 0, 0, 2, 1});
  for (std::uint64_t n = 1; n <= 3; ++n) encoder.append(protocol::BlockHash{n, n});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument, "RESERVE: parents 1 is neither 0 nor the count 2");
}

// covers F-104
TEST_F(HostileTest, ParentsBeyondThePacket) {
  hostile_->attach();
  Encoder encoder(MessageType::kReserve, 0);
  encoder.append(protocol::Reserve{hostile_->open_namespace("a: 1"), 0, 0, 2, 2});
  for (std::uint64_t n = 1; n <= 3; ++n) encoder.append(protocol::BlockHash{n, n});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument, "RESERVE: parents 2 is over the packet");
}

// covers F-104
TEST_F(HostileTest, NamespaceNotOpenedByTheSession) {
  hostile_->attach();
  Encoder encoder(MessageType::kReserve, 0);
  encoder.append(protocol::Reserve{handle_, 0, 0, 0, 0});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument, "has not opened namespace");
}

// covers F-104
TEST_F(HostileTest, UnknownVerb) {
  hostile_->attach();
  Encoder encoder(MessageType::kAct, 1);
  encoder.append(protocol::Act{hostile_->open_namespace("a: 1"), 9, 0, 0});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kUnsupported, "verb 9 is unknown");
}

// covers F-104
TEST_F(HostileTest, VerbOnAForeignNamespace) {
  hostile_->attach();
  Encoder encoder(MessageType::kAct, 1);
  encoder.append(protocol::Act{handle_, static_cast<std::uint32_t>(protocol::Verb::kEvict), 0, 0});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument, "has not opened namespace");
}

// covers F-104
TEST_F(HostileTest, VerbWithMissingHashes) {
  hostile_->attach();
  Encoder encoder(MessageType::kAct, 1);
  encoder.append(protocol::Act{hostile_->open_namespace("a: 1"), 1, 2, 0})
      .append(protocol::BlockHash{1, 1});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument, "count 2 is over the limit or the packet");
}

// covers F-104
TEST_F(HostileTest, MoreGrantsStillWrittenThanTheLimit) {
  hostile_->attach();
  Encoder encoder(MessageType::kStillWriting, 0);
  encoder.append(protocol::SlotList{0xffffffff, 0});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument,
               "STILL_WRITING: count 4294967295 is over the limit or the packet");
}

// covers F-104
TEST_F(HostileTest, ShardOutsideTheNamespace) {
  hostile_->attach();
  const std::uint32_t handle = hostile_->open_namespace("a: 1");
  Encoder encoder(MessageType::kReserve, 0);
  encoder.append(protocol::Reserve{handle, 1, 0, 1, 0}).append(protocol::BlockHash{});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument, "no shard 1 of group 0");
}

// covers F-104
TEST_F(HostileTest, NamespaceIdNotMatchingItsText) {
  hostile_->attach();
  protocol::OpenNamespace open{};
  open.group_count = open.shard_count = 1;
  Encoder encoder(MessageType::kOpenNamespace, 0);
  encoder.append(open).append(protocol::GroupLayout{4096, 1, 0});
  ASSERT_TRUE(hostile_->send(encoder).ok());
  expect_ended(Code::kInvalidArgument, "is not the hash");
}

// Every kind of message with a body of noise, then a message that no session survives: the session
// ends with a meaningful error.
// covers F-104
TEST_F(HostileTest, NoiseInEveryMessage) {
  constexpr std::uint64_t kSeed = 20261121;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    Client noisy(config_.socket);
    if (random() % 4 != 0) noisy.attach();
    for (int message = 0; message < 20; ++message) {
      Encoder encoder(static_cast<MessageType>(random() % 20),
                      static_cast<std::uint32_t>(random()));
      for (std::uint64_t words = random() % 64; words > 0; --words)
        encoder.append(random() >> (random() % 64));
      if (!noisy.send(encoder).ok()) break;
    }
    const std::vector<std::byte> garbage(3, std::byte{0});
    [[maybe_unused]] const Status sent = noisy.send_raw(garbage);
    Status ended = noisy.receive_error();
    // unread messages are reported first
    if (ended.code() == Code::kUnavailable) ended = noisy.receive_error();
    EXPECT_NE(ended.code(), Code::kUnavailable)
        << "seed " << kSeed << " round " << round << ": " << ended.to_string();
    EXPECT_FALSE(ended.text().empty());
  }
  EXPECT_EQ(bystander_->reserve(handle_, {{9, 9}}).size(), 1U);
}

// An engine that writes noise all over its session region, while another one stores and finds.
// covers F-104
TEST_F(HostileTest, NoiseInTheSessionRegion) {
  hostile_->attach();
  hostile_->open_namespace("b: 2");
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::mt19937_64 random(1);
    auto* const words = reinterpret_cast<protocol::AtomicU64*>(&hostile_->region());
    while (!stop)
      words[random() % (sizeof(protocol::SessionRegion) / 8)] = random() >> (random() % 64);
  });
  for (std::uint64_t n = 0; n < 300; ++n) {  // more than fits, so that holds are scanned
    const auto grants = bystander_->reserve(handle_, {{n + 1, n + 1}});
    ASSERT_EQ(grants.size(), 1U);
    ASSERT_EQ(grants[0].status, 0U) << n;
    bystander_->commit(grants[0], n);
    bystander_->beat();
    // a tick now and then
    if (n % 30 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const protocol::Key last{{300, 300}, handle_, 0, 0};
  EXPECT_TRUE(wait([&] { return bystander_->index().find(last).has_value(); }));
  stop = true;
  writer.join();
  EXPECT_EQ(stats().sessions_ended, 0U);
}

// covers F-104
TEST_F(HostileTest, EngineNotReadingItsAnswers) {
  hostile_->attach();
  const std::uint32_t handle = hostile_->open_namespace("a: 1");
  const std::vector<protocol::BlockHash> hashes(protocol::kMaxKeysPerReserve);
  for (int i = 0; i < 10'000; ++i) {
    Encoder encoder(MessageType::kReserve, 0);
    encoder.append(protocol::Reserve{handle, 0, 0, protocol::kMaxKeysPerReserve, 0})
        .append_all(std::span(hashes));
    const Status sent = hostile_->send(encoder);
    if (sent.code() == Code::kUnavailable) break;
  }
  EXPECT_TRUE(wait([&] { return stats().sessions_ended == 1; }));
  EXPECT_EQ(bystander_->reserve(handle_, {{9, 9}}).size(), 1U);
}

// covers F-104
TEST_F(HostileTest, MoreSessionsThanTheLimit) {
  std::vector<std::unique_ptr<Client>> many;
  for (std::uint32_t i = 0; i < protocol::kMaxSessions - 2; ++i)
    many.push_back(std::make_unique<Client>(config_.socket));
  Client last(config_.socket);
  const Status status = last.receive_error();
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_TRUE(status.text().ends_with("end an engine of this larderd")) << status.text();
  EXPECT_TRUE(wait([&] { return stats().sessions_refused == 1; }));
  many.pop_back();
  EXPECT_TRUE(wait([&] {
    Client again(config_.socket);
    return again.hello().ok() && again.receive().ok();
  }));
}

// Whichever descriptor is the one too many: the kernel's limit does not change.
// covers F-104
TEST_F(HostileTest, DescriptorLimitIsNotTakenForMissingPidfdSupport) {
  hostile_.reset();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto knows_pidfds = [&] {
    return std::ranges::count(stats().fallbacks, "pidfd", &stats::Fallback::kind) == 0;
  };
  if (!knows_pidfds()) GTEST_SKIP() << "this kernel gives no pidfd for a peer";
  for (rlim_t spare = 1; spare <= 8; ++spare) {
    const std::uint64_t refused = stats().sessions_refused;
    rlimit tight = before;
    tight.rlim_cur =
        static_cast<rlim_t>(Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get()) + spare;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    Client client(config_.socket);
    [[maybe_unused]] const Status sent = client.hello();  // the socket may be refused already
    pollfd answer{client.socket(), POLLIN, 0};
    const bool decided =
        wait([&] { return ::poll(&answer, 1, 0) == 1 || stats().sessions_refused > refused; });
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_TRUE(decided) << spare;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(250));  // two ticks: the snapshot is fresh
  EXPECT_TRUE(knows_pidfds());
}

// covers F-104
TEST_F(HostileTest, LoopWaitsAtTheDescriptorLimitWithoutSpinning) {
  hostile_.reset();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
  rlimit tight = before;
  // one for the engine's end, no descriptor for ours
  tight.rlim_cur = static_cast<rlim_t>(lowest_free) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  // Descriptors that larderd closes late, among these the hostile engine's, would leave room: all
  // are taken but one for the engine's end.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::vector<Fd> taken;
  do taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  while (taken.back().valid());
  taken.resize(taken.size() - std::min<std::size_t>(taken.size(), 2));
  Client client(config_.socket);
  const bool refused = wait([&] { return stats().sessions_refused >= 2; });
  const std::uint64_t so_far = stats().sessions_refused;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::uint64_t more = stats().sessions_refused - so_far;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(refused);
  EXPECT_LT(more, 200U) << "one attempt a tick, not thousands";
  ASSERT_TRUE(client.hello().ok());
  EXPECT_TRUE(client.receive().ok());
}

}  // namespace
}  // namespace larder::loop::testing_support
