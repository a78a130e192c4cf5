// The remote tier and a master under three real Sentinels: killed, stopped, demoted, under load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "tests/component/cluster_processes.h"
#include "tests/component/tier_node.h"

namespace larder::test {
namespace {

using remote::Mode;
using remote::RemoteOptions;
using testing::HasSubstr;
using tiers::testing_support::key_of;

class RemoteSentinelTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (server_program(GetParam()).empty())
      GTEST_SKIP() << "the server is not on this machine: make deps";
    servers_ = std::make_unique<SentinelProcesses>(GetParam());
    options_.mode = Mode::kSentinel;
    options_.endpoints = servers_->endpoints();
    options_.sentinel_master = SentinelProcesses::kMaster;
    options_.answer_ms = 500;
  }
  bool agreed(std::uint16_t port) const {
    for (std::size_t i = 0; i < 3; ++i)
      if (servers_->named(i) != port) return false;
    return true;
  }
  // Puts and gets until the Sentinels name the other master, and five seconds later all operations
  // are good: on a calm machine one second is enough.
  void until_other_is_master(Node& node, std::uint16_t other) {
    std::uint64_t back = 0, last_bad = 0, good = 0;
    for (const std::uint64_t end = node.clock.now_ns() + 40 * kSecondNs;
         node.clock.now_ns() < end && good < 40;) {
      const std::uint64_t number = ++number_ % 8;
      const Status put = node.loop.put(number, number_, 1, 3 << 20),
                   got = node.loop.get(number, 1, 3 << 20);
      ASSERT_NE(got.code(), Code::kInternal) << got.to_string();
      if (back == 0 && agreed(other)) back = node.clock.now_ns();
      good = put.ok() && got.ok() && back != 0 ? good + 1 : 0;
      if (good != 0) continue;
      node.loop.collect(5);
      last_bad = node.clock.now_ns();
      if (back != 0) {
        ASSERT_LT(node.clock.now_ns() - back, 5 * kSecondNs)
            << put.to_string() << "; " << node.tier->state().reason;
      }
    }
    EXPECT_GE(good, 40U);
    RecordProperty("recovery_ms",
                   std::to_string(last_bad <= back ? 0 : (last_bad - back) / 1'000'000));
  }

  std::unique_ptr<SentinelProcesses> servers_;
  RemoteOptions options_;
  std::uint64_t number_ = 0;
};

// covers F-194
TEST_P(RemoteSentinelTest, MasterIsDiscoveredAndFailoverIsFollowed) {
  Node node(options_);
  ASSERT_EQ(node.loop.put(1).to_string(), "ok");
  EXPECT_TRUE(node.loop.get(1).ok());
  EXPECT_EQ(node.tier->state().mode, "Sentinel, TCP");
  ASSERT_TRUE(node.loop.put(500).ok() && node.tier->probe(key_of(500)).has_value());
  servers_->server(0).kill();
  until_other_is_master(node, servers_->port(1));
  EXPECT_FALSE(node.tier->probe(key_of(500)).has_value())
      << "the replica may not have been told of all that was stored";
  // The server comes back, as a master at first; the Sentinels allow this for 10 s. On a busy
  // machine the Sentinels may then have taken the other one for dead.
  servers_->server(0).start();
  EXPECT_TRUE(soon(
      [&] {
        const std::size_t master = agreed(servers_->port(0)) ? 0 : 1;
        return agreed(servers_->port(master)) &&
               servers_->server(1 - master).info("replication", "role") == "slave";
      },
      40'000));
  EXPECT_TRUE(node.eventually([&] { return node.loop.put(1).ok() && node.loop.get(1).ok(); }));
}

// covers F-194
TEST_P(RemoteSentinelTest, StoppedOrDemotedMasterIsAbandoned) {
  Node node(options_);
  ASSERT_EQ(node.loop.put(1).to_string(), "ok");
  servers_->server(0).signal(SIGSTOP);
  until_other_is_master(node, servers_->port(1));
  servers_->server(0).signal(SIGCONT);
  ASSERT_TRUE(
      soon([&] { return servers_->server(0).info("replication", "master_link_status") == "up"; }));
  ASSERT_TRUE(soon([&] {
    return servers_->sentinel(0).ask({"SENTINEL", "FAILOVER", SentinelProcesses::kMaster}).text ==
           "OK";
  }));
  until_other_is_master(node, servers_->port(0));
}

// covers F-195
TEST_P(RemoteSentinelTest, OneReachableSentinelIsEnough) {
  servers_->sentinel(0).kill();
  servers_->sentinel(1).signal(SIGSTOP);
  Node node(patient(options_));
  EXPECT_EQ(node.loop.put(1).to_string(), "ok");
  servers_->sentinel(2).kill();
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(node.loop.get(1).ok()) << "no Sentinel is asked about a working server";
  Node other(options_);
  EXPECT_TRUE(other.eventually(
      [&] { return other.tier->state().reason.find("no Sentinel answers") != std::string::npos; }));
  servers_->sentinel(2).start();
  EXPECT_TRUE(other.well()) << other.tier->state().reason;
  EXPECT_TRUE(other.loop.get(1).ok());
  servers_->sentinel(1).signal(SIGCONT);
}

TEST_P(RemoteSentinelTest, SentinelsHaveUsersAndPasswordsOfTheirOwn) {
  for (std::size_t i = 0; i < 3; ++i) {
    // A user who may only ask for the watched master.
    ASSERT_EQ(servers_->sentinel(i)
                  .ask({"ACL", "SETUSER", "watcher", "on", ">secret", "-@all", "+hello", "+auth",
                        "+client", "+ping", "+info", "+sentinel"})
                  .text,
              "OK");
  }
  const std::string file = servers_->server(0).directory() + "/password";
  std::ofstream(file) << "wrong\n";
  options_.sentinel_user = "watcher";
  options_.sentinel_password_file = file;
  Node node(options_);
  EXPECT_TRUE(node.eventually(
      [&] { return node.tier->state().reason.find("WRONGPASS") != std::string::npos; }));
  std::ofstream(file) << "secret\n";
  EXPECT_TRUE(node.well()) << node.tier->state().reason;
  EXPECT_TRUE(node.loop.put(1).ok() && node.loop.get(1).ok());
}

// covers F-196
TEST_P(RemoteSentinelTest, WrongConfigurationIsReported) {
  const auto says = [](const RemoteOptions& options, const std::string& text) {
    Node node(options);
    const bool said =
        node.eventually([&] { return node.tier->state().reason.find(text) != std::string::npos; });
    return said ? "" : "not \"" + text + "\" but \"" + node.tier->state().reason + "\"";
  };
  RemoteOptions wrong = options_;
  wrong.sentinel_master = "nobody";
  EXPECT_EQ(says(wrong, "know no master nobody"), "");
  wrong = options_;
  wrong.endpoints = {{"127.0.0.1", servers_->port(0)}};
  EXPECT_EQ(says(wrong, "is no Sentinel"), "");
  wrong = options_;
  wrong.mode = Mode::kCluster;
  wrong.sentinel_master.clear();
  EXPECT_EQ(says(wrong, "the server is a Sentinel"), "");
  RemoteOptions alone;
  alone.host = "127.0.0.1";
  alone.port = options_.endpoints.front().port;
  EXPECT_EQ(says(alone, "the server is a Sentinel"), "");
}

INSTANTIATE_TEST_SUITE_P(
    Servers, RemoteSentinelTest, testing::Values("redis-server", "valkey-server"),
    [](const auto& kind) {
      return std::string(kind.param).substr(0, std::string(kind.param).find('-'));
    });

}  // namespace
}  // namespace larder::test
