// Engines that are real processes, killed with SIGKILL. The engines are forked before the sidecar's
// threads exist.
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {
namespace {

class KilledEngineTest : public SidecarTest {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe2(ready_, O_CLOEXEC), 0); }
  ~KilledEngineTest() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    ::close(ready_[0]);
    ::close(ready_[1]);
  }

  // An engine that attaches, reserves two slots, commits one, runs `then` and sleeps.
  template <typename Then>
  pid_t fork_engine(const Then& then) {
    const pid_t child = ::fork();
    if (child != 0) {
      children_.push_back(child);
      return child;
    }
    const bool up = wait([&] { return Client(config_.socket).connected(); });
    Client client(config_.socket);
    if (!up || !client.connected()) ::_exit(1);
    client.attach();
    const std::uint32_t handle = client.open_namespace("a: 1");
    std::vector<protocol::Grant> grants;
    // No space until the arena is touched, which may come later than an engine that waited for the
    // socket.
    const bool granted = wait([&] {
      grants = client.reserve(handle, {{1, 1}});
      return grants.size() == 1 && grants[0].status == 0;
    });
    if (!granted || client.reserve(handle, {{2, 2}}).at(0).status != 0) ::_exit(3);
    client.commit(grants[0], 1);
    then();
    announce();
    ::sleep(60);
    ::_exit(0);
  }
  void announce() {
    if (::write(ready_[1], "x", 1) != 1) ::_exit(2);
  }
  void wait_ready() {
    char byte = 0;
    ASSERT_EQ(::read(ready_[0], &byte, 1), 1);
  }
  static void kill_and_reap(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  int ready_[2] = {-1, -1};
  std::vector<pid_t> children_;
};

TEST_F(KilledEngineTest, GrantOfKilledEngineIsFreedAndItsChunkStays) {
  const pid_t engine = fork_engine([] {});
  start();
  wait_ready();
  ASSERT_TRUE(wait([&] { return stats().slots_committed == 1 && stats().slots_granted == 1; }));
  kill_and_reap(engine);
  EXPECT_TRUE(wait([&] {
    return stats().sessions.empty() && stats().slots_granted == 0 && stats().slots_quarantined == 0;
  }));
  EXPECT_EQ(stats().slots_committed, 1U);
  Client client(config_.socket);
  client.attach();
  EXPECT_EQ(client.reserve(client.open_namespace("a: 1"), {{2, 2}}).at(0).status, 0U);
}

// covers F-019
TEST_F(KilledEngineTest, ForkedChildWithSocketDoesNotHideTheDeath) {
  const pid_t engine = fork_engine([this] {
    if (::fork() != 0) return;
    announce();
    ::sleep(10);  // holds socket and mappings, and is silent
    ::_exit(0);
  });
  start();
  wait_ready();
  wait_ready();
  ASSERT_TRUE(wait([&] { return stats().slots_granted == 1; }));
  kill_and_reap(engine);
  // The clock of this test stands still: the pidfd tells, not the heartbeat.
  EXPECT_TRUE(wait([&] {
    return stats().sessions.empty() && stats().slots_quarantined == 0 && stats().slots_granted == 0;
  }));
}

// covers F-041
TEST_F(KilledEngineTest, StoppedEngineKeepsItsSlotsQuarantined) {
  const pid_t engine = fork_engine([] {});
  start();
  wait_ready();
  ASSERT_TRUE(wait([&] { return stats().slots_granted == 1; }));
  ::kill(engine, SIGSTOP);
  for (int i = 0; i < 6; ++i) {
    clock_.advance_ms(500);
    const std::uint64_t uptime = stats().uptime_ms;
    ASSERT_TRUE(wait([&] { return stats().uptime_ms > uptime; }));
  }
  EXPECT_EQ(stats().slots_quarantined, 1U);
  kill_and_reap(engine);
  EXPECT_TRUE(wait([&] { return stats().slots_quarantined == 0; }));
}

}  // namespace
}  // namespace larder::loop::testing_support
