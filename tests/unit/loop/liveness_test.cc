// Silence, sleep, death: the rights of an absent engine, and the later return of each right.
#include <unistd.h>

#include <filesystem>

#include "shim/protocol/lock_layout.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {
namespace {

class LivenessTest : public SidecarTest {};

TEST_F(LivenessTest, SilentEngineLosesGrantsAndHoldsAndMayReturn) {
  start();
  Client client(config_.socket), other(config_.socket);
  client.attach();
  other.attach();
  const std::uint32_t handle = client.open_namespace("a: 1");
  const std::uint32_t other_handle = other.open_namespace("a: 1");
  const auto grant = client.reserve(handle, {{1, 1}});
  pass_ms(3000, {&other});
  ASSERT_TRUE(stats().sessions.at(0).silent);
  EXPECT_FALSE(stats().sessions.at(1).silent);
  EXPECT_EQ(stats().heartbeats_missed, 1U);
  EXPECT_EQ(stats().slots_quarantined, 1U);
  EXPECT_EQ(other.reserve(other_handle, {{1, 1}}).at(0).status, 0U) << "its key is free for others";

  pass_ms(500, {&client, &other});
  EXPECT_FALSE(stats().sessions.at(0).silent);
  client.commit(grant[0], 5);  // late: reaches no reader, and its slot comes back
  EXPECT_TRUE(wait([&] { return stats().refused_commit == 1 && stats().slots_quarantined == 0; }));
  EXPECT_FALSE(client.index().find({{1, 1}, handle, 0, 0}));
}

// covers F-016
TEST_F(LivenessTest, SidecarSleepEndsNoSession) {
  start();
  Client client(config_.socket);
  client.attach();
  ASSERT_TRUE(wait([&] { return stats().sessions.size() == 1; }));
  pass_ms(500, {&client});  // larderd has seen the heartbeat
  clock_.advance_ms(60'000);
  pass_ms(1500);
  EXPECT_FALSE(stats().sessions.at(0).silent);
  EXPECT_EQ(stats().heartbeats_missed, 0U);
}

TEST_F(LivenessTest, SidecarSleepAgesNoHoldGrantOrHandshake) {
  start();
  Client client(config_.socket), greeting(config_.socket);
  client.attach();
  ASSERT_TRUE(greeting.hello().ok());
  ASSERT_TRUE(greeting.receive().ok());
  const std::uint32_t handle = client.open_namespace("a: 1");
  const auto grants = client.reserve(handle, {{1, 1}, {2, 2}});
  client.commit(grants[0], 1);
  client.region().holds_used = 1;
  client.region().holds[0] = protocol::make_hold(grants[0].slot, grants[0].generation);
  pass_ms(500, {&client});
  ASSERT_TRUE(wait([&] { return stats().held_bytes == 12288; }));
  clock_.advance_ms(10 * protocol::kMaxHoldAgeMs);
  pass_ms(1500, {&client});
  EXPECT_EQ(stats().held_bytes, 12288U) << "it still counts";
  EXPECT_EQ(stats().holds_expired, 0U);
  EXPECT_EQ(stats().grants_asked, 0U);
  EXPECT_EQ(stats().slots_granted, 1U);
  EXPECT_EQ(greeting.receive_none(), Code::kResourceExhausted) << "it is still waited for";
}

TEST_F(LivenessTest, AHandshakeHasADeadline) {
  start();
  Client client(config_.socket);
  ASSERT_TRUE(client.hello().ok());
  ASSERT_TRUE(client.receive().ok());
  pass_ms(2500);
  const Status status = client.receive_error();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.to_string();
}

TEST_F(LivenessTest, QuarantineLastsUntilTheLockIsReleased) {
  start();
  Client client(config_.socket);
  client.attach();
  client.reserve(client.open_namespace("a: 1"), {{1, 1}, {2, 2}});
  const std::string lock_file =
      directory_ + "/larder.lock." + std::to_string(client.welcome().session_number);
  client.close();
  ASSERT_TRUE(wait([&] { return stats().sessions_ended == 1 && stats().slots_quarantined == 2; }));
  const std::uint64_t uptime = stats().uptime_ms;
  clock_.advance_ms(100);
  ASSERT_TRUE(wait([&] { return stats().uptime_ms > uptime; }));
  EXPECT_EQ(stats().slots_quarantined, 2U);
  EXPECT_TRUE(std::filesystem::exists(lock_file));
  client.drop_lock();
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 0; }));
  EXPECT_FALSE(std::filesystem::exists(lock_file));
}

// Like an engine whose GPU writes into the arena: through an open descriptor, since closing one
// would drop the lock.
bool say_device_writes(const std::string& lock_file) {
  const std::uint8_t yes = 1;
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(open.path(), gone) == lock_file)
      return ::pwrite(std::stoi(open.path().filename().string()), &yes, 1,
                      protocol::kDeviceWritesOffset) == 1;
  }
  return false;
}

// Whether its end was seen before the end of its lock, or both at once.
// covers F-018
TEST_F(LivenessTest, GpuGrantsAreFreedAWhileAfterTheLock) {
  start();
  for (const bool lock_first : {false, true}) {
    SCOPED_TRACE(lock_first);
    Client client(config_.socket), other(config_.socket);
    client.attach();
    other.attach();
    client.reserve(client.open_namespace("a: 1"), {{1, 1}, {2, 2}});
    const std::string lock_file =
        directory_ + "/larder.lock." + std::to_string(client.welcome().session_number);
    ASSERT_TRUE(say_device_writes(lock_file));
    ASSERT_TRUE(say_device_writes(directory_ + "/larder.lock." +
                                  std::to_string(other.welcome().session_number)));
    const std::uint64_t ended = stats().sessions_ended;
    if (lock_first) client.drop_lock();
    client.close();
    ASSERT_TRUE(wait(
        [&] { return stats().sessions_ended == ended + 1 && stats().slots_quarantined == 2; }));
    if (!lock_first) {
      pass_ms(5000, {&other});
      EXPECT_EQ(stats().slots_quarantined, 2U) << "its process lives";
      client.drop_lock();
    }
    pass_ms(2500, {&other});
    EXPECT_EQ(stats().slots_quarantined, 2U) << "its GPU may be at it";
    EXPECT_EQ(other.reserve(other.open_namespace("a: 1"), {{1, 1}}).at(0).status, 0U)
        << "its key is free for others";
    pass_ms(1500, {&other});
    EXPECT_EQ(stats().slots_quarantined, 0U);
    EXPECT_FALSE(std::filesystem::exists(lock_file));
    other.drop_lock();
    other.close();  // the session has a grant, too
    ASSERT_TRUE(wait([&] { return stats().sessions_ended == ended + 2; }));
    pass_ms(4000);
    EXPECT_EQ(stats().slots_quarantined, 0U);
  }
}

TEST_F(LivenessTest, SessionWithoutQuarantineLeavesNoFile) {
  start();
  Client client(config_.socket);
  client.attach();
  const std::string lock_file =
      directory_ + "/larder.lock." + std::to_string(client.welcome().session_number);
  EXPECT_TRUE(std::filesystem::exists(lock_file));
  client.close();
  EXPECT_TRUE(wait([&] { return !std::filesystem::exists(lock_file); }));
}

// covers F-125
TEST_F(LivenessTest, SidecarIsUnhealthyWhileItsLoopIsStuck) {
  Result<std::unique_ptr<Sidecar>> sidecar = Sidecar::start(config_, clock_);
  ASSERT_TRUE(sidecar.ok());
  EXPECT_TRUE((*sidecar)->healthy());
  clock_.advance_ms(3000);
  EXPECT_FALSE((*sidecar)->healthy());
}

}  // namespace
}  // namespace larder::loop::testing_support
