// The rate of a client's attempts that larderd, or the kernel in its place, refuses.
#include "shim/client/retry.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "shim/protocol/packet.h"
#include "sidecar/session/listener.h"
#include "sidecar/session/session_protocol.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using std::chrono::milliseconds;
using testing_support::EngineClient;
using testing_support::kPlainLayout;

// covers F-106
TEST(RetryTest, AbsentLarderdIsRetriedQuickly) {
  Retry retry(1);
  for (int i = 0; i < 1000; ++i)
    EXPECT_LE(retry.next_ms(i % 2 == 0 ? Code::kUnavailable : Code::kDeadlineExceeded),
              Retry::kLastMs);
}

// covers F-106
TEST(RetryTest, RefusalBacksOffUpToAMinute) {
  Retry retry(1);
  std::uint64_t passed_ms = 0;
  int tries = 0;
  for (; passed_ms < 60'000; ++tries) passed_ms += retry.next_ms(Code::kResourceExhausted);
  EXPECT_LE(tries, 7);
  for (int i = 0; i < 10; ++i) {
    const std::uint32_t ms = retry.next_ms(Code::kUnsupported);
    EXPECT_LE(ms, Retry::kLastRefusedMs);
    EXPECT_GE(ms, Retry::kLastRefusedMs * 3 / 4 - 1);
  }
  EXPECT_LE(retry.next_ms(Code::kUnavailable), Retry::kLastMs) << "larderd is started anew";
  EXPECT_GT(retry.next_ms(Code::kResourceExhausted), Retry::kLastRefusedMs / 2)
      << "and refuses still";
  retry.attached();
  EXPECT_LE(retry.next_ms(Code::kResourceExhausted), Retry::kFirstRefusedMs);
}

// covers F-106
TEST(RetryTest, ProcessesOfOneEngineRetryAtDifferentTimes) {
  std::set<std::uint32_t> pauses;
  for (std::uint32_t process = 0; process < 9; ++process) {
    Retry retry(process * 7919 + 1);
    for (int i = 0; i < 6; ++i) retry.next_ms(Code::kResourceExhausted);
    pauses.insert(retry.next_ms(Code::kResourceExhausted));
  }
  EXPECT_GE(pauses.size(), 7U);
}

// Answers every connection with an ERROR.
class Refusing {
 public:
  Refusing(const std::string& socket, Code code) : listener_(*session::listen_at(socket, 0600)) {
    thread_ = std::jthread([this, code](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd wait{listener_.get(), POLLIN, 0};
        if (::poll(&wait, 1, 10) != 1) continue;
        const Fd one(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        ++tries;
        [[maybe_unused]] const Status sent =
            protocol::send_packet(one.get(), session::error_packet({code, "all seats are taken"}));
      }
    });
  }
  std::atomic<int> tries{0};

 private:
  const Fd listener_;
  std::jthread thread_;
};

class RefusalTest : public loop::testing_support::SidecarTest {
 protected:
  RefusalTest() { config_.memory.size_bytes = 16 << 20; }
  static std::string log_of(Client& client) {
    std::string log;
    while (const std::optional<std::string> line = client.next_log()) log += *line + "\n";
    return log;
  }
};

// At a pause of 250 ms there were 12 and more.
// covers F-106
TEST_F(RefusalTest, RefusedEngineRetriesRarelyAndFindsTheNextLarderdAtOnce) {
  std::optional<Refusing> refusing(std::in_place, config_.socket, Code::kResourceExhausted);
  EngineClient engine(config_.socket, kPlainLayout);
  std::this_thread::sleep_for(milliseconds(3500));
  EXPECT_GE(refusing->tries, 2);
  EXPECT_LE(refusing->tries, 4);
  refusing.reset();
  std::filesystem::remove(config_.socket);
  start();
  EXPECT_TRUE(engine.client->wait_attached(1000).ok()) << "in the midst of a pause of seconds";
}

// Also if larderd has closed the socket before the HELLO came, or before the HELLO was read.
// covers F-106
TEST_F(RefusalTest, RefusalReasonIsAlwaysRead) {
  Refusing refusing(config_.socket, Code::kUnavailable);
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(wait([&] { return refusing.tries >= 12; }, 10));
  const std::string log = log_of(*engine.client);
  EXPECT_NE(log.find("all seats are taken"), std::string::npos) << log;
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

// covers F-106
TEST_F(RefusalTest, StoppingLarderdIsNotARefusal) {
  Refusing stopping(config_.socket, Code::kUnavailable);
  EngineClient engine(config_.socket, kPlainLayout);
  EXPECT_TRUE(wait([&] { return stopping.tries >= 8; }));
}

// This process as another user without root's groups, and back.
class AsNobody {
 public:
  AsNobody()
      : groups_(groups()),
        changed_(::geteuid() == 0 && ::setgroups(0, nullptr) == 0 && ::setegid(kNobody) == 0 &&
                 ::seteuid(kNobody) == 0) {}
  ~AsNobody() {
    EXPECT_TRUE(!changed_ || (::seteuid(0) == 0 && ::setegid(0) == 0 &&
                              ::setgroups(groups_.size(), groups_.data()) == 0));
  }
  bool changed() const { return changed_; }

 private:
  static constexpr id_t kNobody = 65534;
  static std::vector<gid_t> groups() {
    std::vector<gid_t> all(static_cast<std::size_t>(::getgroups(0, nullptr)));
    all.resize(static_cast<std::size_t>(::getgroups(static_cast<int>(all.size()), all.data())));
    return all;
  }
  const std::vector<gid_t> groups_;
  const bool changed_;
};

// covers F-106
TEST_F(RefusalTest, ForbiddenSocketIsReportedWithModeAndGroupAndUsedOnceAllowed) {
  config_.socket_mode = 0660;
  start();
  std::filesystem::permissions(directory_, std::filesystem::perms{0755});
  std::filesystem::permissions(directory_ + "/run", std::filesystem::perms{0755});
  std::optional<EngineClient> engine;
  {
    const AsNobody nobody;
    if (!nobody.changed()) GTEST_SKIP() << "another user can be had as root alone";
    engine.emplace(config_.socket, kPlainLayout);
    EXPECT_FALSE(engine->client->wait_attached(300).ok());
  }
  const std::string log = log_of(*engine->client);
  for (const char* words : {"permission denied", "runs as uid 65534",
                            "for uid 0 and the group 0 (mode 0660)", "socket_mode"})
    EXPECT_NE(log.find(words), std::string::npos) << words << " in: " << log;
  std::filesystem::permissions(config_.socket, std::filesystem::perms{0666});
  EXPECT_TRUE(engine->client->wait_attached(1000).ok()) << "in the midst of a pause";
}

// covers F-106
TEST_F(RefusalTest, ForbiddenDirectoryIsReported) {
  start();
  std::optional<EngineClient> engine;
  {
    const AsNobody nobody;
    if (!nobody.changed()) GTEST_SKIP() << "another user can be had as root alone";
    engine.emplace(config_.socket, kPlainLayout);
    EXPECT_FALSE(engine->client->wait_attached(300).ok());
  }
  const std::string log = log_of(*engine->client);
  EXPECT_NE(log.find("may not look into the socket's directory"), std::string::npos) << log;
}

}  // namespace
}  // namespace larder::client
