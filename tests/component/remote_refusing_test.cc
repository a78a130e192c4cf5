// larderd over servers that refuse chunks: what is sent and said while nothing runs, what is stored all the same, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/component/larderd_process.h"
#include "tests/component/server_process.h"
#include "tests/long_form.h"
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

// A larderd whose log is counted.
class LoggedLarderd {
 public:
  explicit LoggedLarderd(const std::string& backend_socket) {
    char pattern[] = "/tmp/larder-refusing-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    const std::string program = folder_ + "/larderd";
    std::ofstream(program) << "#!/bin/sh\nexec " << LARDERD_PATH << " \"$@\" 2>> " << folder_ << "/log\n";
    ::chmod(program.c_str(), 0755);
    larderd_ = std::make_unique<LarderdProcess>("256MiB", "info", program, "backend:\n  url: unix://" + backend_socket + "\n");
  }
  ~LoggedLarderd() {
    larderd_.reset();
    std::filesystem::remove_all(folder_);
  }
  LarderdProcess* operator->() { return larderd_.get(); }
  std::int64_t sent_bytes() const { return larderd_->status_number({"backend", "device", "written_bytes"}); }
  std::int64_t stored() const { return larderd_->status_number({"backend", "puts", "ok"}); }
  std::string reason() const { return larderd_->status_text({"backend", "reason"}); }
  bool falls_back() const {
    for (const char* number : {"0", "1", "2", "3"})
      if (larderd_->status_text({"fallbacks", number, "kind"}) == "backend") return true;
    return false;
  }
  std::size_t lines() const {
    std::ifstream log(folder_ + "/log");
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(log), {}, '\n'));
  }
  std::string log() const {
    std::ifstream file(folder_ + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string folder_;
  std::unique_ptr<LarderdProcess> larderd_;
};

// The bound of the whole form: 10 lines and 1 MB in 60 s.
void expect_quiet(const LoggedLarderd& larderd, const std::string& cause) {
  const int seconds = by_form(8, 60);
  const std::int64_t before = larderd.sent_bytes();
  const std::size_t lines = larderd.lines();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  EXPECT_LE(larderd.sent_bytes() - before, 1'000'000 * seconds / 60);
  EXPECT_LE(larderd.lines() - lines, static_cast<std::size_t>(by_form(2, 10))) << larderd.log();
  EXPECT_THAT(larderd.reason(), HasSubstr(cause)) << larderd.log();
  EXPECT_TRUE(larderd.falls_back()) << "for the metrics, and the pool's conditions";
}

class RefusingServer : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (server_program(GetParam()).empty()) GTEST_SKIP() << "the server is not on this machine: make deps";
  }
  // Stores large and small chunks; the small ones, of another model, are in the server in the end.
  void store(LoggedLarderd& larderd, std::uint32_t large) {
    large_ = std::make_unique<EngineClient>(larderd->socket(), kLarge);
    small_ = std::make_unique<EngineClient>(larderd->socket(), kSmall);
    ASSERT_TRUE(large_->client->wait_attached(30'000).ok() && small_->client->wait_attached(30'000).ok());
    for (std::uint32_t n = 0; n < large; ++n) ASSERT_EQ(large_->store(n, 1, 30'000).stored, 1U);
    for (std::uint32_t n = 0; n < 4; ++n) ASSERT_EQ(small_->store(100 + n, 1, 30'000).stored, 1U);
  }
  // The server has the small chunks, refuses the large ones for this cause, and is left alone.
  void expect_short_ones(const ServerProcess& server, const std::string& cause) {
    LoggedLarderd larderd(server.socket());
    store(larderd, 6);
    ASSERT_TRUE(eventually([&] { return larderd.stored() == 4 && !larderd.reason().empty(); }, 20'000)) << larderd.log();
    std::this_thread::sleep_for(std::chrono::seconds(3));
    expect_quiet(larderd, cause);
  }
  std::unique_ptr<EngineClient> large_, small_;
};

// Redis' default: it was sent 85 MB/s, with 21 lines a second, while nothing ran.
TEST_P(RefusingServer, ThatIsFullIsSentNothingAndFilledOnceThereIsRoom) {
  ServerProcess server(GetParam(), {"--maxmemory", "30mb", "--maxmemory-policy", "noeviction"});
  LoggedLarderd larderd(server.socket());
  store(larderd, 10);
  ASSERT_TRUE(eventually([&] { return !larderd.reason().empty(); }, 20'000));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  expect_quiet(larderd, "the server is full");
  const std::int64_t stored = larderd.stored();
  EXPECT_GE(stored, 1);
  large_->engine.wipe();
  EXPECT_EQ(large_->load(9, 1).status, Code::kOk) << "memory goes on";
  server.ask({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_TRUE(eventually([&] { return larderd.stored() >= 14; }, 30'000)) << larderd.stored() << larderd.log();
  EXPECT_TRUE(eventually([&] { return larderd.reason().empty(); }, 5000)) << larderd.reason();
}

TEST_P(RefusingServer, WhoseValuesMustBeShortIsSentShortOnes) {
  ServerProcess server(GetParam(), {"--proto-max-bulk-len", "1mb"});
  expect_short_ones(server, "proto-max-bulk-len");
}

// It ends the connection in the middle of a chunk.
TEST_P(RefusingServer, WhoseQueriesMustBeShortIsSentShortOnes) {
  ServerProcess server(GetParam(), {"--client-query-buffer-limit", "1mb"});
  expect_short_ones(server, "do not get through");
}

INSTANTIATE_TEST_SUITE_P(Servers, RefusingServer, testing::Values("redis-server", "valkey-server"),
                         [](const auto& kind) { return std::string(kind.param).substr(0, std::string(kind.param).find('-')); });

// A proxy, or a managed server, with a limit of the request's size: not one line told of it.
TEST(RefusingProxy, ThatTakesNoValueOverOneMibIsSentShortOnes) {
  FakeServer server([](const FakeServer::Words& words) -> std::optional<std::string> {
    return words[0] == "SET" && words[2].size() > 1 << 20 ? std::optional<std::string>("-ERR max request size exceeded\r\n")
                                                          : std::nullopt;
  });
  LoggedLarderd larderd(server.socket());
  EngineClient large(larderd->socket(), kLarge), small(larderd->socket(), kSmall);
  ASSERT_TRUE(large.client->wait_attached(30'000).ok() && small.client->wait_attached(30'000).ok());
  for (std::uint32_t n = 0; n < 6; ++n) ASSERT_EQ(large.store(n, 1, 30'000).stored, 1U);
  ASSERT_EQ(small.store(100, 1, 30'000).stored, 1U);
  ASSERT_TRUE(eventually([&] { return larderd.stored() == 1 && !larderd.reason().empty(); }, 20'000)) << larderd.log();
  std::this_thread::sleep_for(std::chrono::seconds(8));  // and it is tried once more
  expect_quiet(larderd, "answered with an error");
  EXPECT_THAT(larderd.log(), HasSubstr("chunks wait to be written"));
}

// A disk that holds no chunk: puts failed and no word was said.
TEST(DiskTooSmallForAChunk, SaysWhichSizeHoldsItAndThatSizeDoes) {
  char pattern[] = "/tmp/larder-small-disk-XXXXXX";
  const std::string disk = ::mkdtemp(pattern);
  const auto config = [&](const std::string& size) {
    return "disk:\n  path: " + disk + "\n  size: " + size + "\n  write: through\n";
  };
  const PageLayout layout{"chunk", 8, 32, 128 << 10, 0, false, 0};  // 32 MiB
  std::string reason;
  {
    LarderdProcess larderd("128MiB", "error", LARDERD_PATH, config("40MiB"));
    EngineClient engine(larderd.socket(), layout);
    ASSERT_TRUE(engine.client->wait_attached(30'000).ok());
    ASSERT_EQ(engine.store(0, 1, 30'000).stored, 1U);
    ASSERT_TRUE(eventually([&] { return !larderd.status_text({"disk", "reason"}).empty(); }, 10'000));
    reason = larderd.status_text({"disk", "reason"});
    EXPECT_THAT(reason, HasSubstr("disk.size: a disk of 40 MiB holds no chunk of 32.1 MiB"));
    EXPECT_THAT(reason, HasSubstr("set it to at least 1024 MiB"));
    EXPECT_EQ(larderd.status_text({"fallbacks", "0", "kind"}), "disk");
  }
  {
    LarderdProcess larderd("128MiB", "error", LARDERD_PATH, config("1024MiB"));
    EngineClient engine(larderd.socket(), layout);
    ASSERT_TRUE(engine.client->wait_attached(30'000).ok());
    ASSERT_EQ(engine.store(0, 1, 30'000).stored, 1U);
    EXPECT_TRUE(eventually([&] { return larderd.status_number({"disk", "chunks"}) == 1; }, 20'000));
    EXPECT_EQ(larderd.status_text({"disk", "reason"}), "");
  }
  std::filesystem::remove_all(disk);
}

}  // namespace
}  // namespace larder::test
