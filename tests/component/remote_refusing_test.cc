// larderd over servers that refuse chunks: the traffic and the log without activity, the chunks
// stored all the same, and the end of the refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/component/logged_larderd.h"
#include "tests/component/server_process.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/tiers/remote/fake_server.h"

namespace larder::test {
namespace {

using client::testing_support::EngineClient;
using client::testing_support::PageLayout;
using remote::testing_support::FakeServer;
using testing::HasSubstr;

const PageLayout kLarge{"large", 8, 8, 128 << 10, 0, false, 0};  // chunks of 8 MiB
const PageLayout kSmall{"small", 1, 1, 64 << 10, 0, false, 0};

std::string backend_at(const std::string& socket) {
  return "backend:\n  url: unix://" + socket + "\n";
}

void expect_quiet(const LoggedLarderd& larderd, const std::string& cause) {
  const std::int64_t before = larderd.sent_bytes();
  const std::size_t bytes = larderd.log().size();
  std::this_thread::sleep_for(std::chrono::seconds(idle_seconds()));
  const std::string log = larderd.log().substr(bytes);
  expect_few("a backend that refuses: " + cause, lines_of(log), larderd.sent_bytes() - before,
             larderd.log());
  EXPECT_THAT(larderd.reason(), HasSubstr(cause)) << larderd.log();
  EXPECT_TRUE(larderd.falls_back()) << "for the metrics, and the pool's conditions";
}

class RefusingServer : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (server_program(GetParam()).empty())
      GTEST_SKIP() << "the server is not on this machine: make deps";
  }
  // Stores large and small chunks; the small ones, of another model, are in the server in the end.
  void store(LoggedLarderd& larderd, std::uint32_t large) {
    large_ = std::make_unique<EngineClient>(larderd->socket(), kLarge);
    small_ = std::make_unique<EngineClient>(larderd->socket(), kSmall);
    ASSERT_TRUE(large_->client->wait_attached(30'000).ok() &&
                small_->client->wait_attached(30'000).ok());
    for (std::uint32_t n = 0; n < large; ++n) ASSERT_EQ(large_->store(n, 1, 30'000).stored, 1U);
    for (std::uint32_t n = 0; n < 4; ++n) ASSERT_EQ(small_->store(100 + n, 1, 30'000).stored, 1U);
  }
  // The server has the small chunks, refuses the large ones for this cause, and is left alone.
  void expect_short_ones(const ServerProcess& server, const std::string& cause) {
    LoggedLarderd larderd("256MiB", backend_at(server.socket()));
    store(larderd, 6);
    ASSERT_TRUE(
        eventually([&] { return larderd.stored() == 4 && !larderd.reason().empty(); }, 20'000))
        << larderd.log();
    std::this_thread::sleep_for(std::chrono::seconds(3));
    expect_quiet(larderd, cause);
  }
  std::unique_ptr<EngineClient> large_, small_;
};

// Redis's default: larderd once sent 85 MB/s, with 21 lines a second, without activity.
// covers F-170
TEST_P(RefusingServer, FullServerGetsNoPutsUntilItHasRoom) {
  ServerProcess server(GetParam(), {"--maxmemory", "30mb", "--maxmemory-policy", "noeviction"});
  LoggedLarderd larderd("256MiB", backend_at(server.socket()));
  store(larderd, 10);
  ASSERT_TRUE(eventually([&] { return !larderd.reason().empty(); }, 20'000));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  expect_quiet(larderd, "the server is full");
  const std::int64_t stored = larderd.stored();
  EXPECT_GE(stored, 1);
  large_->engine.wipe();
  EXPECT_EQ(large_->load(9, 1).status, Code::kOk) << "memory goes on";
  server.ask({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_TRUE(eventually([&] { return larderd.stored() >= 14; }, 30'000))
      << larderd.stored() << larderd.log();
  EXPECT_TRUE(eventually([&] { return larderd.reason().empty(); }, 5000)) << larderd.reason();
}

// covers F-171
TEST_P(RefusingServer, ValueLimitLetsShortChunksThrough) {
  ServerProcess server(GetParam(), {"--proto-max-bulk-len", "1mb"});
  expect_short_ones(server, "proto-max-bulk-len");
}

// The server ends the connection in the middle of a chunk.
// covers F-171
TEST_P(RefusingServer, QueryLimitLetsShortChunksThrough) {
  ServerProcess server(GetParam(), {"--client-query-buffer-limit", "1mb"});
  expect_short_ones(server, "do not get through");
}

INSTANTIATE_TEST_SUITE_P(
    Servers, RefusingServer, testing::Values("redis-server", "valkey-server"),
    [](const auto& kind) {
      return std::string(kind.param).substr(0, std::string(kind.param).find('-'));
    });

// A proxy, or a managed server, with a limit of the request's size: no line of the log reported the
// limit once.
// covers F-171
TEST(RefusingProxy, ProxyLimitOfOneMibLetsShortChunksThrough) {
  FakeServer server([](const FakeServer::Words& words) -> std::optional<std::string> {
    return words[0] == "SET" && words[2].size() > 1 << 20
               ? std::optional<std::string>("-ERR max request size exceeded\r\n")
               : std::nullopt;
  });
  LoggedLarderd larderd("256MiB", backend_at(server.socket()));
  EngineClient large(larderd->socket(), kLarge), small(larderd->socket(), kSmall);
  ASSERT_TRUE(large.client->wait_attached(30'000).ok() && small.client->wait_attached(30'000).ok());
  for (std::uint32_t n = 0; n < 6; ++n) ASSERT_EQ(large.store(n, 1, 30'000).stored, 1U);
  ASSERT_EQ(small.store(100, 1, 30'000).stored, 1U);
  ASSERT_TRUE(
      eventually([&] { return larderd.stored() == 1 && !larderd.reason().empty(); }, 20'000))
      << larderd.log();
  std::this_thread::sleep_for(std::chrono::seconds(8));  // and the chunk is tried once more
  expect_quiet(larderd, "answered with an error");
  EXPECT_THAT(larderd.log(), HasSubstr("chunks wait to be written"));
}

// A disk that holds no chunk: puts failed and no word was said.
// covers F-130, F-131
TEST(DiskTooSmallForAChunk, ReportedMinimumSizeHoldsAChunk) {
  char pattern[] = "/tmp/larder-small-disk-XXXXXX";
  const std::string disk = ::mkdtemp(pattern);
  const auto config = [&](const std::string& size) {
    return "disk:\n  path: " + disk + "\n  size: " + size + "\n  write: through\n";
  };
  const PageLayout layout{"chunk", 8, 32, 128 << 10, 0, false, 0};  // 32 MiB
  const auto reason_of = [](const LarderdProcess& larderd) {
    EXPECT_TRUE(eventually(
        [&] {
          return !larderd.status_text({"disk", "reason"}).empty();
        },
        10'000));
    EXPECT_EQ(larderd.status_text({"fallbacks", "0", "kind"}), "disk");
    return larderd.status_text({"disk", "reason"});
  };
  {
    LarderdProcess larderd("256MiB", "error", LARDERD_PATH, config("40MiB"));
    {
      EngineClient engine(larderd.socket(), layout);
      ASSERT_TRUE(engine.client->wait_attached(30'000).ok());
      ASSERT_EQ(engine.store(0, 1, 30'000).stored, 1U);
      const std::string reason = reason_of(larderd);
      EXPECT_THAT(reason, HasSubstr("disk.size: a disk of 40 MiB holds no chunk of 32.1 MiB"));
      EXPECT_THAT(reason, HasSubstr("set it to at least 1024 MiB"));
    }
    larderd.kill_and_restart();
    EXPECT_THAT(reason_of(larderd), HasSubstr("set it to at least 1024 MiB"))
        << "of chunks that came back, without an engine";
  }
  {
    LarderdProcess larderd("256MiB", "error", LARDERD_PATH, config("1024MiB"));
    EngineClient engine(larderd.socket(), layout);
    ASSERT_TRUE(engine.client->wait_attached(30'000).ok());
    ASSERT_EQ(engine.store(0, 1, 30'000).stored, 1U);
    EXPECT_TRUE(eventually([&] { return larderd.status_number({"disk", "chunks"}) == 1; }, 20'000));
    EXPECT_EQ(larderd.status_text({"disk", "reason"}), "");
  }
  {
    LarderdProcess larderd("120MiB", "error", LARDERD_PATH, config("1024MiB"));
    EngineClient engine(larderd.socket(), layout);
    ASSERT_TRUE(engine.client->wait_attached(30'000).ok());
    EXPECT_THAT(reason_of(larderd), HasSubstr("memory.size: "))
        << "a fetch has a quarter of it, before any chunk is stored";
    EXPECT_THAT(reason_of(larderd), HasSubstr("Set memory.size to at least 129 MiB"));
  }
  std::filesystem::remove_all(disk);
}

}  // namespace
}  // namespace larder::test
