// The check of a server whose every byte is in the test's hands: the check ends in time in any
// case, and tells no secret.
#include "sidecar/backend_check/server_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <stop_token>
#include <thread>
#include <utility>

#include "sidecar/backend_check/installation_check.h"
#include "sidecar/tiers/remote/format.h"
#include "tests/unit/tiers/remote/fake_server.h"

namespace larder::backend_check::testing_support {
namespace {

using remote::testing_support::FakeServer;
using remote::testing_support::HookScope;
using testing::ElementsAre;
using testing::HasSubstr;
using Step = ServerFacts::Step;

class ServerCheckTest : public testing::Test {
 protected:
  ServerCheckTest() { options_.unix_path = server_.socket(); }
  ServerFacts check() {
    return check_server(options_,
                        {remote::Kind::kStandalone,
                         {"", 0, options_.unix_path},
                         {},
                         clock_.now_ns() + 20'000'000'000},
                        clock_);
  }
  // The result of the check if one command gets this answer.
  ServerFacts check_with(const std::string& command, const std::string& answer) {
    const HookScope hooked(
        server_, [command, answer](const FakeServer::Words& words) -> std::optional<std::string> {
          return words[0] == command ? std::optional(answer) : std::nullopt;
        });
    return check();
  }

  FakeServer server_;
  remote::RemoteOptions options_;
  base::MonotonicClock clock_;
};

TEST_F(ServerCheckTest, MeasuresAndRemovesItsKeys) {
  const ServerFacts facts = check();
  EXPECT_EQ(facts.ended, Step::kNone) << facts.failure.text();
  EXPECT_TRUE(facts.local);
  EXPECT_GT(facts.connect_ns, 0U);
  EXPECT_GT(facts.pings.count, 0U);
  EXPECT_LE(facts.pings.p50_ns, facts.pings.p99_ns);
  EXPECT_GT(facts.set_bytes_per_s, 0U);
  EXPECT_GT(facts.get_bytes_per_s, 0U);
  EXPECT_THAT(server_.keys(), testing::IsEmpty());
}

TEST_F(ServerCheckTest, ForbiddenCommandsAreListed) {
  const HookScope hooked(server_, [](const FakeServer::Words& words) -> std::optional<std::string> {
    if (words[0] == "SCAN") return "-NOPERM no\r\n";
    if (words[0] == "UNLINK") return "-ERR unknown command\r\n";
    return std::nullopt;
  });
  const ServerFacts facts = check();
  EXPECT_THAT(facts.missing, ElementsAre("UNLINK", "SCAN"));
  EXPECT_EQ(facts.set_bytes_per_s, 0U) << "a value that could not be removed is not written";
  EXPECT_GT(check_with("SCAN", "-NOPERM no\r\n").set_bytes_per_s, 0U);
}

TEST_F(ServerCheckTest, ServerRefusingWritesGetsNoMoreWrites) {
  const ServerFacts facts = check_with("SET", "-OOM command not allowed\r\n");
  EXPECT_EQ(facts.ended, Step::kNone);
  EXPECT_THAT(facts.writes.text(), HasSubstr("(OOM)"));
  EXPECT_EQ(facts.set_bytes_per_s, 0U);
  EXPECT_GT(facts.pings.count, 0U);
}

TEST_F(ServerCheckTest, CorruptedReadBackYieldsNoRate) {
  const std::string value(remote::kPartBytes, 'x');
  bool first = true;  // the test asks while the server is not there
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) -> std::optional<std::string> {
                           if (words[0] != "GET" || std::exchange(first, false))
                             return std::nullopt;
                           return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
                         });
  const ServerFacts facts = check();
  EXPECT_GT(facts.set_bytes_per_s, 0U);
  EXPECT_EQ(facts.get_bytes_per_s, 0U);
  EXPECT_THAT(facts.failure.text(), HasSubstr("other bytes"));
}

TEST_F(ServerCheckTest, RefusedHandshakeEndsTheCheck) {
  EXPECT_EQ(check_with("HELLO", "-NOAUTH HELLO must be called authenticated\r\n").ended,
            Step::kGreet);
  const ServerFacts wrong_pass = check_with("HELLO", "-WRONGPASS hunter2\r\n");
  EXPECT_THAT(wrong_pass.failure.text(), HasSubstr("(WRONGPASS)"));
  EXPECT_THAT(wrong_pass.failure.text(), testing::Not(HasSubstr("hunter2")));
  EXPECT_THAT(check_with("HELLO", "-ERR unknown command\r\n").failure.text(),
              HasSubstr("does not know HELLO"));
  options_.password_file = "/nonexistent";
  EXPECT_THAT(check().failure.text(), HasSubstr("backend.password_file: /nonexistent"));
}

// Names of other servers are shown: the names could be the server's own input.
TEST(OtherServersCheckTest, EchoedPasswordIsNotShownAsName) {
  const std::string file =
      testing::TempDir() + "/server_check_password." + std::to_string(::getpid());
  std::ofstream(file) << "hunter2\n";
  const base::MonotonicClock clock;
  remote::RemoteOptions options;
  options.password_file = options.sentinel_password_file = file;
  options.sentinel_master = "pool";
  const auto check = [&](FakeServer& server, remote::Kind kind, const std::string& command,
                         const std::string& host) {
    const std::string bulk = "$" + std::to_string(host.size()) + "\r\n" + host + "\r\n";
    const std::string named = "*2\r\n" + bulk + "$1\r\n1\r\n",
                      map = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n" + bulk + ":1\r\n";
    const HookScope hooked(server, [=](const FakeServer::Words& words) {
      return words[0] == command ? std::optional(command == "CLUSTER" ? map : named) : std::nullopt;
    });
    return check_server(
        options, {kind, {"127.0.0.1", server.port()}, {}, clock.now_ns() + 10'000'000'000}, clock);
  };
  FakeServer node({}, FakeServer::Kind::kCluster), sentinel({}, FakeServer::Kind::kSentinel);
  const ServerFacts map = check(node, remote::Kind::kNode, "CLUSTER", "node.example");
  ASSERT_TRUE(map.failure.ok()) << map.failure.text();
  EXPECT_EQ(map.map->front().master, (remote::Endpoint{"node.example", 1}));
  EXPECT_EQ(check(sentinel, remote::Kind::kSentinel, "SENTINEL", "node.example").named,
            (remote::Endpoint{"node.example", 1}));
  for (const char* host : {"hunter2", "a.hunter2.b"}) {
    EXPECT_THAT(check(node, remote::Kind::kNode, "CLUSTER", host).failure.text(),
                HasSubstr("sends our password back"));
    const ServerFacts facts = check(sentinel, remote::Kind::kSentinel, "SENTINEL", host);
    EXPECT_THAT(facts.failure.text(), HasSubstr("sends our password back"));
    EXPECT_FALSE(facts.named);
  }
  std::remove(file.c_str());
}

TEST_F(ServerCheckTest, MalformedReplyEndsTheCheck) {
  for (const char* nonsense : {"HTTP/1.1 400 Bad Request\r\n\r\n",
                               "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", ":1\r\n", "$-2\r\n"}) {
    const ServerFacts facts = check_with("HELLO", nonsense);
    EXPECT_EQ(facts.ended, Step::kGreet) << nonsense;
    EXPECT_THAT(facts.failure.text(), HasSubstr("broke the protocol")) << nonsense;
  }
}

// Each wait ends, and so does their sum.
// covers F-206
TEST_F(ServerCheckTest, SilentServerIsAbandoned) {
  server_.mute = true;
  const std::uint64_t began = clock_.now_ms();
  const ServerFacts facts = check();
  EXPECT_EQ(facts.ended, Step::kGreet);
  EXPECT_THAT(facts.failure.text(), HasSubstr("does not answer"));
  EXPECT_LT(clock_.now_ms() - began, 8000U);
}

// Not by the deadline, which has come after 3 s of every test.
// covers F-227
TEST_F(ServerCheckTest, StopRequestEndsTheCheck) {
  server_.mute = true;
  std::stop_source stop;
  const std::jthread stopping([&] {
    while (server_.connections == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop.request_stop();
  });
  const ServerToCheck server{.endpoint = {"", 0, options_.unix_path},
                             .end_ns = clock_.now_ns() + 20'000'000'000,
                             .stop = stop.get_token()};
  const ServerFacts facts = check_server(options_, server, clock_);
  EXPECT_EQ(facts.ended, Step::kGreet);
  EXPECT_EQ(facts.failure.to_string(), Status(Code::kUnavailable, "stopping").to_string());
}

TEST_F(ServerCheckTest, NoServerIsAskedAfterAStopRequest) {
  std::stop_source stop;
  stop.request_stop();
  const InstallationFacts facts =
      check_installation(options_, clock_, Measured::kAnswersAlone, stop.get_token());
  ASSERT_EQ(facts.servers.size(), 1U);
  EXPECT_EQ(facts.servers.front().facts.failure.code(), Code::kUnavailable);
  EXPECT_EQ(server_.connections, 0U);
}

TEST_F(ServerCheckTest, AbsentServerFailsToConnect) {
  options_.unix_path = server_.socket() + ".not";
  const ServerFacts facts = check();
  EXPECT_EQ(facts.ended, Step::kConnect);
  EXPECT_EQ(facts.connect_ns, 0U);
}

}  // namespace
}  // namespace larder::backend_check::testing_support
